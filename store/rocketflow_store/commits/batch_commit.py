"""Exactly-once commits: one envelope and its rows in the log, keyed by (sink id, batch id).

The log alone decides. The last envelope of a sink is found by walking the commit topic's ConsumeQueue backwards over
tag hashes; the run registry in `rocketflow/staging/SINK/runs` only names the newest run of a query.
"""

from __future__ import annotations

import contextlib
import enum
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import numpy as np

from rocketflow_store.commits import pooled_parts
from rocketflow_store.commits.commit_copy import copy_of, leave_copy
from rocketflow_store.commits.proven_parts import proven_chunks
from rocketflow_store.commits.remembered_commits import remembered_commit, remembered_sinks
from rocketflow_store.commits.staged_part import StagedPart, batch_directory, sink_directory
from rocketflow_store.files import os_files
from rocketflow_store.files.file_names import check_file_name
from rocketflow_store.format.properties import encode_properties
from rocketflow_store.metadata.native.commit_envelope import COMMIT_QUEUE_ID, COMMIT_TOPIC, CommitEnvelope, envelope_of
from rocketflow_store.model.clock import SystemClock
from rocketflow_store.model.errors import StagedPartError, StoreConfigError, StoreError
from rocketflow_store.model.java_compat import string_hash
from rocketflow_store.model.message_id import UNIQ_KEYS
from rocketflow_store.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rocketflow_store.commits.commit_target import CommitLogReads, CommitTarget
    from rocketflow_store.format.record import RecordFields
    from rocketflow_store.model.results import AppendBatchResult
    from rocketflow_store.records.encoding.encode import EncodedChunk

_SCAN_UNITS: Final = 1 << 16
_MAX_RUN_NAME: Final = 240
"""A run's file also has its number in its name; other characters take three or more."""
_STALE_AFTER_S: Final = 24 * 3600.0


class SinkCommitError(StoreError):
    """A batch must not be committed."""


class ReplayMismatchError(SinkCommitError):
    """A committed batch id came again with other rows."""


class CheckpointWentBackError(SinkCommitError):
    """A batch older than the last committed one came: the checkpoint is not the one that wrote the log."""


class SupersededRunError(SinkCommitError):
    """A newer run of the same query has started; this one must not commit any more."""


class CommitStatus(enum.Enum):
    """Outcome of a commit."""

    COMMITTED = "committed"
    REPLAYED = "replayed"
    """The batch was already in the log; nothing was written."""


@dataclass(frozen=True, slots=True)
class SinkBatch:
    """One batch to commit.

    `query_id` names the query that numbers the batches; it is `sink_id` unless the user chose one.
    """

    sink_id: str
    query_id: str
    batch_id: int
    run_id: str
    run_seq: int
    parts: Sequence[StagedPart]
    more_follow: bool = False
    """True for a batch of a stream: its staged files are kept for later batches to overwrite."""

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def digest(self) -> str:
        """Sum of all row hashes, which does not depend on the partitioning."""
        digests = [part.digest for part in self.parts if part.digest is not None]
        assert len(digests) == len(self.parts), "a sink's rows are staged with their hashes"
        return f"{sum(digests) & 0xFFFFFFFFFFFFFFFF:016x}"


@dataclass(frozen=True, slots=True)
class CommitResult:
    """Outcome of a commit: the rows of this batch id in the log, and their begin and end."""

    status: CommitStatus
    rows: int
    begin_offset: int
    end_offset: int


def check_sink_id(sink_id: str) -> str:
    """Return the id; raise StoreConfigError if it cannot be a tag and a key."""
    return check_file_name("sinkId", sink_id)


def last_commit(store: CommitLogReads, sink_id: str) -> CommitEnvelope | None:
    """Return the newest envelope of a sink, in the log or remembered by retention; None if it never committed."""
    envelopes = (commit_at(store, place, sink_id) for place in commit_places(store, sink_id))
    newest = next((one for one in envelopes if one is not None), None)
    return newest if newest is not None else remembered_commit(store.paths, sink_id)


