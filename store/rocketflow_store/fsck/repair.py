"""Repair: derived files are rebuilt from the log; damaged data is quarantined, and reads skip it.

First `plan_repair` derives a plan from what `verify` found, then `_Apply` runs its steps, each of which can be killed
and repeated; then everything is verified again, until nothing is left to do. Only recovery shortens the log; nothing
is changed or moved without a copy in `quarantine/`.
"""

from __future__ import annotations

import re
import uuid
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rocketflow_store.delivery.timer.shared_delivery import rebuild_timer_files
from rocketflow_store.files import os_files
from rocketflow_store.files.mapped.mapped_file import MappedFile
from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
from rocketflow_store.format.checkpoint_layout import CheckpointFields, logics_physical_offset
from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.format.derived_profile import PROFILE_55
from rocketflow_store.format.record import encode_blank
from rocketflow_store.fsck.findings import VerifyResult
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.log.log_walk import sound_records
from rocketflow_store.metadata.config_files import ConfigFiles
from rocketflow_store.metadata.layout.file_sizes import fitted_to
from rocketflow_store.metadata.layout.other_engines import refuse_rocksdb_data
from rocketflow_store.metadata.layout.store_layout import recorded_layout
from rocketflow_store.metadata.layout.store_meta import refuse_another_version
from rocketflow_store.metadata.layout.store_paths import StoreLock, StorePaths, check_directory
from rocketflow_store.metadata.native.deleted_topics import DeletedTopics
from rocketflow_store.metadata.native.healing import begin_healing
from rocketflow_store.metadata.native.stop_record import StopRecord, believed_record
from rocketflow_store.metadata.native.store_meta_fields import (
    FORMAT_VERSION,
    FORMAT_VERSION_KEY,
    PROFILE_KEY,
    SIZE_KEYS,
    STORE_ID_KEY,
    encode_meta_fields,
)
from rocketflow_store.metadata.native.tag_entries import TagEntries
from rocketflow_store.model.errors import NotAStoreError, StoreError, StoreVersionError, UnreadableError
from rocketflow_store.records.decoding.dispatch_rows import DispatchRows, rows_of_records
from rocketflow_store.records.decoding.index_entries import IndexEntries
from rocketflow_store.recovery.positions import clamp_to
from rocketflow_store.recovery.quarantine import HEALED, QUARANTINED, SET_ASIDE, Quarantine
from rocketflow_store.settings.store_config import StoreConfig
from rocketflow_store.tables.topic_config import BATCH_CQ, QUEUE_TYPE_ATTRIBUTE
from rocketflow_store.views.dispatch.dispatcher import Dispatcher
from rocketflow_store.views.index.derived_profile import profile_to_write
from rocketflow_store.views.index.index_service import IndexService
from rocketflow_store.views.queues.claimed_places import (
    ClaimedQueues,
    DamagedBytes,
    KnownPlaces,
    are_refuted,
    judge_queue,
    refuted_claims,
)
from rocketflow_store.views.queues.consume_queue import ConsumeQueue
from rocketflow_store.views.queues.placeholder import LogExtent
from rocketflow_store.views.queues.queue_gaps import drop_deleted, drop_impossible, fill_gaps, fill_head
from rocketflow_store.views.queues.queue_table import LMQ_PREFIX, FileQueueTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from rocketflow_store.fsck.findings import Damage, Finding
    from rocketflow_store.settings.store_config import StoreConfig

