"""The second stage: the tasks that write the files of a plan, and the slots of lost messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.model.topic_names import LMQ_PREFIX
from rocketflow_store.rebuild.known_places import OldQueues
from rocketflow_store.rebuild.parts import PartKind
from rocketflow_store.rebuild.space import index_bytes, parts_bytes, queues_bytes
from rocketflow_store.rebuild.store_state import may_have_queues
from rocketflow_store.rebuild.write_plan import (
    IndexFilePlan,
    JudgedPlaces,
    PlaceJudge,
    QueuePlan,
    plan_index,
    plan_queues,
)
from rocketflow_store.rebuild.write_tasks import IndexWriteTask, QueueWriteTask, WriteTask
from rocketflow_store.views.queues.batch_consume_queue import BatchConsumeQueue
from rocketflow_store.views.queues.claimed_places import DamagedBytes, LostMessages
from rocketflow_store.views.queues.consume_queue import ConsumeQueue
from rocketflow_store.views.queues.placeholder import LogExtent
from rocketflow_store.views.queues.queue_gaps import blank_slots, fill_gaps, fill_head, lost_slots

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.rebuild.places import RebuildPlaces
    from rocketflow_store.rebuild.placing import SidePlaces
    from rocketflow_store.rebuild.result import RebuildResult
    from rocketflow_store.rebuild.scan_stage import LogFindings
    from rocketflow_store.rebuild.scan_task import ScanReport
    from rocketflow_store.rebuild.store_state import StoreState
    from rocketflow_store.settings.store_config import StoreConfig

    Queue = tuple[str, int]

_FILES_A_TASK: Final = 256
_UNITS_A_TASK: Final = 1 << 22


@dataclass(slots=True)
class Plans:
    """All files to write; `left_out` are the deleted topics that the log has messages of."""

    queues: list[QueuePlan]
    batch_queues: list[QueuePlan]
    index: list[IndexFilePlan]
    left_out: frozenset[str]
    judged: JudgedPlaces
    ends: dict[Queue, int]
    """Ends that plain queues should have: the recorded ones, or those that existing units prove."""
    begins: dict[Queue, int]
    """Begins of those queues in `ends` of which the log has no message anymore."""
    batch_ends: dict[Queue, int]

    def bytes_by_place(self, side: SidePlaces, config: StoreConfig) -> dict[Path, int]:
        """Return the bytes of the files by directory."""
        return {
            side.queues: queues_bytes(self.queues, UNIT_SIZE),
            side.batch_queues: queues_bytes(self.batch_queues, BATCH_UNIT_SIZE),
            side.index: index_bytes(self.index, config),
        }

    def fill_in(self, result: RebuildResult, config: StoreConfig) -> None:
        """Set the fields of `result` that the plan decides."""
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


def plan_files(places: RebuildPlaces, state: StoreState, files: MappedFileQueue, findings: LogFindings) -> Plans:
    """Plan the files from the counts of the scan; add contradictions between records to `findings`."""
    paths, config, reports = places.store, places.config, findings.reports
    topics = {
        queue[0]
        for one in reports
        for runs in (one.units, one.batch_units)
        if runs is not None
        for queue in runs.queues
    }
    left_out = {one for one in topics if not may_have_queues(state, paths, one)}
    old = OldQueues(paths, config, state, files)
    judge = PlaceJudge(old.known_places(findings), left_out)
    per_file = config.mapped_file_size_consume_queue // UNIT_SIZE
    queues = plan_queues(reports, PartKind.UNITS, per_file, judge, {})
    per_file = config.mapper_file_size_batch_consume_queue // BATCH_UNIT_SIZE
    bases = _batch_bases(places, reports)
    batches = plan_queues(reports, PartKind.BATCH_UNITS, per_file, judge, bases)
    index = plan_index(reports, config.max_index_num - 1)
    every_left_out = frozenset(left_out | set(state.choice.left_out))
    found = {(one.topic, one.queue_id): one.end for one in queues}
    ends = old.ends(found, findings)
    begins = {key: old.first_kept(key, end) for key, end in ends.items() if end > 0 and key not in found}
    plans = Plans(queues, batches, index, every_left_out, judge.judged, ends, begins, old.batch_ends(findings))
    _report_refuted(places, state, plans, findings)
    return plans


def _report_refuted(places: RebuildPlaces, state: StoreState, plans: Plans, findings: LogFindings) -> None:
    """Report claims of records that others refute, and queue offsets that no record has."""
    if not state.choice.units:
        return
    judged, damage = plans.judged, DamagedBytes(findings.damage)
    lost = [(key, one) for key, messages in judged.lost.items() for one in messages]
    light = {(one.topic, one.queue_id): one.end for one in plans.queues if one.topic.startswith(LMQ_PREFIX)}
    for key, end in (*plans.ends.items(), *plans.batch_ends.items()):
        at, begin = judged.last.get(key, (light.get(key, plans.begins.get(key, 0)), state.begin))
        if at < end and findings.log_end > 0 and not is_expired(state, key) and _is_asked_for(places, state, key):
            lost.append((key, LostMessages(at, end, begin, findings.log_end)))
    lost = sorted(one for one in lost if not damage.explains(one[1]))
    strays = sorted((key, one) for key, claims in judged.strays.items() for one in claims)
    for key, claim in strays:
        findings.add_refuted(key, claim, lost[0] if len(strays) == len(lost) == 1 else None)
    for key, messages in lost:
        findings.add_lost(key, messages)


def is_expired(state: StoreState, key: Queue) -> bool:
    """Return True if all messages of a queue were removed with their log files."""
    record = state.record
    return record is not None and record.is_expired(key, state.begin)


def _is_asked_for(places: RebuildPlaces, state: StoreState, key: Queue) -> bool:
    """Return True if a queue is requested and does not belong to a deleted topic."""
    if key[0].startswith(LMQ_PREFIX) and not state.choice.takes_lmq(key[0]):
        return False
    return state.choice.takes(*key) and may_have_queues(state, places.store, key[0])


def _batch_bases(places: RebuildPlaces, reports: Sequence[ScanReport]) -> dict[Queue, int]:
    """Return the unit number of the first record of each batch queue.

    A queue whose begin was removed with the log keeps its unit numbers.
    """
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
    """Return the number of the unit whose record begins at a queue offset; 0 if there is none."""
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
    """Yield the tasks of the stage, the longest first."""
    paths, config = places.store, places.config
    for one in plans.index:
        name = str(side.index / f"{one.number:08d}")
        yield IndexWriteTask(str(side.parts), name, config.max_hash_slot_num, config.max_index_num, one)
    for kind, queues, target, directory, size in (
        (
            *(PartKind.UNITS, plans.queues, side.queues, paths.consume_queue),
            config.mapped_file_size_consume_queue // UNIT_SIZE * UNIT_SIZE,
        ),
        (
            *(PartKind.BATCH_UNITS, plans.batch_queues, side.batch_queues, paths.batch_consume_queue),
            config.mapper_file_size_batch_consume_queue,
        ),
    ):
        task = QueueWriteTask(kind, str(side.parts), str(target), str(directory), size, state.begin, places.log, ())
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
    """Fill the slots of lost messages, from a queue's begin to its former end, with units that name the lost bytes.

    If retention removed all messages of a queue, its slots get filler units.
    """
    config, damage = places.config, findings.damage
    log = LogExtent(state.begin, findings.log_end, config.mapped_file_size_commit_log)
    if not state.choice.units:
        return
    planned = {(one.topic, one.queue_id): one for one in plans.queues}
    size = config.mapped_file_size_consume_queue

    def is_lost(parent: Path, key: Queue) -> bool:
        """Return True if the queue is requested and existed, and the log has no message of it.

        A queue that retention emptied stays as it is.
        """
        exists = (parent / key[0] / str(key[1])).is_dir()
        return _is_asked_for(places, state, key) and log.end > 0 and not (exists and is_expired(state, key))

    gapped = {*holed, *(key for key in plans.judged.lost if key in planned)}
    shortened = {key for key, end in plans.ends.items() if end > (planned[key].end if key in planned else 0)}
    for key in sorted(gapped | shortened):
        if key not in planned and not is_lost(places.out.consume_queue, key):
            continue
        queue = ConsumeQueue(side.queues / key[0] / str(key[1]), *key, size, write=True)
        try:
            begin = end = plans.begins.get(key, 0)
            if key in planned:
                begin, end = planned[key].first, planned[key].end
            for one in plans.judged.lost.get(key, []):
                if one.stop == begin:
                    fill_head(queue, one.first, begin, damage, log)
            if key in gapped:
                fill_gaps(queue, end, damage, log)
            wanted = plans.ends.get(key, 0)
            if end < wanted and log.end > 0:
                if key not in planned and is_expired(state, key):
                    blank_slots(queue, end, wanted)
                else:
                    lost_slots(queue, end, wanted, damage, log)
            queue.sync()
        finally:
            queue.close()
    batches = {(one.topic, one.queue_id) for one in plans.batch_queues}
    size = config.mapper_file_size_batch_consume_queue
    for key, batch_end in plans.batch_ends.items():
        if key in batches or is_lost(places.out.batch_consume_queue, key):
            batch_queue = BatchConsumeQueue(side.batch_queues / key[0] / str(key[1]), *key, size, write=True)
            batch_queue.fill_lost(batch_end, log)
            batch_queue.sync()
            batch_queue.close()