def last_commits(store: CommitLogReads, prefix: str) -> dict[str, CommitEnvelope]:
    """Return the newest envelope of every sink whose id begins with `prefix`, by its id."""
    low, high = store.bounds(COMMIT_TOPIC, COMMIT_QUEUE_ID)
    newest: dict[int, int] = {}
    while high > low:
        start = max(low, high - _SCAN_UNITS)
        units = store.read_units(COMMIT_TOPIC, COMMIT_QUEUE_ID, start, high)[::-1]
        codes, first = np.unique(units["tags_code"], return_index=True)
        for code, place in zip(codes.tolist(), units["phy_offset"][first].tolist(), strict=True):
            newest.setdefault(code, place)
        high = start
    ids = remembered_sinks(store.paths)
    for place in newest.values():
        message = store.look_message_by_offset(place)
        envelope = envelope_of(message) if message is not None else None
        if envelope is not None:
            ids.add(envelope.sink_id)
    found = {one: last_commit(store, one) for one in sorted(ids) if one.startswith(prefix)}
    return {one: commit for one, commit in found.items() if commit is not None}


def commit_places(store: CommitLogReads, sink_id: str) -> Iterator[int]:
    """Yield physical offsets of possible envelopes of a sink (by the tag), newest first; `commit_at` checks them."""
    low, high = store.bounds(COMMIT_TOPIC, COMMIT_QUEUE_ID)
    code = string_hash(sink_id)
    while high > low:
        start = max(low, high - _SCAN_UNITS)
        units = store.read_units(COMMIT_TOPIC, COMMIT_QUEUE_ID, start, high)
        yield from units["phy_offset"][units["tags_code"] == code][::-1].tolist()
        high = start


def commit_at(store: CommitLogReads, phy_offset: int, sink_id: str) -> CommitEnvelope | None:
    """Return the envelope at one of the `commit_places`.

    Returns None for another sink's, and for a damaged one without a copy.
    """
    message = store.look_message_by_offset(phy_offset)
    envelope = envelope_of(message) if message is not None else copy_of(store.paths, sink_id, phy_offset)
    return envelope if envelope is not None and envelope.sink_id == sink_id else None


def commit_batch(
    store: CommitTarget, batch: SinkBatch, *, queues: int | None = None, replay_mismatch: str = "error"
) -> CommitResult:
    """Commit a batch to the log once: all rows or none, in the order of its parts, visible at one instant.

    The same batch again changes nothing; other rows under a committed batch id raise ReplayMismatchError (with
    replay_mismatch="skip" they are skipped if the number of rows agrees). New topics get `queues` queues, also
    those that parts without rows name.
    """
    check_sink_id(batch.sink_id)
    for part in batch.parts:
        if part.digest is None:
            raise StagedPartError(part.path or "inline part", "a sink's part needs the digest of its rows")
    with store.commit_lock:
        return _commit_batch(store, batch, queues, replay_mismatch)


def _commit_batch(store: CommitTarget, batch: SinkBatch, queues: int | None, replay_mismatch: str) -> CommitResult:
    store.dispatch_pending()
    last = last_commit(store, batch.sink_id)
    newest = newest_run(store.paths.staging, batch.sink_id)
    if last is not None:
        with _refusals_reported(store.path):
            _check_fence(batch, max(newest, last.run_seq) if last.run_id != batch.run_id else newest)
            replayed = _replayed(batch, last, replay_mismatch)
        if replayed is not None:
            why = f"sink {batch.sink_id}: batch {batch.batch_id} is already in the log"
            events.report(events.REPLAYED, store.path, COMMIT_TOPIC, why, offset=last.begin_offset, count=batch.rows)
            sweep(store.paths.staging, batch.sink_id, batch.batch_id)
            return replayed
    else:
        with _refusals_reported(store.path):
            _check_fence(batch, newest)
    chunks = proven_chunks(batch.parts, store.config, redelivered=False) if batch.rows else []
    with store.one_topic_write():
        for topic in sorted({topic for part in batch.parts for topic in part.topics}):
            store.ensure_topic(topic, queues)
    if batch.rows == 0:
        return CommitResult(CommitStatus.COMMITTED, 0, store.max_phy_offset, store.max_phy_offset)
    envelope = CommitEnvelope(
        batch.sink_id,
        batch.batch_id,
        batch.run_id,
        batch.run_seq,
        batch.rows,
        batch.digest,
        query_id=batch.query_id,
        record_crc=all([part.property_crc for part in batch.parts] or [store.config.append_prop_crc]),
    )
    result = append_with_envelope(store, envelope, chunks)
    if batch.more_follow:
        pooled_parts.keep(store.paths.staging, [Path(part.path) for part in batch.parts if part.path is not None])
    sweep(store.paths.staging, batch.sink_id, batch.batch_id)
    return CommitResult(CommitStatus.COMMITTED, batch.rows, result.first_phy_offset, result.next_phy_offset)


