"""The swap of files that were made beside the store into their places; a stopped swap can be completed.

A journal, `rocketflow/rebuild/swap`, lists the work before the first rename; like every small file it is durable, and
so are the new files by then. A process that is killed before the journal exists has changed nothing; after that, the
next open for writing (or the next rebuild) completes the swap. A file replaces another by one rename, so that readers
always find one; the old files keep a second name in the side directory until everything is durable.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from rocketflow_store.files import os_files
from rocketflow_store.metadata.native.healing import end_healing, unfinished_healing
from rocketflow_store.metadata.native.stop_record import StopRecord
from rocketflow_store.metadata.native.swap_journal import SwapJournal, read_swap_journal, write_swap_journal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocketflow_store.metadata.layout.store_paths import StorePaths

_JOURNAL: Final = "swap"
_OLD: Final = "old"


def side_directories(paths: StorePaths) -> tuple[Path, Path, Path]:
    """Return where new files of queues, batch queues and index are made, on the disks of the old ones."""
    home = paths.rocketflow / "rebuild"

    def beside(directory: Path) -> Path:
        return home if directory.parent == paths.root else directory.with_name(f"{directory.name}.rebuild")

    return beside(paths.consume_queue), beside(paths.batch_consume_queue), beside(paths.index)


@dataclass(frozen=True, slots=True)
class DerivedSwap:
    """Files with their new places, and files to remove. `everything`: all queues and the index are replaced."""

    moves: tuple[tuple[Path, Path], ...]
    removed: tuple[Path, ...] = ()
    everything: bool = False

    @classmethod
    def left_over(cls, paths: StorePaths) -> Self | None:
        """Return the swap that an earlier process began; None without one.

        Raises:
            StoreAccessError: the journal cannot be read.
            StoreVersionError: a later version wrote it.
        """
        journal = read_swap_journal(_journal(paths))
        if journal is None:
            return None
        root = paths.root
        return cls(
            tuple((_within(root, new), _within(root, place)) for new, place in journal.moves),
            tuple(_within(root, one) for one in journal.removed),
            journal.everything,
        )

    def begin(self, paths: StorePaths) -> None:
        """Write the journal durably: from now on a stopped swap is completed."""
        moves = tuple((_relative(paths, new), _relative(paths, place)) for new, place in self.moves)
        removed = tuple(_relative(paths, one) for one in self.removed)
        write_swap_journal(_journal(paths), SwapJournal(moves, removed, self.everything))

    def apply(self, paths: StorePaths) -> None:
        """Do the remaining renames and removals durably; a second call changes nothing."""
        record = StopRecord.load(paths)
        if record is not None:
            record.without_files().write(paths)
        changed: set[Path] = set()
        for number, (new, place) in enumerate(self.moves):
            changed.add(place.parent)
            if not new.exists():
                continue
            _make_durable_directory(place.parent)
            old = new.parent / f"{new.name}.{_OLD}-{number}"
            if place.exists():
                os_files.hard_link(place, old)
            try:
                os_files.rename(new, place)
            except OSError as error:
                raise os_files.access_error(place, error) from error
        for one in self.removed:
            changed.add(one.parent)
            os_files.remove_file(one)
        for directory in sorted(changed):
            if directory.is_dir():
                os_files.sync_directory(directory)
        if self.everything and unfinished_healing(paths) is not None:
            end_healing(paths)

    def end(self, paths: StorePaths) -> None:
        """Remove the journal after everything is done and durable."""
        os_files.remove_file(_journal(paths))
        os_files.sync_directory(_journal(paths).parent)


def is_unfinished(paths: StorePaths) -> bool:
    """Return whether a rebuild was stopped: its journal, or new files, exist."""
    return any(os.path.lexists(one) for one in dict.fromkeys(side_directories(paths)))


def finish_swap(paths: StorePaths) -> None:
    """Complete the swap of a stopped rebuild, and remove what it left. The caller holds the writer's lock."""
    swap = DerivedSwap.left_over(paths)
    if swap is not None:
        swap.apply(paths)
        swap.end(paths)
    sweep(paths)


def sweep(paths: StorePaths) -> None:
    """Remove the side directories of every rebuild; none may be running."""
    for directory in dict.fromkeys(side_directories(paths)):
        if os.path.lexists(directory):
            os_files.remove_tree(directory)
            os_files.sync_directory(directory.parent)


def _make_durable_directory(directory: Path) -> None:
    if directory.is_dir():
        return
    _make_durable_directory(directory.parent)
    os_files.make_directory(directory)
    os_files.sync_directory(directory.parent)


def _journal(paths: StorePaths) -> Path:
    return paths.rocketflow / "rebuild" / _JOURNAL


def _relative(paths: StorePaths, path: Path) -> str:
    return os.path.relpath(path, paths.root)


def _within(root: Path, relative: str) -> Path:
    return Path(os.path.normpath(root / relative))


def same_content(one: Path, other: Path, block: int = 1 << 22) -> bool:
    """Return True if two files hold the same bytes; those that were never written to either are not read."""
    if not other.is_file() or one.stat().st_size != other.stat().st_size:
        return False
    first, second = os_files.open_file(one, write=False), os_files.open_file(other, write=False)
    try:
        compared, size = 0, os_files.file_size(first)
        written = [*os_files.data_ranges(first, one, 0, size), *os_files.data_ranges(second, other, 0, size)]
        for start, stop in sorted(written):
            for at in range(max(start, compared), stop, block):
                length = min(block, stop - at)
                if os_files.read_at(first, at, length, one) != os_files.read_at(second, at, length, other):
                    return False
            compared = max(compared, stop)
        return True
    finally:
        os_files.close_file(first)
        os_files.close_file(second)


def files_below(directory: Path) -> Iterable[Path]:
    """Yield every file of a directory tree, in order of names."""
    if directory.is_dir():
        for one in sorted(directory.iterdir()):
            if one.is_dir() and not one.is_symlink():
                yield from files_below(one)
            else:
                yield one
