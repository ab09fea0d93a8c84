"""The sequence of a rebuild: read the state, scan, plan, write beside, fill, swap. The swap alone changes the store."""

from __future__ import annotations

import math
import os
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from rocketflow_store.files import os_files
from rocketflow_store.files.lock import when_free
from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
from rocketflow_store.format.checkpoint_layout import decode_checkpoint, logics_physical_offset
from rocketflow_store.format.derived_profile import PROFILE_55
from rocketflow_store.log.log_view import CommitLogView
from rocketflow_store.metadata.config_files.listed_topics import listed_queues
from rocketflow_store.metadata.layout.store_meta import StoreMeta, converted_meta, refuse_another_version
from rocketflow_store.metadata.layout.store_paths import StoreLock, store_holder
from rocketflow_store.metadata.native.known_tag_entries import known_tag_entries
from rocketflow_store.metadata.native.tag_entries import TagEntries
from rocketflow_store.model.errors import StoreError, StoreFullError, UnknownTopicError
from rocketflow_store.rebuild.engine import Engine, LocalEngine
from rocketflow_store.rebuild.parts import parts_directory
from rocketflow_store.rebuild.places import RebuildPlaces, find_places, shown
from rocketflow_store.rebuild.placing import made_files, plan_swap, side_of
from rocketflow_store.rebuild.progress import WRITING_SHARE, ProgressReport
from rocketflow_store.rebuild.result import RebuildRequest, RebuildResult
from rocketflow_store.rebuild.scan_stage import LogFindings, log_bytes, scan_log
from rocketflow_store.rebuild.scan_task import ScanSettings
from rocketflow_store.rebuild.space import check_space, estimated_bytes, parts_bytes
from rocketflow_store.rebuild.store_state import StoreState, look_at_store
from rocketflow_store.rebuild.upload import check_target, upload
from rocketflow_store.rebuild.write_stage import Plans, fill_lost, plan_files, write_tasks
from rocketflow_store.rebuild.write_tasks import run_write
from rocketflow_store.recovery.derived_swap import finish_swap
from rocketflow_store.recovery.take_stop_record import StoppedFiles, leave_stop_record
from rocketflow_store.views.index.derived_profile import profile_to_write
from rocketflow_store.views.index.index_service import IndexService, next_name
from rocketflow_store.views.queues.batch_consume_queue import BatchQueueTable
from rocketflow_store.views.queues.queue_table import FileQueueTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.rebuild.progress import Progress
    from rocketflow_store.settings.store_config import StoreConfig