def append_with_envelope(
    store: CommitTarget,
    envelope: CommitEnvelope,
    chunks: Iterable[EncodedChunk],
    *,
    check: Callable[[], None] | None = None,
) -> AppendBatchResult:
    """Append `envelope`, with the offsets of its rows, and the rows; `check` is as in `append_commit`."""
    from rocketflow_store.append.bulk_append import commit_record_fields

    names = {"KEYS": envelope.sink_id, "TAGS": envelope.sink_id, "UNIQ_KEY": UNIQ_KEYS.next()}
    properties = encode_properties(names)

    def fields(begin_offset: int, end_offset: int) -> RecordFields:
        placed = replace(envelope, begin_offset=begin_offset, end_offset=end_offset)
        return commit_record_fields(store.config, placed.encode(), properties, 0)

    result = store.append_commit(fields, chunks, check)
    begin, end = result.first_phy_offset, result.next_phy_offset
    leave_copy(store.paths, replace(envelope, begin_offset=begin, end_offset=end))
    return result


def commit_nothing(
    reads: CommitLogReads, sink_id: str, query_id: str | None, batch_id: int, replay_mismatch: str = "error"
) -> None:
    """Check a batch without any part: nothing is written, but an empty replay of a committed batch is refused.

    `query_id` is None if it is unknown.
    """
    check_nothing(last_commit(reads, sink_id), query_id, batch_id, replay_mismatch)


def check_nothing(
    last: CommitEnvelope | None, query_id: str | None, batch_id: int, replay_mismatch: str = "error"
) -> None:
    """Check a batch without any part against the last envelope of its sink, as `commit_nothing` does."""
    if last is not None:
        batch = SinkBatch(last.sink_id, query_id or last.query_id, batch_id, last.run_id, last.run_seq, ())
        _replayed(batch, last, replay_mismatch)


@contextlib.contextmanager
def _refusals_reported(store: Path) -> Iterator[None]:
    """Report a batch that is refused."""
    try:
        yield
    except SinkCommitError as error:
        events.report(events.SUPERSEDED, store, COMMIT_TOPIC, str(error))
        raise


def _check_fence(batch: SinkBatch, newest: int) -> None:
    if batch.run_seq < newest:
        raise SupersededRunError(
            f"sink {batch.sink_id}: run {batch.run_seq} ({batch.run_id}) was superseded by run {newest}; "
            "only the newest run of a query may commit"
        )


def _replayed(batch: SinkBatch, last: CommitEnvelope, replay_mismatch: str) -> CommitResult | None:
    if last.query_id != batch.query_id:
        raise CheckpointWentBackError(
            f"sink {batch.sink_id} belongs to query {last.query_id}, whose last batch was {last.batch_id}; query "
            f"{batch.query_id} (a new checkpoint?) must use another sinkId, or the old checkpoint"
        )
    if batch.batch_id > last.batch_id:
        return None
    if batch.batch_id < last.batch_id:
        raise CheckpointWentBackError(
            f"sink {batch.sink_id}: batch {batch.batch_id} came after batch {last.batch_id} was committed; "
            "the checkpoint went back, restore the right one or choose a new sinkId"
        )
    same = (batch.rows, batch.digest) == (last.rows, last.digest)
    if not same and not (replay_mismatch == "skip" and batch.rows == last.rows):
        raise ReplayMismatchError(
            f"sink {batch.sink_id}: batch {batch.batch_id} is committed with {last.rows} rows (digest {last.digest}) "
            f"and came again with {batch.rows} rows (digest {batch.digest}); if the query is not deterministic, "
            "set replayMismatch=skip (only for equal row counts)"
        )
    return CommitResult(CommitStatus.REPLAYED, last.rows, last.begin_offset, last.end_offset)