_MAX_ROUNDS: Final = 6
_LOOKS_LIKE_ID: Final = re.compile(rb"[0-9a-f]{32}")
_UNIT_KINDS: Final = frozenset({"missing-unit", "wrong-unit", "stray-unit"})


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One step: `action` on `target` (a path, or TOPIC/QUEUE), because of `why`."""

    action: str
    target: str
    why: str

    def as_dict(self) -> dict[str, Any]:
        return {"action": self.action, "target": self.target, "why": self.why}


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """Repairs in their order. `keep` are damaged ranges of the log that are copied to the quarantine."""

    keep: tuple[Damage, ...] = ()
    aside: tuple[Finding, ...] = ()
    sizes: tuple[Finding, ...] = ()
    blanks: tuple[Finding, ...] = ()
    config: tuple[Finding, ...] = ()
    meta: tuple[Finding, ...] = ()
    queues: tuple[tuple[str, int], ...] = ()
    queue_files: tuple[str, ...] = ()
    lmqs: tuple[tuple[str, int], ...] = ()
    batch_queues: tuple[tuple[str, int], ...] = ()
    index: bool = False
    checkpoint: bool = False
    offsets: tuple[Finding, ...] = ()
    timer: tuple[Finding, ...] = ()
    recover: bool = False

    @property
    def steps(self) -> list[RepairStep]:
        """Steps that change the store (without the copies of damage that stays)."""
        listed = (
            ("set-aside", self.aside),
            ("resize", self.sizes),
            ("write-end-mark", self.blanks),
            ("restore", self.config),
            ("rewrite", self.meta),
            ("clamp", self.offsets),
            ("rebuild-timer", self.timer),
        )
        steps = [RepairStep(action, one.file, one.detail) for action, found in listed for one in found]
        steps += [
            RepairStep("rebuild-queue", f"{topic}/{queue}", "units disagree")
            for topic, queue in (*self.queues, *self.lmqs, *self.batch_queues)
        ]
        if self.index:
            steps.append(RepairStep("rebuild-index", "index", "entries disagree with the log, or are missing"))
        if self.checkpoint:
            steps.append(RepairStep("rewrite", "checkpoint", "fields disagree with the log"))
        if self.recover:
            steps.append(RepairStep("recover", "commitlog", "the last stop was not orderly, or left bytes at the end"))
        return steps


@dataclass(slots=True)
class RepairResult:
    """Findings before the repair, the steps that were done, and the findings after it."""

    found: VerifyResult
    left: VerifyResult
    steps: list[RepairStep] = field(default_factory=list)
    cut: bool = False
    """True if recovery cut or skipped bytes that may have held a message."""

    @property
    def exit_code(self) -> int:
        """0 nothing is left to repair, 1 manual work remains, 3 messages are lost."""
        return 3 if self.cut else self.left.exit_code

    def as_dict(self) -> dict[str, Any]:
        return {
            **self.left.as_dict(),
            "repaired": [one.as_dict() for one in self.steps],
            "findingsBefore": [one.as_dict() for one in self.found.findings],
        }


def plan_repair(found: VerifyResult, paths: StorePaths, *, unclean: bool) -> RepairPlan:
    """Return the repair of the findings. After an unclean stop recovery comes first, which needs complete log files."""

    def of(*kinds: str) -> tuple[Finding, ...]:
        return tuple(one for one in found.findings if one.kind in kinds)

    logs = tuple(f"{one}/" for one in paths.commit_logs)
    sizes = tuple(one for one in of("file-size") if one.file.startswith(logs) and one.length)
    other_sizes = tuple(one for one in of("file-size") if one not in sizes)
    misplaced = tuple(one for one in of("foreign-file") if _inside(one.file, paths))
    fit = RepairPlan(
        keep=tuple(one for one in found.damage if not one.gap),
        aside=misplaced + other_sizes,
        sizes=sizes,
        blanks=of("blank"),
        config=tuple(one for one in of("config") if _restorable(Path(one.file))),
        meta=of("meta"),
        recover=unclean or bool(of("torn-tail")),
    )
    if fit.recover or sizes:
        return fit
    plain = sorted(one for one in found.queues if not one[0].startswith(LMQ_PREFIX))
    places = {str(paths.consume_queue / topic / str(queue_id)) for topic, queue_id in plain}
    healable = not of("missing-file")  # the open that rebuilds side queues refuses a log with a gap
    return replace(
        fit,
        queues=tuple(plain),
        queue_files=tuple(sorted({one.file for one in of(*_UNIT_KINDS) if str(Path(one.file).parent) in places})),
        lmqs=tuple(sorted(found.queues.difference(plain))) if healable else (),
        batch_queues=tuple(sorted(found.batch_queues)) if healable else (),
        index=found.index_damaged,
        checkpoint=bool(of("checkpoint")),
        offsets=() if found.queues or found.batch_queues else of("offset"),
        timer=() if found.queues else of("timer"),
    )


def next_steps(path: str | Path, found: VerifyResult, config: StoreConfig | None = None) -> list[RepairStep]:
    """Return the steps that a repair of the findings would begin with; none if it cannot repair any of them."""
    paths = StorePaths.of(Path(path), config)
    return plan_repair(found, paths, unclean=paths.abort.exists()).steps


def repair_store(
    path: str | Path,
    config: StoreConfig | None = None,
    *,
    workers: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> RepairResult:
    """Verify and repair until nothing is left to do; raise StoreLockedError if another process writes to the store."""
    path = Path(path).absolute()
    check_directory(path, must_exist=True)
    paths = StorePaths.of(path, config)
    if not paths.looks_like_store():
        raise NotAStoreError(path, "holds no commitlog/; give the directory of a store")
    refuse_another_version(paths)
    refuse_rocksdb_data(path)
    result: RepairResult | None = None
    only_recovered = False
    for _ in range(_MAX_ROUNDS):
        lock = StoreLock(paths)
        try:
            found = verify_store(path, config, workers=workers, progress=progress, locked=True)
            plan = plan_repair(found, paths, unclean=paths.abort.exists())
            if result is None:
                result = RepairResult(found, found)
            stuck = bool(result.steps) and found.findings == result.left.findings and not only_recovered
            result.left = found
            if not stuck:
                _Apply(paths, config, found, plan).run()
            only_recovered = plan.recover
        finally:
            lock.release()
        if stuck or not plan.steps:
            break
        result.steps += plan.steps
        if (plan.recover or plan.lmqs or plan.batch_queues) and not _recovered(path, config, result):
            break
        if plan.timer:
            _timer(path, config, plan.timer)
    assert result is not None
    return result


def _recovered(path: Path, config: StoreConfig | None, result: RepairResult) -> bool:
    """Open for writing and close; return False if that is refused (the log has a gap)."""
    from rocketflow_store.engine.message_store import MessageStore

    try:
        with MessageStore.open(path, config) as store:
            result.cut = result.cut or bool(store.recovery.quarantined)
    except StoreVersionError:
        return False
    return True


def _timer(path: Path, config: StoreConfig | None, found: tuple[Finding, ...]) -> None:
    """Rebuild the timer's files; if the progress of delivery is unknown, move damaged ones to the quarantine."""
    from rocketflow_store.engine.message_store import MessageStore

    paths = StorePaths.of(path, config)
    quarantine, made = Quarantine(paths), False
    for file in sorted({one.file for one in found if Path(one.file).is_file()}):
        quarantine.keep_file(Path(file))
    for one in found:
        if Path(one.file).exists() and Path(one.file).is_dir() != (
            one.file == str(paths.timer_log)
        ):  # of the wrong kind
            quarantine.note(SET_ASIDE, one.file, 0, 0, one.detail, quarantine.move(Path(one.file)))
    with suppress(StoreVersionError), MessageStore.open(path, config) as store:  # refused if the log has a gap
        made = rebuild_timer_files(store)
    for one in found:
        if made:
            quarantine.note(HEALED, one.file, one.offset, one.length, f"{one.detail}; rebuilt from the log")
        elif Path(one.file).exists():
            why = f"{one.detail}; the next delivery of timer messages rebuilds it; run one before a broker starts"
            quarantine.note(SET_ASIDE, one.file, one.offset, one.length, why, quarantine.move(Path(one.file)))


