"""A store whose writer was killed, in its place: damaged, opened, and put back for the next trial."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

from rocketflow_store.files.os_files import cache_mark
from tests.support.independent_reader import Record, log_records

_CACHE_MARK_AT = 80


class KilledStore:
    """The store at `path`, without a writer.

    An open knows by the `abort` file that the page cache kept what was written. That file can be used once: `again`
    puts a new one in its place, and its mark into the confirm file. A copy of the directory lacks the mark.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._saved = path.with_name(f"{path.name}.saved")
        shutil.copytree(path, self._saved)
        self.records: list[Record] = list(log_records(path))

    def again(self) -> Path:
        """Put the store back as the kill left it, and return its path."""
        shutil.rmtree(self.path)
        shutil.copytree(self._saved, self.path)
        with (self.path / "rocketflow" / "confirm").open("r+b") as confirm:
            confirm.seek(_CACHE_MARK_AT)
            confirm.write(struct.pack("<q", cache_mark((self.path / "abort").stat())))
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
