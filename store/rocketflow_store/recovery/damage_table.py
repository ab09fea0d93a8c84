"""The damaged, cut and lost parts of a log, as one recovery found them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.recovery.quarantine import QUARANTINED, Quarantine
from rocketflow_store.recovery.result import Loss, Quarantined

if TYPE_CHECKING:
    from pathlib import Path

    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.metadata.layout.store_paths import StorePaths


class DamageTable:
    """Byte ranges that are skipped, and the list of damage and of lost messages for the report."""

    def __init__(self, files: MappedFileQueue) -> None:
        self._files = files
        self.skipped: list[tuple[int, int]] = []
        """Ranges [start, end) of physical offsets without a valid record, ascending and disjoint."""
        self.listed: list[Quarantined] = []

    def skip(self, start: int, stop: int, why: str, *, unused: bool) -> None:
        """Skip [start, stop), which follows what was skipped before; list it unless it is an `unused` rest."""
        if self.skipped and self.skipped[-1][1] == start:
            self.skipped[-1] = self.skipped[-1][0], stop
        else:
            self.skipped.append((start, stop))
        if unused:
            return
        last = self.listed[-1] if self.listed else None
        if last is not None and last.offset + last.length == start:
            last.length += stop - start
        else:
            self.listed.append(Quarantined(self._file_name(start), start, stop - start, f"damaged ({why})"))

    def lose_messages(self, phy_offset: int, why: str) -> None:
        """List messages without a valid record; the damage begins at `phy_offset`."""
        self.listed.append(Quarantined(self._file_name(phy_offset), phy_offset, 0, f"lost: {why}", Loss.LOST))

    def lose_bytes(self, path: Path, start: int, stop: int, why: str) -> None:
        """List bytes of the log that no file holds anymore."""
        self.listed.append(Quarantined(str(path), start, stop - start, f"lost: {why}", Loss.LOST))

    def cut(self, start: int, length: int, why: str, kept: Path | None = None) -> None:
        """List bytes that are removed; the file `kept` has a copy of them (None: nothing was done yet)."""
        why = f"cut: {why}" if kept is None else f"cut: {why}; kept in {kept}"
        self.listed.append(Quarantined(self._file_name(start), start, length, why, Loss.CUT))

    def keep_copies(self, paths: StorePaths) -> None:
        """Copy damaged bytes that stay to the quarantine."""
        quarantine = Quarantine(paths)
        for one in self.listed:
            mapped = self._files.find(one.offset)
            if mapped is not None and one.loss is Loss.DAMAGED:
                position = one.offset - mapped.file_from_offset
                length = min(one.length, mapped.file_size - position)
                data = mapped.bytes_of(position, position + length)
                kept = quarantine.keep(f"commitlog/{one.offset:020d}.record", data)
                quarantine.note(QUARANTINED, one.file, position, length, one.why, kept)

    def _file_name(self, offset: int) -> str:
        mapped = self._files.find(offset)
        return str(mapped.path if mapped else self._files.directory)
