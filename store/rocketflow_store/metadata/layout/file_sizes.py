"""With which sizes the files of a store were made, told by the files themselves and by `store.meta`.

Sizes are properties of a store: who opens it has to take them as they are. One file of another size (cut off, or half
made by a stop) must not change what is believed, and two that contradict each other must not be averaged.
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
"""After so many queues that agree no more are asked."""


class _File(NamedTuple):
    path: str
    base: int
    size: int


def fitted_to(config: StoreConfig, paths: StorePaths, read: ReadFile = read_file) -> StoreConfig:
    """Return `config` with the file sizes that the store already has."""
    sizes = detect_sizes(paths, read)
    try:
        return replace(config, **sizes)  # type: ignore[arg-type]
    except StoreConfigError:  # no file can have been made with such a size; whoever opens it says which has it
        return config


def config_for_store(path: str | os.PathLike[str], **overrides: Any) -> StoreConfig:
    """Return settings for the store at `path`: file sizes taken from its files, the rest default or `overrides`."""
    chosen = StoreConfig(**overrides)
    return replace(fitted_to(chosen, StorePaths.of(Path(path), chosen)), **overrides)


def detect_sizes(paths: StorePaths, read: ReadFile = read_file) -> dict[str, int]:
    """Sizes by the names of StoreConfig's fields; only those that the store tells.

    StoreVersionError where files of ConsumeQueues were made with different sizes.
    """
    told = _sizes_in_meta(paths, read)
    found = dict(told)
    logs = [one for directory in paths.commit_logs for one in _files(directory)]
    units = _queue_sizes(paths.consume_queue)
    for name, counts in (
        ("mapped_file_size_commit_log", Counter(one.size for one in logs)),
        ("mapped_file_size_consume_queue", units.likely()),
    ):
        size = _likely(counts, told.get(name))
        if size is not None:
            found[name] = size
    batch_size = batch_file_size(paths)
    if batch_size is not None:
        found["mapper_file_size_batch_consume_queue"] = batch_size
    layout = _index_layout(paths.index, told)
    if layout is not None:
        found["max_hash_slot_num"], found["max_index_num"] = layout
    return found


def batch_file_size(paths: StorePaths, told: int | None = None) -> int | None:
    """With which size the files of BatchConsumeQueues were made; `told` is what somebody noted of it."""
    return _likely(_queue_sizes(paths.batch_consume_queue, BATCH_UNIT_SIZE).likely(), told)


def _likely(counts: Counter[int], told: int | None) -> int | None:
    """Which size the files were made with: `told` if one has it, the commonest, the larger of equals.

    Where that is a single file, a larger size that was told is believed: the file was cut.
    """
    if not counts or (told is not None and told in counts):
        return told
    best = max(counts, key=lambda size: (counts[size], size))
    return told if told is not None and counts[best] == 1 and best < told else best


class _QueueSizes:
    """What the files of queues say: those followed by another one by where that begins, the others by their length."""

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
        """How many files speak for which size."""
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


def _index_layout(directory: Path, told: dict[str, int]) -> tuple[int, int] | None:
    """(hash slots, entries) of index files; their size alone tells only usual proportions."""
    sizes = Counter(one.size for one in _files(directory))
    if "max_hash_slot_num" in told and "max_index_num" in told:
        layout = told["max_hash_slot_num"], told["max_index_num"]
        size = index_file_size(*layout)
        if _likely(sizes, size) == size:
            return layout
    size = _likely(sizes, None) or 0
    return layout_of_size(size) if size else None


def _sizes_in_meta(paths: StorePaths, read: ReadFile) -> dict[str, int]:
    """Return the sizes in `store.meta`, or in its copy: files that do not exist yet will be made with them.

    A value that no store can have is damage: the files are asked instead.
    """
    for path in (paths.meta, paths.meta_copy):
        try:
            body = read_meta_fields(path, read)
            told = {name: int64_field(body, key, 0) for name, key in SIZE_KEYS.items() if key in body}
            return {name: size for name, size in told.items() if LIMITS[name][0] <= size <= LIMITS[name][1]}
        except (OSError, ValueError):
            continue
    return {}


def _files(directory: Path) -> list[_File]:
    """Files with numbers for names, by number; empty ones tell nothing."""
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
