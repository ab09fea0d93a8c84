"""Putting files that were made beside the store in the place of its own, so that a stop in between is gone on with.

What is to be done stands in a journal before the first rename: `rocketflow/rebuild/swap`, durable like every small
file, and the new files are by then. A process that is killed in front of it has changed nothing; behind it, the next
open for writing (or the next rebuild) goes on. A file takes the place of another by one rename, so that no reader ever
finds none; the old ones keep a second name in the side directory until everything is durable.
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
    """Where new files of queues, batch queues and index are made, on the disks of the old ones."""
    home = paths.rocketflow / "rebuild"

    def beside(room: Path) -> Path:
        return home if room.parent == paths.root else room.with_name(f"{room.name}.rebuild")

    return beside(paths.consume_queue), beside(paths.batch_consume_queue), beside(paths.index)


@dataclass(frozen=True, slots=True)
class DerivedSwap:
    """Files and their new places, and files that go. `everything`: queues and index are then made anew as a whole."""

    moves: tuple[tuple[Path, Path], ...]
    removed: tuple[Path, ...] = ()
    everything: bool = False

    @classmethod
    def left_over(cls, paths: StorePaths) -> Self | None:
        """The swap that somebody began; None without one.

        StoreAccessError where it cannot be read, StoreVersionError where it cannot be understood.
        """
        told = read_swap_journal(_journal(paths))
        if told is None:
            return None
        root = paths.root
        return cls(
            tuple((_within(root, new), _within(root, place)) for new, place in told.moves),
            tuple(_within(root, one) for one in told.removed),
            told.everything,
        )

    def begin(self, paths: StorePaths) -> None:
        """Note it, durably: from now on it is gone on with."""
        moves = tuple((_told(paths, new), _told(paths, place)) for new, place in self.moves)
        removed = tuple(_told(paths, one) for one in self.removed)
        write_swap_journal(_journal(paths), SwapJournal(moves, removed, self.everything))

    def apply(self, paths: StorePaths) -> None:
        """Do what is not done yet, durably; doing it again changes nothing."""
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
        """It is all done and durable."""
        os_files.remove_file(_journal(paths))
        os_files.sync_directory(_journal(paths).parent)


def is_unfinished(paths: StorePaths) -> bool:
    """Return whether a rebuild was stopped: its journal, or new files, exist."""
    return any(os.path.lexists(one) for one in dict.fromkeys(side_directories(paths)))


def finish_swap(paths: StorePaths) -> None:
    """Under the writer's lock: go on with what a stopped rebuild began, and let go what one left behind."""
    swap = DerivedSwap.left_over(paths)
    if swap is not None:
        swap.apply(paths)
        swap.end(paths)
    sweep(paths)


def sweep(paths: StorePaths) -> None:
    """Remove the side directories of every rebuild; nobody may be at one."""
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


def _told(paths: StorePaths, path: Path) -> str:
    return os.path.relpath(path, paths.root)


def _within(root: Path, told: str) -> Path:
    return Path(os.path.normpath(root / told))


def same_content(one: Path, other: Path, block: int = 1 << 22) -> bool:
    """Whether two files hold the same bytes."""
    if not other.is_file() or one.stat().st_size != other.stat().st_size:
        return False
    first, second = os_files.open_file(one, write=False), os_files.open_file(other, write=False)
    try:
        size = os_files.file_size(first)
        return all(
            os_files.read_at(first, at, block, one) == os_files.read_at(second, at, block, other)
            for at in range(0, size, block)
        )
    finally:
        os_files.close_file(first)
        os_files.close_file(second)


def files_below(directory: Path) -> Iterable[Path]:
    """Every file of a directory tree, in order of names."""
    if directory.is_dir():
        for one in sorted(directory.iterdir()):
            if one.is_dir() and not one.is_symlink():
                yield from files_below(one)
            else:
                yield one