def rebuild_store(
    path: str | Path,
    request: RebuildRequest | None = None,
    config: StoreConfig | None = None,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> RebuildResult:
    """Rebuild queues and index from the log of the store at `path` (a directory, or the URI of one).

    `progress(done, total)` gets bytes of log. Nothing changes before the swap.

    Raises:
        StoreLockedError: another process writes to the store.
        StoreFullError: the disk has no room for the new files.
        StoreVersionError: the log has a gap, and `force` is not requested.
        RemoteStoreError: object storage does not answer.
    """
    began, request = time.monotonic(), request or RebuildRequest()
    chosen: Engine = engine or LocalEngine(1)
    result = RebuildResult(shown(path), chosen.name, request.dry_run)
    with find_places(path, request, config) as places:
        refuse_another_version(places.out)
        if request.dry_run:
            _Rebuild(places, request, chosen, progress, result).preview()
        else:
            _run_locked(places, request, chosen, progress, result)
    result.seconds = time.monotonic() - began
    if request.dry_run:
        result.estimated_seconds = result.seconds / (1 - WRITING_SHARE)
    return result


def _run_locked(
    places: RebuildPlaces, request: RebuildRequest, engine: Engine, progress: Progress | None, result: RebuildResult
) -> None:
    """Rebuild under the lock of the directory that gets the files; leave no side directory."""
    out = places.out
    if places.remote is not None:
        check_target(places.remote)
    os_files.make_directory(out.root)
    lock = when_free(lambda: StoreLock(out), math.inf if request.wait else 0)
    try:
        finish_swap(out)
        had_directory = out.rocketflow.is_dir()
        try:
            _Rebuild(places, request, engine, progress, result).run()
        finally:
            _tidy(out)
            if not had_directory:
                with suppress(OSError):
                    os_files.remove_directory(out.rocketflow)
    finally:
        lock.release()


def _tidy(paths: StorePaths) -> None:
    """Remove the side directory after completing a swap that was begun, even if a stop interrupts that once.

    If the swap fails, its journal stays for the next open.
    """
    try:
        finish_swap(paths)
    except Exception:
        raise
    except BaseException:  # a stop was requested, which happens once: complete the swap
        finish_swap(paths)
        raise


class _Rebuild:
    """One rebuild of one store, under its lock."""

    def __init__(
        self,
        places: RebuildPlaces,
        request: RebuildRequest,
        engine: Engine,
        progress: Progress | None,
        result: RebuildResult,
    ) -> None:
        self._places, self._request, self._engine = places, request, engine
        self._config = places.config
        self._progress, self._result = progress, result
        self._run = f"{self._config.clock.now_ms()}-{os.getpid()}"
        self._side = side_of(places.out, self._run)
        self._files = places.log.files()

    def preview(self) -> None:
        """Fill in the result without writing files."""
        try:
            state = self._look()
            report = ProgressReport(log_bytes(state, self._files.files), self._progress)
            findings = self._scan(state, None, report)
            plans = plan_files(self._places, state, self._files, findings)
            plans.fill_in(self._result, self._config)
            self._check_topics(plans)
            try:
                check_space({self._side.parts: self._parts_bytes(), **plans.bytes_by_place(self._side, self._config)})
            except StoreFullError as error:
                self._result.no_room = str(error)
            report.end()
        finally:
            self._files.close()

    def run(self) -> None:
        """Rebuild, and swap or upload the new files."""
        try:
            state = self._look()
            self._check_estimate(state)
            os_files.make_directory(self._side.parts)
            report = ProgressReport(log_bytes(state, self._files.files), self._progress)
            findings = self._scan(state, str(self._side.parts), report)
            plans = plan_files(self._places, state, self._files, findings)
            plans.fill_in(self._result, self._config)
            self._check_topics(plans)
            check_space(plans.bytes_by_place(self._side, self._config))
            self._write(state, plans, findings, report)
            with self._removing_parts():
                if self._places.remote is None:
                    self._swap(state, findings)
                    self._record_profile()
                else:
                    self._upload()
            report.end()
        finally:
            self._files.close()

    @contextmanager
    def _removing_parts(self) -> Iterator[None]:
        """Remove the parts, which are not needed anymore, during the swap; `_tidy` removes what remains."""

        def remove() -> None:
            with suppress(StoreError):
                os_files.remove_tree(parts_directory(self._side.parts))

        thread = threading.Thread(target=remove, name="rebuild-parts")
        thread.start()
        try:
            yield
        finally:
            thread.join()

    def _look(self) -> StoreState:
        """Return the state of the store; of one that another process writes to, up to its confirm offset."""
        paths = self._places.store
        self._result.profile = self._request.profile or profile_to_write(paths, self._config)
        running = (self._request.dry_run or not self._places.in_place) and store_holder(paths) is not None
        return look_at_store(paths, self._config, self._files, self._request, running=running)

    def _scan(self, state: StoreState, side: str | None, report: ProgressReport) -> LogFindings:
        settings = ScanSettings(
            side,
            self._places.log,
            state.choice,
            tuple(self._config.delay_levels_ms),
            state.record_crc,
            dict(state.deleted.floors),
            (self._places.store.consume_queue, self._config.mapped_file_size_consume_queue),
            self._result.profile == PROFILE_55,
            self._config.max_message_size,
        )
        findings = scan_log(self._engine, state, settings, self._files, report.scanned)
        self._result.records = sum(one.records for one in findings.reports)
        self._result.bytes = sum(one.bytes for one in findings.reports)
        self._result.damaged = findings.reported
        return findings

    def _parts_bytes(self) -> int:
        return parts_bytes(self._result.units, self._result.index_entries)

    def _check_topics(self, plans: Plans) -> None:
        """Raise UnknownTopicError if a named topic is neither in the log nor listed and has no queue.

        With a queue id, raise it also if no named topic has that queue.
        """
        paths, queue_id = self._places.store, self._request.queue_id
        directories = (paths.consume_queue, paths.batch_consume_queue)
        planned = {(one.topic, one.queue_id) for one in (*plans.queues, *plans.batch_queues)}
        listed, named = listed_queues(paths) or {}, sorted(self._request.topics)
        for topic in named:
            known = topic in listed or any(topic == one for one, _ in planned)
            if not known and not any((parent / topic).is_dir() for parent in directories):
                raise UnknownTopicError(topic)
        if queue_id is None or any(queue_id < listed.get(topic, 0) or (topic, queue_id) in planned for topic in named):
            return
        if not any((parent / topic / str(queue_id)).is_dir() for parent in directories for topic in named):
            raise UnknownTopicError(", ".join(named), queue_id)

    def _check_estimate(self, state: StoreState) -> None:
        choice, size = state.choice, max(state.end - state.begin, 0)
        parts, queues, index = estimated_bytes(
            self._files.files, size, self._config, units=choice.units, index=choice.index
        )
        check_space({self._side.parts: parts, self._side.queues: queues, self._side.index: index})

    def _write(self, state: StoreState, plans: Plans, findings: LogFindings, report: ProgressReport) -> None:
        tasks = list(write_tasks(self._places, self._side, state, plans))
        report.begin_writing(tasks)
        reports = self._engine.run(run_write, tasks, "write queues and index", report.written)
        holed = sorted({queue for one in reports for queue in one.holed})
        fill_lost(self._places, self._side, state, plans, holed, findings)

    # -- into the store or to the target

    def _swap(self, state: StoreState, findings: LogFindings) -> None:
        places, paths, result = self._places, self._places.out, self._result
        everything = self._request.everything
        swap = plan_swap(paths, self._config, self._side, state.choice, everything=everything)
        swap = replace(swap, moves=(*swap.moves, *self._small_files(state, findings)))
        result.changed_files = len(swap.moves) + len(swap.removed)
        if not result.changed_files:
            return
        tags = known_tag_entries(paths, paths.index)
        if state.choice.index:
            end = findings.log_end if result.profile == PROFILE_55 else state.begin
            tags = TagEntries().extended(state.begin, end)
        swap.begin(paths)
        swap.apply(paths)
        if places.in_place and state.clean and (state.record is not None or paths.meta.exists()):
            self._leave_stop_record(findings.log_end, tags)
        swap.end(paths)
        result.swapped = True

    def _small_files(self, state: StoreState, findings: LogFindings) -> list[tuple[Path, Path]]:
        """Write `store.meta` and the checkpoint again if the profile changes them; return (new file, its place)."""
        paths, profile, home = self._places.out, self._result.profile, self._side.parts
        made: list[tuple[Path, Path, bytes]] = []
        if self._request.profile is not None:
            meta = converted_meta(paths, profile)
            if meta is not None:
                copies = [paths.meta_copy] if paths.meta_copy.exists() else []
                made += [(home / place.name, place, meta) for place in (*copies, paths.meta)]
        is_native = state.clean and paths.meta.is_file()
        with_checkpoint = self._places.in_place and (self._request.profile is not None or is_native)
        if with_checkpoint and paths.checkpoint.is_file():
            fields = decode_checkpoint(os_files.read_file(paths.checkpoint))
            last = max((one.dispatched_phy_offset for one in findings.reports), default=0)
            wanted = logics_physical_offset(last, findings.log_end) if profile == PROFILE_55 else 0
            if fields.logics_physical_offset != wanted:
                fields.logics_physical_offset = wanted
                made.append((home / paths.checkpoint.name, paths.checkpoint, fields.encode()))
        for new, _, data in made:
            os_files.write_atomically(new, data)
        return [(new, place) for new, place, _ in made]

    def _record_profile(self) -> None:
        """Record a requested profile in a store without `store.meta`: files without TAGS do not show it."""
        paths = self._places.out
        if self._places.in_place and self._request.profile is not None and not paths.meta.is_file():
            StoreMeta.load_or_create(paths, self._config, lambda _: self._result.profile)

    def _upload(self) -> None:
        remote, side, last = self._places.remote, self._side, None
        assert remote is not None
        files = [(one, f"consumequeue/{one.relative_to(side.queues)}") for one in made_files(side.queues)]
        files += [
            (one, f"batchconsumequeue/{one.relative_to(side.batch_queues)}") for one in made_files(side.batch_queues)
        ]
        for one in made_files(side.index):
            last = next_name(self._config.clock.now_ms(), last)
            files.append((one, f"index/{last}"))
        upload(self._engine, remote, files)
        self._result.changed_files = len(files)
        self._result.swapped = bool(files)

    def _leave_stop_record(self, log_end: int, tag_entries: TagEntries) -> None:
        """Write a stop record of the new files, so that the next open does not rebuild them."""
        paths, config = self._places.out, self._config
        files = MappedFileQueue(paths.log_directories(), config.mapped_file_size_commit_log, write=False)
        queues = FileQueueTable(
            paths.consume_queue, config.mapped_file_size_consume_queue, CommitLogView(files), write=False
        )
        batches = BatchQueueTable(paths.batch_consume_queue, config.mapper_file_size_batch_consume_queue, write=False)
        index = IndexService(paths.index, config.max_hash_slot_num, config.max_index_num, config.clock, write=False)
        try:
            queues.refresh()
            batches.refresh()
            stopped = StoppedFiles(files, queues, batches, index)
            leave_stop_record(paths, config, stopped, log_end, tag_entries=tag_entries)
        finally:
            for one in (queues, batches, index, files):
                one.close()