# -- runs


def _runs_directory(staging: Path, sink_id: str) -> Path:
    return sink_directory(staging, sink_id) / "runs"


def registered_run(staging: Path, sink_id: str, run_id: str) -> int | None:
    """Return the sequence number of a run, None if it is not registered."""
    return _runs(_runs_directory(staging, sink_id)).get(quote(run_id, safe=""))


def newest_run(staging: Path, sink_id: str) -> int:
    """Return the sequence number of the newest registered run, 0 if there is none."""
    return max(_runs(_runs_directory(staging, sink_id)).values(), default=0)


def _runs(directory: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(directory):
            number, _, run_id = name.partition("-")
            if number.isdigit() and run_id:
                found[run_id] = max(found.get(run_id, 0), int(number))  # several may be abandoned
    return found


def register_run(staging: Path, sink_id: str, run_id: str, at_least: int) -> int:
    """Return the sequence number of a run; register it if it is new, with a number above all others and `at_least`.

    Any number of tasks of one run may call this at once; they get the same number.
    """
    directory, name = _runs_directory(staging, sink_id), quote(run_id, safe="")
    if not 0 < len(name) <= _MAX_RUN_NAME:
        raise StoreConfigError("runId", run_id[:40], f"must be 1 to {_MAX_RUN_NAME} letters, digits and _.-~")
    os_files.make_directory(directory)
    while True:
        runs = _runs(directory)
        if name in runs:
            return runs[name]
        number = max([at_least, *runs.values()]) + 1
        claim = directory / f"claim-{number:012d}"
        try:
            fd = os_files.create_exclusively(claim)
        except FileExistsError:
            _give_way(claim, directory, number)
            continue
        os_files.close_file(fd)
        os_files.touch(directory / f"{number:012d}-{name}")
        return number


def _give_way(claim: Path, directory: Path, number: int) -> None:
    """Wait until the other task that claimed this number finishes; take over the claim if that task died."""
    deadline = time.monotonic() + 2.0
    while time.monotonic() < deadline:
        if number in _runs(directory).values():
            return
        time.sleep(0.005)
    with contextlib.suppress(OSError):
        os_files.touch(directory / f"{number:012d}-abandoned")
        os_files.touch(claim)


# -- leftovers


def sweep(staging: Path, sink_id: str, batch_id: int) -> None:
    """Delete what attempts at this batch and earlier ones left, and old leftovers of other sinks."""
    home = sink_directory(staging, sink_id)
    for entry in _entries(home):
        if entry.name.isdigit() and int(entry.name) <= batch_id:
            os_files.remove_tree(entry)
    now_s = SystemClock().now_ms() / 1000
    for sink in _entries(staging):
        for entry in _entries(sink):
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and now_s - entry.stat().st_mtime > _STALE_AFTER_S:
                    os_files.remove_tree(entry)
    pooled_parts.drop_stale(staging, now_s - _STALE_AFTER_S)


def abort_batch(staging: Path, sink_id: str, batch_id: int, parts: Sequence[StagedPart]) -> None:
    """Drop the parts of a batch that this attempt will not commit; the log is not touched.

    A commit that became durable has its rows in the log: it does not need the parts either.
    """
    for part in parts:
        part.discard()
    with contextlib.suppress(OSError):
        os_files.remove_directory(batch_directory(staging, sink_id, batch_id))


def _entries(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []
