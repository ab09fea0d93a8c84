"""`rocketflow/stop`: the state of the log, the queues and the index at the last orderly stop.

A lost queue directory leaves no trace at the log's end, nor does a lost index file: without this record the queue would
begin at 0 again. Queue files only grow, so what the record says of their first bytes stays true, also after a crash or
another writer, until retention removes them.

Checked JSON (`checked_json`), written like every small file (temporary, sync, rename, sync of the directory). If it
cannot be read, a sample of the log is checked instead (`derived_state`).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from rocketflow_store.files import os_files
from rocketflow_store.metadata.native.checked_json import read_checked_json, write_checked_json
from rocketflow_store.metadata.native.store_meta_fields import recorded_store_id
from rocketflow_store.metadata.native.tag_entries import TagEntries
from rocketflow_store.model.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

    from rocketflow_store.files.read_once import ReadFile
    from rocketflow_store.metadata.native.root_paths import RootPaths


Queue: TypeAlias = tuple[str, int]

CONTENT_BYTES: Final = 4 << 20
"""Of the newest queue files and of an index file, this many bytes are compared completely; of other files, both ends.
"""

NO_CRC: Final = -1


@dataclass(frozen=True, slots=True)
class QueueFile:
    """The file that begins at byte `base` of its queue, of which `length` bytes were written.

    `ends` is the CRC of the first and the last unit, `crc` that of all bytes (NO_CRC if it was not calculated).
    """

    base: int
    length: int
    last_phy_offset: int
    ends: int
    crc: int


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue: `listed` if its topic was in `config/topics.json`; `end` is the queue offset after the last message.

    `last_phy_offset` is where that message begins; -1 if unknown.
    """

    end: int
    listed: bool
    files: tuple[QueueFile, ...]
    last_phy_offset: int = -1

    @classmethod
    def of(cls, end: int, *, listed: bool, files: tuple[QueueFile, ...]) -> Self:
        """Return the state of a queue with these files."""
        return cls(end, listed, files, files[-1].last_phy_offset if files else -1)


@dataclass(frozen=True, slots=True)
class IndexState:
    """An index file: the physical offset of its newest entry, where its content ends, CRCs of header and content."""

    end_phy_offset: int
    content_end: int
    header: int
    crc: int


@dataclass(frozen=True, slots=True)
class LogHead:
    """Sizes and CRCs of the first two records of a CommitLog file (0 if there is none)."""

    first_size: int
    first: int
    second_size: int
    second: int


