"""The swap of new files into a store: which file goes where, and which old files are removed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketflow_store.files import os_files
from rocketflow_store.model.errors import StoreVersionError
from rocketflow_store.recovery.derived_swap import DerivedSwap, files_below, same_content, side_directories
from rocketflow_store.views.index.index_service import is_index_name, next_name

if TYPE_CHECKING:
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.rebuild.scan_task import QueueChoice
    from rocketflow_store.settings.store_config import StoreConfig

_NAME_DIGITS: Final = 20


@dataclass(frozen=True, slots=True)
class SidePlaces:
    """Directories in which one rebuild writes its files."""

    parts: Path
    queues: Path
    batch_queues: Path
    index: Path


def side_of(paths: StorePaths, run: str) -> SidePlaces:
    """Return the side directories of a rebuild."""
    queues, batch_queues, index = side_directories(paths)
    home = paths.rocketflow / "rebuild" / run
    return SidePlaces(
        home, queues / run / "consumequeue", batch_queues / run / "batchconsumequeue", index / run / "index"
    )


def plan_swap(
    paths: StorePaths, config: StoreConfig, side: SidePlaces, choice: QueueChoice, *, everything: bool
) -> DerivedSwap:
    """Return the swap of all files that differ; new files, and their names, are durable when this returns."""
    moves: list[tuple[Path, Path]] = []
    removed: list[Path] = []
    if choice.units:
        for made, room, size in (
            (side.queues, paths.consume_queue, config.mapped_file_size_consume_queue),
            (side.batch_queues, paths.batch_consume_queue, config.mapper_file_size_batch_consume_queue),
        ):
            queues: dict[Path, list[Path]] = {}
            for new in made_files(made):
                queues.setdefault(new.parent, []).append(new)
            for directory, files in queues.items():
                place = room / directory.relative_to(made)
                _check_directories(room, place)
                moves += [(new, place / new.name) for new in files if not same_content(new, place / new.name)]
                removed += _surplus(place, {int(one.name) for one in files}, size)
    if choice.index:
        _check_directories(paths.index, paths.index)
        old = [one for one in files_below(paths.index) if is_index_name(one.name) and one.parent == paths.index]
        last = old[-1].name if old else None
        files_made = made_files(side.index)
        for number, new in enumerate(files_made):
            if number < len(old):
                place = old[number]
            else:
                last = next_name(config.clock.now_ms(), last)
                place = paths.index / last
            if not same_content(new, place):
                moves.append((new, place))
        removed += old[len(files_made) :]
    if moves:
        _sync_directories(side, paths)
    return DerivedSwap(tuple(moves), tuple(removed), everything)


def made_files(top: Path) -> list[Path]:
    """Return the files that tasks completed."""
    return [one for one in files_below(top) if one.name.isdigit()]


def _check_directories(room: Path, place: Path) -> None:
    for one in (room, *(parent for parent in place.parents if parent.is_relative_to(room)), place):
        if one.exists() and not one.is_dir():
            raise StoreVersionError(one, "is not a directory; `rocketflow store verify --repair` quarantines it")


def _surplus(place: Path, made: set[int], size: int) -> list[Path]:
    """Return surplus files of a queue: after its end, or before its first new file after a gap or of another size."""
    there = {int(one.name): one for one in files_below(place) if one.name.isdigit() and len(one.name) >= _NAME_DIGITS}
    kept, at = set(made), min(made) - size
    while at in there and there[at].stat().st_size == size:
        kept.add(at)
        at -= size
    return [one for base, one in sorted(there.items()) if base not in kept]


def _sync_directories(side: SidePlaces, paths: StorePaths) -> None:
    """Make the names of all new files durable."""
    for top in (side.queues, side.batch_queues, side.index):
        for directory in _directories(top):
            os_files.sync_directory(directory)
        for parent in (top.parent, top.parent.parent, top.parent.parent.parent):
            if parent.is_dir():
                os_files.sync_directory(parent)
    os_files.sync_directory(paths.root)


def _directories(top: Path) -> list[Path]:
    if not top.is_dir():
        return []
    found = [top]
    for one in sorted(top.iterdir()):
        if one.is_dir():
            found += _directories(one)
    return found
