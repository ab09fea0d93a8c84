"""The second stage as a whole: the tasks that make the files of a plan, and the slots of what the log lost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.queues.batch_consume_queue import BatchConsumeQueue
from rocketflow_store.queues.consume_queue import ConsumeQueue
from rocketflow_store.queues.queue_holes import blank_slots, fill_holes, lost_slots
from rocketflow_store.queues.stand_in import LogExtent
from rocketflow_store.rebuild.parts import PartKind
from rocketflow_store.rebuild.space import index_bytes, parts_bytes, queues_bytes
from rocketflow_store.rebuild.store_state import StoreState, may_have_queues
from rocketflow_store.rebuild.write_plan import IndexFilePlan, QueuePlan, plan_index, plan_queues
from rocketflow_store.rebuild.write_tasks import IndexWriteTask, QueueWriteTask, WriteTask

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rocketflow_store.config import StoreConfig
    from rocketflow_store.rebuild.places import RebuildPlaces
    from rocketflow_store.rebuild.placing import SidePlaces
    from rocketflow_store.rebuild.result import RebuildResult
    from rocketflow_store.rebuild.scan_stage import LogFindings
    from rocketflow_store.rebuild.scan_task import ScanReport

    Queue = tuple[str, int]

_FILES_A_TASK: Final = 256
_UNITS_A_TASK: Final = 1 << 22


@dataclass(slots=True)
class Plans:
    """All files that are to be made; `left_out` are topics of the log that were deleted."""

    queues: list[QueuePlan]
    batch_queues: list[QueuePlan]
    index: list[IndexFilePlan]
    left_out: frozenset[str]

    def bytes_by_place(self, side: SidePlaces, config: StoreConfig) -> dict[Path, int]:
        """What the files take."""
        return {
            side.queues: queues_bytes(self.queues, UNIT_SIZE),
            side.batch_queues: queues_bytes(self.batch_queues, BATCH_UNIT_SIZE),
            side.index: index_bytes(self.index, config),
        }

    def tell(self, result: RebuildResult, config: StoreConfig) -> None:
        """Note what is to be made."""
        every = (*self.queues, *self.batch_queues)
        result.deleted_topics = sorted(self.left_out)
        result.queues = len(every)
        result.units = sum(int(file.pieces.counts.sum()) for plan in every for file in plan.files)
        result.index_entries = sum(one.count for one in self.index)
        result.files = sum(len(plan.files) for plan in every) + len(self.index)
        result.needed_bytes = (
            parts_bytes(result.units, result.index_entries)
            + queues_bytes(self.queues, UNIT_SIZE)
            + queues_bytes(self.batch_queues, BATCH_UNIT_SIZE)
            + index_bytes(self.index, config)
        )


def plan_files(places: RebuildPlaces, state: StoreState, reports: Sequence[ScanReport]) -> Plans:
    """Which files there are to be, by the counts of the scan alone."""
    paths, config = places.store, places.config
    topics = {
        queue[0]
        for one in reports
        for runs in (one.units, one.batch_units)
        if runs is not None
        for queue in runs.queues
    }
    left_out = {one for one in topics if not may_have_queues(state, paths, one)}
    per_file = config.mapped_file_size_consume_queue // UNIT_SIZE
    queues = plan_queues(reports, PartKind.UNITS, per_file, {}, left_out)
    per_file = config.mapper_file_size_batch_consume_queue // BATCH_UNIT_SIZE
    batches = plan_queues(reports, PartKind.BATCH_UNITS, per_file, _batch_bases(places, reports), left_out)
    index = plan_index(reports, config.max_index_num - 1)
    return Plans(queues, batches, index, frozenset(left_out | set(state.choice.left_out)))


def _batch_bases(places: RebuildPlaces, reports: Sequence[ScanReport]) -> dict[Queue, int]:
    """Where a batch queue has the unit of its first record: one whose begin went with the log keeps its places."""
    firsts: dict[Queue, int] = {}
    for report in reports:
        runs = report.batch_units
        for at, code in enumerate(runs.queue_of.tolist()) if runs is not None else ():
            assert runs is not None
            firsts.setdefault(runs.queues[code], int(runs.firsts[at]))
    found: dict[Queue, int] = {}
    size = places.config.mapper_file_size_batch_consume_queue
    for (topic, queue_id), first in firsts.items():
        directory = places.store.batch_consume_queue / topic / str(queue_id)
        if not directory.is_dir():
            continue
        queue = BatchConsumeQueue(directory, topic, queue_id, size, write=False)
        try:
            found[topic, queue_id] = _place_of(queue, first)
        finally:
            queue.close()
    return found


def _place_of(queue: BatchConsumeQueue, base_offset: int) -> int:
    """Number of the unit of the record that begins at a queue offset; 0 where there is none."""
    start = queue.first_unit
    end = stop = queue.end_unit
    while start < stop:
        middle = (start + stop) // 2
        if int(queue.units(middle, middle + 1)["msg_base_offset"][0]) < base_offset:
            start = middle + 1
        else:
            stop = middle
    unit = queue.units(start, min(start + 1, end))
    return start if len(unit) and int(unit["msg_base_offset"][0]) == base_offset else 0


def write_tasks(places: RebuildPlaces, side: SidePlaces, state: StoreState, plans: Plans) -> Iterator[WriteTask]:
    """The tasks of the stage, the longest first."""
    paths, config = places.store, places.config
    for one in plans.index:
        name = str(side.index / f"{one.number:08d}")
        yield IndexWriteTask(str(side.parts), name, config.max_hash_slot_num, config.max_index_num, one)
    for kind, queues, target, room, size in (
        (
            *(PartKind.UNITS, plans.queues, side.queues, paths.consume_queue),
            config.mapped_file_size_consume_queue // UNIT_SIZE * UNIT_SIZE,
        ),
        (
            *(PartKind.BATCH_UNITS, plans.batch_queues, side.batch_queues, paths.batch_consume_queue),
            config.mapper_file_size_batch_consume_queue,
        ),
    ):
        task = QueueWriteTask(kind, str(side.parts), str(target), str(room), size, state.begin, places.log, ())
        files = [file for plan in queues for file in plan.files]
        start = units = 0
        for at, file in enumerate(files):
            units += file.end - file.base_unit
            if at + 1 == len(files) or at + 1 - start == _FILES_A_TASK or units >= _UNITS_A_TASK:
                yield replace(task, files=tuple(files[start : at + 1]))
                start, units = at + 1, 0


def fill_lost(
    places: RebuildPlaces,
    side: SidePlaces,
    state: StoreState,
    plans: Plans,
    holed: Sequence[Queue],
    findings: LogFindings,
) -> None:
    """Slots of lost messages get units that name the lost bytes, up to where the queue ended before.

    Those of a queue whose messages retention took, all of them, get units that only fill the room.
    """
    choice, record, config = state.choice, state.record, places.config
    log = LogExtent(state.begin, findings.log_end, config.mapped_file_size_commit_log)
    if not choice.units:
        return
    ends = {(one.topic, one.queue_id): one.end for one in plans.queues}
    recorded = {} if record is None else {key: one.end for key, one in record.queues.items()}
    size = config.mapped_file_size_consume_queue

    def is_lost(room: Path, key: Queue) -> bool:
        """Whether a queue of which the log has nothing was there, and is asked for."""
        there = (room / key[0] / str(key[1])).is_dir()
        taken = choice.takes(*key) and may_have_queues(state, places.store, key[0])
        return taken and not there and log.end > 0

    for key in sorted({*holed, *(key for key, end in recorded.items() if end > ends.get(key, 0))}):
        if key not in ends and not is_lost(places.out.consume_queue, key):
            continue
        queue = ConsumeQueue(side.queues / key[0] / str(key[1]), *key, size, write=True)
        try:
            end = ends.get(key, 0)
            if key in holed:
                fill_holes(queue, end, findings.damage)
            if end < recorded.get(key, 0) and log.end > 0:
                if end == 0 and record is not None and record.is_expired(key, state.begin):
                    blank_slots(queue, end, recorded[key])
                else:
                    lost_slots(queue, end, recorded[key], findings.damage, log)
            queue.sync()
        finally:
            queue.close()
    batches = {(one.topic, one.queue_id) for one in plans.batch_queues}
    size = config.mapper_file_size_batch_consume_queue
    for key, told in {} if record is None else record.batch_queues.items():
        if key in batches or is_lost(places.out.batch_consume_queue, key):
            batch_queue = BatchConsumeQueue(side.batch_queues / key[0] / str(key[1]), *key, size, write=True)
            batch_queue.fill_lost(told.end, log)
            batch_queue.sync()
            batch_queue.close()
