"""ConsumeQueueExt: the files that RocketMQ's `enableConsumeQueueExt` keeps beside a queue, read only.

A ConsumeQueue unit whose tags code is at or below `MAX_EXT_ADDRESS` holds an address instead: -2^63 plus a position in
the files of `consumequeue_ext/TOPIC/ID`, at which there is a unit of variable length:

    size i16, tags_code i64, store_timestamp i64, bitmap length i16, bitmap
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
from rocketflow_store.format.consume_queue_unit import MAX_EXT_ADDRESS
from rocketflow_store.model.errors import StoreError
from rocketflow_store.views.queues.batch_consume_queue import detected_file_size

if TYPE_CHECKING:
    from pathlib import Path

_UNIT: Final = struct.Struct(">hqqh")
_LOWEST_ADDRESS: Final = -(1 << 63)
assert _UNIT.size == 20


class ExtUnit(NamedTuple):
    """One unit; `bitmap` is the bloom filter of SQL92 subscriptions."""

    tags_code: int
    store_timestamp: int
    bitmap: bytes


class ConsumeQueueExt:
    """The ext files of the queues of one store."""

    def __init__(self, directory: Path, file_size: int) -> None:
        self._directory, self._file_size = directory, file_size
        self._known: dict[tuple[str, int], MappedFileQueue] = {}

    def unit(self, topic: str, queue_id: int, address: int) -> ExtUnit | None:
        """Return the unit at an address, None if there is none."""
        assert address <= MAX_EXT_ADDRESS
        position = address - _LOWEST_ADDRESS
        files = self._known.get((topic, queue_id))
        if files is None:
            directory = self._directory / topic / str(queue_id)
            files = MappedFileQueue(directory, detected_file_size(directory) or self._file_size, write=False)
            self._known[topic, queue_id] = files
        mapped = files.find(position)
        if mapped is None:
            files.refresh()
            mapped = files.find(position)
        if mapped is None:
            return None
        at = position - mapped.file_from_offset
        try:
            head = mapped.read(at, _UNIT.size)
            if len(head) < _UNIT.size:
                return None
            size, tags_code, store_timestamp, bitmap_size = _UNIT.unpack(head)
            if bitmap_size < 0 or size != _UNIT.size + bitmap_size:
                return None
            return ExtUnit(tags_code, store_timestamp, mapped.read(at + _UNIT.size, bitmap_size))
        except (StoreError, OSError):
            return None

    def close(self) -> None:
        for files in self._known.values():
            files.close()
        self._known.clear()