def _inside(file: str, paths: StorePaths) -> bool:
    return any(
        file.startswith(f"{one}/")
        for one in (*paths.commit_logs, paths.consume_queue, paths.batch_consume_queue, paths.index)
    )


def _restorable(path: Path) -> bool:
    """Return True if a config file can be restored: from its .bak, or (topics) from the queues."""
    return path.name == "topics.json" or _backup_is_good(path)


def _backup_is_good(path: Path) -> bool:
    backup = path.with_name(path.name + ".bak")
    files = ConfigFiles(path.parent)
    for one in files.every:
        if one.path == path:
            try:
                _ = one.data_version
                return backup.exists()
            except StoreError:
                return False
    return False


class _Apply:
    """The steps of a plan, run under the store's lock."""

    def __init__(self, paths: StorePaths, config: StoreConfig | None, found: VerifyResult, plan: RepairPlan) -> None:
        self._paths, self._found, self._plan = paths, found, plan
        self._config = fitted_to(config or StoreConfig(), paths)
        self._quarantine = Quarantine(self._paths)
        self._damage = sorted((one.phy_offset, one.end) for one in found.damage)
        self._profile = profile_to_write(paths, self._config)

    def run(self) -> None:
        plan = self._plan
        for damage in plan.keep:
            self._keep(damage)
        for one in plan.aside:
            kept = self._quarantine.move(Path(one.file))
            self._quarantine.note(SET_ASIDE, one.file, 0, one.length, one.detail, kept)
        for one in plan.sizes:
            self._resize(one)
        for one in plan.blanks:
            self._end_mark(one)
        for one in plan.config:
            self._restore(Path(one.file), one.detail)
        if plan.meta:
            self._meta(plan.meta[0])
        if plan.queues:
            self._queues()
        if plan.lmqs or plan.batch_queues:
            self._side_queues()
        if plan.index:
            self._index()
        if plan.checkpoint:
            self._checkpoint()
        if plan.offsets:
            self._offsets()

    # -- the log

    def _keep(self, damage: Damage) -> None:
        """Copy damage that stays to the quarantine, with a line in the report."""
        mapped = MappedFile(Path(damage.file), damage.phy_offset - damage.position, write=False)
        kept = None
        with suppress(UnreadableError):  # an unreadable range cannot be copied
            data = mapped.bytes_of(damage.position, damage.position + damage.length)
            if np.frombuffer(data, np.uint8).any():
                kept = self._quarantine.keep(f"commitlog/{damage.phy_offset:020d}.record", data)
        mapped.close()
        self._quarantine.note(QUARANTINED, damage.file, damage.position, damage.length, damage.why, kept)

    def _resize(self, one: Finding) -> None:
        """Give a CommitLog file the length of the others; excess bytes are copied to the quarantine."""
        path, size = Path(one.file), self._config.mapped_file_size_commit_log
        kept = None
        fd = os_files.open_file(path, write=True)
        try:
            there = os_files.file_size(fd)
            if there > size:
                rest = os_files.read_at(fd, size, there - size, path)
                kept = self._quarantine.keep(f"commitlog/{path.name}.rest", rest) if any(rest) else None
                os_files.make_sparse(fd, path, size)
            else:
                os_files.preallocate(fd, path, size)
            os_files.sync_file(fd, path)
        finally:
            os_files.close_file(fd)
        self._quarantine.note(HEALED, path, 0, one.length, f"{one.detail}; resized to {size} bytes", kept)

    def _end_mark(self, one: Finding) -> None:
        path = Path(one.file)
        fd = os_files.open_file(path, write=True)
        try:
            before = os_files.read_at(fd, one.offset, 8, path)
            kept = self._quarantine.keep(f"commitlog/{path.name}.blank", before) if any(before) else None
            os_files.write_at(fd, path, one.offset, encode_blank(one.length))
            os_files.sync_file(fd, path)
        finally:
            os_files.close_file(fd)
        self._quarantine.note(HEALED, path, one.offset, one.length, one.detail, kept)

    def _forget_stop(self, *, same_index: bool) -> None:
        """Remove the files of queues (and index) from the stop record, since they will differ from it."""
        record = StopRecord.load(self._paths)
        if record is not None:
            record.without_files(same_index=same_index).write(self._paths)

    # -- queues

    def _queues(self) -> None:
        """Write the units of every record of the damaged queues; empty slots get one that names the damage."""
        self._forget_stop(same_index=True)
        paths, wanted = self._paths, set(self._plan.queues)
        for name in self._plan.queue_files:
            if Path(name).is_file():
                kept = self._quarantine.keep_file(Path(name))
                self._quarantine.note(HEALED, name, 0, 0, "units were rebuilt from the log", kept)
            else:
                self._quarantine.note(HEALED, name, 0, 0, "the file was missing; it was rebuilt from the log")
        size = self._config.mapped_file_size_consume_queue
        queues = {
            key: ConsumeQueue(paths.consume_queue / key[0] / str(key[1]), *key, size, write=True) for key in wanted
        }
        claims = ClaimedQueues()
        for rows in self._queued_rows():
            claims.add(rows)
        refuted, ends, heads = {}, dict.fromkeys(queues, 0), {}
        known = self._known_places()
        for key, runs in claims:
            if key in queues:
                judged = judge_queue(key, runs, known)
                refuted[key] = refuted_claims(judged, runs)
                if judged.kept:
                    ends[key] = judged.kept[-1].stop
                    if judged.lost and judged.lost[0].stop == judged.kept[0].first:
                        heads[key] = judged.lost[0]
        for rows in self._queued_rows():
            for code, key in enumerate(rows.queues):
                mine = np.flatnonzero(rows.queue_of == code)
                if key in queues:
                    mine = mine[~are_refuted(refuted[key], rows.queue_offsets[mine], rows.phy_offsets[mine])]
                    if len(mine):
                        _put_units(queues[key], rows, mine)
        log = LogExtent(self._log_begin(), self._found.end, self._config.mapped_file_size_commit_log)
        for key, queue in queues.items():
            end = self._end_of(queue, ends[key])
            queue.truncate(end)
            self._clear_strays(queue)
            if key in heads:
                fill_head(queue, heads[key].first, heads[key].stop, self._damage, log)
            fill_gaps(queue, end, self._damage, log)
            queue.close()
            _sync_files(paths.consume_queue / key[0] / str(key[1]))
            for directory in (paths.consume_queue / key[0] / str(key[1]), paths.consume_queue / key[0]):
                os_files.sync_directory(directory)
        os_files.sync_directory(paths.consume_queue)

    def _side_queues(self) -> None:
        """Quarantine LMQs and queues of BatchCQ topics: the next open rebuilds them."""
        plan, paths = self._plan, self._paths
        begin_healing(paths, plan.lmqs, plan.batch_queues)
        parents = ((paths.consume_queue, plan.lmqs), (paths.batch_consume_queue, plan.batch_queues))
        for directory in [parent / topic / str(queue_id) for parent, queues in parents for topic, queue_id in queues]:
            kept = self._quarantine.move(directory) if directory.is_dir() else None
            self._quarantine.note(HEALED, directory, 0, 0, "units were rebuilt from the log", kept)

    def _end_of(self, queue: ConsumeQueue, claimed: int) -> int:
        """Return the end of a queue, which includes records lost to damage and those removed with their log files."""
        stray = self._found.strays.get((queue.topic, queue.queue_id), [])
        end = queue.scan_end()
        while stray and end > claimed and stray[-1][1] >= end > stray[-1][0]:
            end = stray[-1][0]
            stray = stray[:-1]
        return max(end, claimed)

    def _clear_strays(self, queue: ConsumeQueue) -> None:
        """Empty the slots whose unit belongs to no record."""
        end = queue.scan_end()
        for start, stop in self._found.strays.get((queue.topic, queue.queue_id), []):
            if start < min(stop, end):
                queue.put_bytes(start, bytes(UNIT_SIZE * (min(stop, end) - start)))

    def _queued_rows(self) -> Iterator[DispatchRows]:
        """Yield the rows of records without impossible queue offsets and without deleted topics."""
        floors = DeletedTopics.load(self._paths).floors
        for rows in self._rows():
            drop_deleted(rows, floors)
            drop_impossible(rows)
            yield rows

    def _log_begin(self) -> int:
        return min(self._paths.log_directories().entries(), default=0)

    def _known_places(self) -> KnownPlaces:
        """Return the facts by which claims to queues are judged."""
        record, bounds = believed_record(self._paths), {}
        if record is not None:
            bounds = {key: (one.end, record.end_phy_offset) for key, one in record.queues.items() if one.end}
        floors, begin = DeletedTopics.load(self._paths).floors, self._log_begin()

        def expected_first(key: tuple[str, int], _: int) -> int | None:
            return 0 if begin == 0 and key[0] not in floors else None

        return KnownPlaces(DamagedBytes(self._damage), bounds, expected_first, lambda _: True)

    def _rows(self) -> Iterator[DispatchRows]:
        files = MappedFileQueue(self._paths.log_directories(), self._config.mapped_file_size_commit_log, write=False)
        try:
            for mapped, records in sound_records(files.files, self._found.end, self._damage):
                yield rows_of_records(records, mapped.file_from_offset, self._config.delay_levels_ms)
        finally:
            files.close()

    # -- index

    def _index(self) -> None:
        """Build a new index beside the old one, and replace that."""
        self._forget_stop(same_index=False)
        paths, config = self._paths, self._config
        staged = paths.staged_index
        _remove_tree(staged)
        service = IndexService(staged, config.max_hash_slot_num, config.max_index_num, config.clock, write=True)
        table = FileQueueTable(staged / "no-queues", config.mapped_file_size_consume_queue, None, write=True)  # type: ignore[arg-type]
        tag_entries = self._profile == PROFILE_55
        dispatcher = Dispatcher(table, service, tag_entries=tag_entries)
        for rows in self._rows():
            rows.queue_of[:] = -1
            dispatcher.dispatch(rows)
        for file in service.files:
            file.sync()
        service.close()
        for old in sorted(paths.index.iterdir()) if paths.index.is_dir() else []:
            kept = self._quarantine.move(old)
            self._quarantine.note(HEALED, old, 0, kept.stat().st_size, "the index was rebuilt from the log", kept)
        os_files.make_directory(paths.index)
        for new in sorted(staged.iterdir()) if staged.is_dir() else []:
            os_files.rename(new, paths.index / new.name)
        os_files.sync_directory(paths.index)
        os_files.sync_directory(paths.root)
        _remove_tree(staged)
        self._note_tags(tag_entries=tag_entries)

    def _note_tags(self, *, tag_entries: bool) -> None:
        """Record whether the new index names the TAGS of every record."""
        record = StopRecord.load(self._paths)
        if record is not None:
            newest = max((one.name for one in self._paths.index.iterdir()), default="")
            whole = TagEntries().extended(record.min_phy_offset, record.end_phy_offset)
            replace(record, tag_entries=replace(whole, newest_file=newest) if tag_entries else TagEntries()).write(
                self._paths
            )

    # -- small files

    def _restore(self, path: Path, why: str) -> None:
        """Restore a config file from its .bak, or topics.json from the queues."""
        backup = path.with_name(path.name + ".bak")
        good = _backup_is_good(path)
        kept = self._quarantine.move(path) if path.exists() else None
        self._quarantine.note(HEALED, path, 0, 0, why, kept)
        if good:
            os_files.write_atomically(path, os_files.read_file(backup))
            return
        if backup.exists():
            self._quarantine.move(backup)
        topics = ConfigFiles(path.parent, self._config.clock).topics
        queues: dict[str, int] = {}
        for topic, queue_id in self._found.queue_ends:
            queues[topic] = max(queues.get(topic, 0), queue_id + 1)
        for topic, count in sorted(queues.items()):
            if topic.startswith(LMQ_PREFIX):
                continue
            made = topics.set_queue_nums(topic, max(count, self._config.default_topic_queue_nums))
            if (self._paths.batch_consume_queue / topic).is_dir():
                topics.put(made.with_attribute(QUEUE_TYPE_ATTRIBUTE, BATCH_CQ))

    def _meta(self, one: Finding) -> None:
        path = self._paths.meta
        raw = os_files.read_file(path)
        kept = self._quarantine.keep_file(path)
        known, recorded = _LOOKS_LIKE_ID.search(raw), recorded_layout(self._paths.root)
        store_id = recorded.store_id if recorded is not None else uuid.uuid4().hex
        fields = {
            STORE_ID_KEY: known.group().decode() if known and recorded is None else store_id,
            FORMAT_VERSION_KEY: FORMAT_VERSION,
            **{key: getattr(self._config, name) for name, key in SIZE_KEYS.items()},
            PROFILE_KEY: self._profile,
            **({} if self._paths.layout.is_default else self._paths.layout.as_dict()),
        }
        os_files.write_atomically(path, encode_meta_fields(fields))
        self._quarantine.note(HEALED, path, 0, one.length, one.detail, kept)

    def _checkpoint(self) -> None:
        path, newest = self._paths.checkpoint, self._found.max_store_timestamp
        kept = self._quarantine.keep_file(path) if path.is_file() else None
        if path.is_dir():
            kept = self._quarantine.move(path)
        config = self._config
        index = IndexService(
            self._paths.index, config.max_hash_slot_num, config.max_index_num, config.clock, write=False
        )
        fields = CheckpointFields(newest, newest, index.full_end_timestamp, 0, self._found.end)
        if self._profile == PROFILE_55:
            queued = self._found.dispatched_phy_offset
            fields.logics_physical_offset = logics_physical_offset(queued, self._found.end)
        index.close()
        os_files.write_atomically(path, fields.encode())
        self._quarantine.note(HEALED, path, 0, 0, "rebuilt from the log", kept)

    def _offsets(self) -> None:
        """Move stored positions back to the ends of their queues."""
        ends = self._found.queue_ends
        files = ConfigFiles(self._paths.config, self._config.clock)
        clamp_to(self._paths, files, lambda topic, queue_id: ends.get((topic, queue_id), 0))


