"""A store whose writer was killed, in its place: damaged, opened, and put back for the next trial."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.support.independent_reader import Record, log_records


class KilledStore:
    """The store at `path`, without a writer.

    `again` puts everything back, also the very `abort` file of the writer: by it the next open knows that the page
    cache kept what was written. A copy of the directory has another one, as a copy of a disk has.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._saved, self._abort = path.with_name(f"{path.name}.saved"), path.with_name(f"{path.name}.abort")
        shutil.copytree(path, self._saved)
        os.link(path / "abort", self._abort)
        self.records: list[Record] = list(log_records(path))

    def again(self) -> Path:
        """Put the store back as the kill left it, and return its path."""
        shutil.rmtree(self.path)
        shutil.copytree(self._saved, self.path)
        (self.path / "abort").unlink()
        os.link(self._abort, self.path / "abort")
        return self.path

    def copy(self, target: Path) -> Path:
        """Copy the store as the kill left it to a new directory, which no page cache is known to have kept."""
        shutil.rmtree(target, ignore_errors=True)
        return Path(shutil.copytree(self._saved, target))


def flip_bit(store: Path, phy_offset: int, bit: int) -> None:
    """Flip a bit of the byte at a physical offset of the log."""
    files = sorted((store / "commitlog").iterdir())
    file = next(one for one in reversed(files) if int(one.name) <= phy_offset)
    with file.open("r+b") as log:
        log.seek(phy_offset - int(file.name))
        (byte,) = log.read(1)
        log.seek(phy_offset - int(file.name))
        log.write(bytes([byte ^ 1 << bit]))
