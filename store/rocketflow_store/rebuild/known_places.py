"""Evidence of a store about its queues besides the records: where they begin, and where they ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.record import MAGIC_V1, MAGIC_V2, SIZE_AND_MAGIC
from rocketflow_store.metadata.native.confirm import read_confirm
from rocketflow_store.metadata.native.durable_ends import DurableEnds
from rocketflow_store.views.queues.batch_consume_queue import BatchConsumeQueue
from rocketflow_store.views.queues.claimed_places import DamagedBytes, KnownPlaces
from rocketflow_store.views.queues.consume_queue import ConsumeQueue, pre_blank, written
from rocketflow_store.views.queues.consume_queue import lost as lost_units
from rocketflow_store.views.queues.lost_units import end_of_lost, end_of_lost_batches

if TYPE_CHECKING:
    from pathlib import Path

    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.rebuild.scan_stage import LogFindings
    from rocketflow_store.rebuild.store_state import StoreState
    from rocketflow_store.settings.store_config import StoreConfig

    Queue = tuple[str, int]

_LOOKED_BACK: Final = 1 << 16


class OldQueues:
    """The queues that a store has before it is rebuilt, and what its writers recorded of them."""

    def __init__(self, paths: StorePaths, config: StoreConfig, state: StoreState, files: MappedFileQueue) -> None:
        self._paths, self._size, self._state, self._files = paths, config.mapped_file_size_consume_queue, state, files
        record = state.record
        self._recorded = {} if record is None else {key: one.end for key, one in record.queues.items()}
        self._batches = {} if record is None else {key: one.end for key, one in record.batch_queues.items()}
        self._batch_size = config.mapper_file_size_batch_consume_queue
        self._synced = 0
        confirmed = None if state.clean else read_confirm(paths)
        if confirmed is not None:
            self._synced, ends = confirmed.synced_offset, DurableEnds.load(paths)
            for key, end in {} if ends is None else ends.queues.items():
                known = self._batches if key[0] in state.choice.batch_topics else self._recorded
                known[key] = max(known.get(key, 0), end)

    def known_places(self, findings: LogFindings) -> KnownPlaces:
        """Return the facts by which the claims of records are judged."""
        record = self._state.record
        until = 0 if record is None else record.end_phy_offset
        ends = {} if record is None else {**record.queues, **record.batch_queues}
        bounds = {key: (one.end, until) for key, one in ends.items() if one.end}
        return KnownPlaces(DamagedBytes(findings.damage), bounds, self._expected_first, self._is_known)

    def ends(self, found: dict[Queue, int], findings: LogFindings) -> dict[Queue, int]:
        """Return the ends that queues should have: the recorded ones, or those that existing units prove.

        `found` are the ends that the log's records claim. After an orderly stop its record decides, if it has the
        queue.
        """
        ends, lost = dict(self._recorded), self._lost_bytes(findings)
        for key in {*found, *self._there(self._paths.consume_queue)}:
            if key not in ends or not self._state.clean:
                least = max(found.get(key, 0), ends.get(key, 0))
                ends[key] = self._proven_end(key, least, findings.log_end, lost)
        return ends

    def batch_ends(self, findings: LogFindings) -> dict[Queue, int]:
        """Return the recorded ends of batch queues, or those that the units of lost records prove."""
        ends, lost = dict(self._batches), self._lost_bytes(findings)
        if lost.begin < 0:
            return ends
        for key in self._there(self._paths.batch_consume_queue):
            if key not in ends or not self._state.clean:
                directory = self._paths.batch_consume_queue / key[0] / str(key[1])
                queue = BatchConsumeQueue(directory, *key, self._batch_size, write=False)
                try:
                    units = queue.newest_units(lost.begin)
                finally:
                    queue.close()
                ends[key] = max(ends.get(key, 0), end_of_lost_batches(units, lost))
        return ends

    def _lost_bytes(self, findings: LogFindings) -> DamagedBytes:
        """Return the bytes that the log had and does not have."""
        return DamagedBytes.of_log(findings.damage, findings.log_end, self._synced)

    def first_kept(self, key: Queue, end: int) -> int:
        """Return the first queue offset that retention kept of a queue that ends at `end`.

        The log has no message of the queue anymore; the units of the queue show where they were.
        """
        queue = self._open(key) if self._state.begin > 0 else None
        if queue is None:
            return 0
        try:
            first = queue.first_unit
            units = queue.units(first, min(end, int(queue.scan_end())))
        finally:
            queue.close()
        removed = np.flatnonzero(pre_blank(units) | (units["phy_offset"].astype(np.int64) < self._state.begin))
        return min(first + int(removed[-1]) + 1, end) if len(removed) else first

    @staticmethod
    def _there(directory: Path) -> list[Queue]:
        """Return the queues that have a directory below this one."""
        topics = [one for one in directory.iterdir() if one.is_dir()] if directory.is_dir() else []
        return [(topic.name, int(one.name)) for topic in topics for one in topic.iterdir() if one.name.isdigit()]

    def _is_known(self, key: Queue) -> bool:
        if key in self._recorded or key in self._batches:
            return True
        return any((parent / key[0] / str(key[1])).is_dir() for parent in self._directories)

    @property
    def _directories(self) -> tuple[Path, Path]:
        return self._paths.consume_queue, self._paths.batch_consume_queue

    def _expected_first(self, key: Queue, first: int) -> int | None:
        """Return the first queue offset that retention kept: 0 in a log from which nothing was removed."""
        if key[0] in self._state.deleted.floors or first == 0:
            return None
        if self._state.begin == 0:
            return 0
        queue = None if key[0] in self._state.choice.batch_topics else self._open(key)
        if queue is None:
            return None
        try:
            start = max(queue.first_unit, first - _LOOKED_BACK)
            units = queue.units(start, first)
            places = units["phy_offset"].astype(np.int64)
            removed = np.flatnonzero(written(units) & ~pre_blank(units) & (places < self._state.begin))
            return start + int(removed[-1]) + 1 if len(removed) else None
        finally:
            queue.close()

    def _proven_end(self, key: Queue, end: int, log_end: int, lost: DamagedBytes) -> int:
        """Return the number after the last unit from `end` on that points at a record or a lost one, else `end`."""
        queue = self._open(key)
        if queue is None:
            return end
        try:
            stop = int(queue.scan_end())
            units = queue.units(end, stop) if stop > end >= queue.first_unit else queue.units(0, 0)
        finally:
            queue.close()
        proven = end_of_lost(units, lost)
        usable = written(units) & ~pre_blank(units) & ~lost_units(units)
        for row in np.flatnonzero(usable[proven:])[::-1].tolist():
            unit = units[proven + row]
            if self._is_record(int(unit["phy_offset"]), int(unit["msg_size"]), log_end):
                return end + proven + int(row) + 1
        return end + proven

    def _is_record(self, phy_offset: int, size: int, log_end: int) -> bool:
        """Return True if a record of this size begins there, whatever its fields claim."""
        mapped = self._files.find(phy_offset) if phy_offset + size <= log_end else None
        if mapped is None or phy_offset < self._state.begin:
            return False
        raw = mapped.bytes_of(phy_offset - mapped.file_from_offset, phy_offset - mapped.file_from_offset + 8)
        found, magic = SIZE_AND_MAGIC.unpack(raw)
        return found == size and magic in (MAGIC_V1, MAGIC_V2)

    def _open(self, key: Queue) -> ConsumeQueue | None:
        directory = self._paths.consume_queue / key[0] / str(key[1])
        return ConsumeQueue(directory, *key, self._size, write=False) if directory.is_dir() else None