def _sync_files(directory: Path) -> None:
    for one in directory.iterdir():
        fd = os_files.open_file(one, write=True)
        try:
            os_files.sync_file(fd, one)
        finally:
            os_files.close_file(fd)


def _put_units(queue: ConsumeQueue, rows: DispatchRows, mine: npt.NDArray[np.intp]) -> None:
    one = DispatchRows(
        phy_offsets=rows.phy_offsets[mine],
        sizes=rows.sizes[mine],
        tags_codes=rows.tags_codes[mine],
        store_timestamps=rows.store_timestamps[mine],
        queue_offsets=rows.queue_offsets[mine],
        queues=[(queue.topic, queue.queue_id)],
        queue_of=np.zeros(len(mine), np.int32),
        entries=IndexEntries.none(),
    )
    Dispatcher(_OneQueue(queue), None).dispatch(one)  # type: ignore[arg-type]


class _OneQueue:
    """The queue table that a dispatcher needs, of one queue."""

    def __init__(self, queue: ConsumeQueue) -> None:
        self._queue = queue

    def add(self, topic: str, queue_id: int) -> ConsumeQueue:
        assert (topic, queue_id) == (self._queue.topic, self._queue.queue_id)
        return self._queue

    find = add


def _remove_tree(directory: Path) -> None:
    """Delete what an earlier repair left."""
    if directory.is_dir():
        for one in directory.iterdir():
            os_files.remove_file(one)
        os_files.remove_directory(directory)
