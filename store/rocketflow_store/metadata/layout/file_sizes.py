"""Detect the sizes of a store's files from the files and from `store.meta`.

Sizes are properties of a store: a program that opens it has to use them. One file of another size (truncated, or half
created before a stop) must not change the result, and two files that contradict each other must not be averaged.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rocketflow_store.files.json_fields import int64_field
from rocketflow_store.files.os_files import access_error, read_file
from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.format.index_layout import index_file_size, layout_of_size
from rocketflow_store.metadata.layout.store_paths import StorePaths
from rocketflow_store.metadata.native.store_meta_fields import SIZE_KEYS, read_meta_fields
from rocketflow_store.model.errors import StoreConfigError, StoreVersionError
from rocketflow_store.settings.settings_table import LIMITS
from rocketflow_store.settings.store_config import StoreConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketflow_store.files.read_once import ReadFile

_ENOUGH_QUEUES: Final = 64
"""Once so many queues agree, no further ones are checked."""


class _File(NamedTuple):
    path: str
    base: int
    size: int


def fitted_to(config: StoreConfig, paths: StorePaths, read: ReadFile = read_file) -> StoreConfig:
    """Return `config` with the file sizes that the store already has."""
    sizes = detect_sizes(paths, read)
    try:
        return replace(config, **sizes)  # type: ignore[arg-type]
    except StoreConfigError:  # no store has files of such a size; the open names the file that does
        return config


def config_for_store(path: str | os.PathLike[str], **overrides: Any) -> StoreConfig:
    """Return settings for the store at `path`: file sizes taken from its files, the rest default or `overrides`."""
    chosen = StoreConfig(**overrides)
    return replace(fitted_to(chosen, StorePaths.of(Path(path), chosen)), **overrides)


def detect_sizes(paths: StorePaths, read: ReadFile = read_file) -> dict[str, int]:
    """Return the known sizes by the names of StoreConfig's fields.

    Raises StoreVersionError if ConsumeQueue files were created with different sizes.
    """
    recorded = _sizes_in_meta(paths, read)
    found = dict(recorded)
    logs = [one for directory in paths.commit_logs for one in _files(directory)]
    units = _queue_sizes(paths.consume_queue)
    for name, counts in (
        ("mapped_file_size_commit_log", Counter(one.size for one in logs)),
        ("mapped_file_size_consume_queue", units.likely()),
    ):
        size = _likely(counts, recorded.get(name))
        if size is not None:
            found[name] = size
    batch_size = batch_file_size(paths)
    if batch_size is not None:
        found["mapper_file_size_batch_consume_queue"] = batch_size
    layout = _index_layout(paths.index, recorded)
    if layout is not None:
        found["max_hash_slot_num"], found["max_index_num"] = layout
    return found


def batch_file_size(paths: StorePaths, recorded: int | None = None) -> int | None:
    """Return the size of BatchConsumeQueue files; `recorded` is a size that was noted earlier."""
    return _likely(_queue_sizes(paths.batch_consume_queue, BATCH_UNIT_SIZE).likely(), recorded)


def _likely(counts: Counter[int], recorded: int | None) -> int | None:
    """Return the size that the files were created with: `recorded` if a file has it, else the commonest, else the
    largest.

    If the commonest is that of a single file, a larger recorded size wins: the file was truncated.
    """
    if not counts or (recorded is not None and recorded in counts):
        return recorded
    best = max(counts, key=lambda size: (counts[size], size))
    return recorded if recorded is not None and counts[best] == 1 and best < recorded else best


class _QueueSizes:
    """Sizes of the files of queues.

    A file that is followed by another ends where that begins; the last one counts by its length.
    """

    def __init__(self, unit_size: int) -> None:
        self._unit_size = unit_size
        self._certain: dict[int, str] = {}
        self._lengths: Counter[int] = Counter()

    def look(self, files: list[_File]) -> None:
        """Take the files of one queue, oldest first."""
        for one, following in pairwise(files):
            if one.size == following.base - one.base and one.size % self._unit_size == 0:
                self._certain.setdefault(one.size, one.path)
        if files and files[-1].size % self._unit_size == 0 and files[-1].base % files[-1].size == 0:
            self._lengths[files[-1].size] += 1

    @property
    def agree(self) -> bool:
        return len({*self._certain, *self._lengths}) <= 1

    def likely(self) -> Counter[int]:
        """Return the number of files by size; raise StoreVersionError if two sizes are certain."""
        if len(self._certain) > 1:
            (first, path), (second, other) = sorted(self._certain.items())[:2]
            raise StoreVersionError(
                path,
                f"was made with {first} bytes and {other} with {second}: they are of different stores; put the queues "
                "of one of them elsewhere",
            )
        return Counter(dict.fromkeys(self._certain, 1 << 30)) if self._certain else self._lengths


def _queue_sizes(directory: Path, unit_size: int = UNIT_SIZE) -> _QueueSizes:
    sizes = _QueueSizes(unit_size)
    for number, queue in enumerate(one for topic in _directories(directory) for one in _directories(topic)):
        if number >= _ENOUGH_QUEUES and sizes.agree:
            break
        sizes.look(_files(queue))
    return sizes


def _index_layout(directory: Path, recorded: dict[str, int]) -> tuple[int, int] | None:
    """Return (hash slots, entries) of index files; the file size alone is enough only for usual proportions."""
    sizes = Counter(one.size for one in _files(directory))
    if "max_hash_slot_num" in recorded and "max_index_num" in recorded:
        layout = recorded["max_hash_slot_num"], recorded["max_index_num"]
        size = index_file_size(*layout)
        if _likely(sizes, size) == size:
            return layout
    size = _likely(sizes, None) or 0
    return layout_of_size(size) if size else None


def _sizes_in_meta(paths: StorePaths, read: ReadFile) -> dict[str, int]:
    """Return the sizes in `store.meta`, or in its copy: future files will be created with them.

    A size that no store can have is damage and is ignored.
    """
    for path in (paths.meta, paths.meta_copy):
        try:
            body = read_meta_fields(path, read)
            recorded = {name: int64_field(body, key, 0) for name, key in SIZE_KEYS.items() if key in body}
            return {name: size for name, size in recorded.items() if LIMITS[name][0] <= size <= LIMITS[name][1]}
        except (OSError, ValueError):
            continue
    return {}


def _files(directory: Path) -> list[_File]:
    """Return the files whose names are numbers, in ascending order; empty files are skipped."""
    found = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name.isdigit() and entry.is_file():
                    size = entry.stat().st_size
                    if size:
                        found.append(_File(entry.path, int(entry.name), size))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise access_error(directory, error) from error
    return sorted(found, key=lambda one: one.base)


def _directories(directory: Path) -> Iterator[Path]:
    try:
        with os.scandir(directory) as entries:
            found = sorted(entry.path for entry in entries if entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise access_error(directory, error) from error
    yield from map(Path, found)