@dataclass(frozen=True, slots=True)
class StopRecord:
    """The state that the next open compares; `index` is None if it was not recorded."""

    min_phy_offset: int
    end_phy_offset: int
    checkpoint: int
    queues: dict[Queue, QueueState] = field(default_factory=dict)
    batch_queues: dict[Queue, QueueState] = field(default_factory=dict)
    batch_file_size: int = 0
    """Size of the files of batch queues; 0 if there are none."""
    index: dict[str, IndexState] | None = None
    heads: dict[int, LogHead] = field(default_factory=dict)
    """By the offset at which the file begins."""
    store_id: str = ""
    record_crc_from: int = -1
    """Every record from here on ends with a CRC of itself; -1 if unknown."""
    tag_entries: TagEntries = field(default_factory=TagEntries)
    """Ranges in which the index names the TAGS of every record."""

    @classmethod
    def load(cls, paths: RootPaths) -> Self | None:
        """Return the record of a store, None if it is missing or invalid."""
        document = read_checked_json(paths.stop_record)
        try:
            return None if document is None else cls._of(document)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    @classmethod
    def _of(cls, document: dict[str, Any]) -> Self:
        index = document["index"]
        return cls(
            document["minPhyOffset"],
            document["endPhyOffset"],
            document["checkpoint"],
            _states_of(document["queues"]),
            _states_of(document.get("batchQueues", [])),
            document.get("batchFileSize", 0),
            None if index is None else {name: IndexState(*one) for name, one in index.items()},
            {int(base): LogHead(*one) for base, one in document["heads"].items()},
            document["storeId"],
            document["recordCrcFrom"],
            TagEntries.from_json(document.get("tagEntries")),
        )

    def is_expired(self, queue: tuple[str, int], min_phy_offset: int) -> bool:
        """Return True if every message of a queue was before the log's present begin."""
        state = self.queues.get(queue)
        return state is not None and 0 <= state.last_phy_offset < min_phy_offset

    def without_files(self, *, same_index: bool = False) -> Self:
        """Return what stays true when queues and index are rebuilt: the ends of the log and the queues.

        With `same_index` the index is kept, and with it the ranges of its entries for TAGS.
        """
        queues = {key: replace(one, files=()) for key, one in self.queues.items()}
        batch_queues = {key: replace(one, files=()) for key, one in self.batch_queues.items()}
        tags = self.tag_entries if same_index else TagEntries()
        return replace(self, queues=queues, batch_queues=batch_queues, index=None, tag_entries=tags)

    def without_topic(self, topic: str) -> Self:
        """Return what stays true when a topic is deleted."""
        queues = {key: one for key, one in self.queues.items() if key[0] != topic}
        batch_queues = {key: one for key, one in self.batch_queues.items() if key[0] != topic}
        return replace(self, queues=queues, batch_queues=batch_queues)

    def write(self, paths: RootPaths) -> None:
        """Write this as the store's record, durably."""
        document = {
            "minPhyOffset": self.min_phy_offset,
            "endPhyOffset": self.end_phy_offset,
            "checkpoint": self.checkpoint,
            "storeId": self.store_id,
            "recordCrcFrom": self.record_crc_from,
            "tagEntries": self.tag_entries.as_json(),
            "queues": _as_lists(self.queues),
            "batchQueues": _as_lists(self.batch_queues),
            "batchFileSize": self.batch_file_size,
            "heads": {str(base): _numbers(one) for base, one in self.heads.items()},
            "index": None if self.index is None else {name: _numbers(one) for name, one in self.index.items()},
        }
        write_checked_json(paths.stop_record, document)


def _states_of(entries: list[Any]) -> dict[Queue, QueueState]:
    found = {}
    for topic, queue_id, end, listed, files, *last in entries:
        state = QueueState.of(end, listed=listed, files=tuple(QueueFile(*one) for one in files))
        found[topic, queue_id] = replace(state, last_phy_offset=last[0]) if last else state  # older records lack it
    return found


def _as_lists(queues: dict[Queue, QueueState]) -> list[list[Any]]:
    return [
        [*key, one.end, one.listed, [_numbers(file) for file in one.files], one.last_phy_offset]
        for key, one in queues.items()
    ]


def checkpoint_crc(paths: RootPaths) -> int:
    """Return the CRC of the checkpoint, NO_CRC if it is missing: every other writer leaves another checkpoint."""
    try:
        return zlib.crc32(os_files.read_file(paths.checkpoint))
    except (OSError, StoreError):
        return NO_CRC


def read_piece(path: Path, position: int, size: int) -> bytes:
    """Return up to `size` bytes of a file."""
    fd = os_files.open_file(path, write=False)
    try:
        return os_files.read_at(fd, position, size, path)
    finally:
        os_files.close_file(fd)


def _numbers(one: QueueFile | IndexState | LogHead) -> list[int]:
    return [getattr(one, name) for name in one.__slots__]


def believed_record(paths: RootPaths, read: ReadFile = os_files.read_file) -> StopRecord | None:
    """Return the record of the last orderly stop, None if it is missing or of another store."""
    record = StopRecord.load(paths)
    if record is None:
        return None
    store_id = recorded_store_id(paths.meta, read)
    return None if store_id and record.store_id and store_id != record.store_id else record
