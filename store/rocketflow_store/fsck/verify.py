"""Verification of every record, queue unit and index entry against the log, and of the small files.

It only reads, and works beside a live writer. Memory does not grow with the store: the log is read in stretches, queues
and index in blocks.

Kinds of findings: `record` (damaged bytes of the log: lost), `missing-file` (a gap in the log: lost), `torn-tail`
(bytes after the end), `blank` (the end mark of a CommitLog file), `missing-unit` / `wrong-unit` (a record that its
queue does not point at), `stray-unit` (a unit without its record), `index-header`, `index-entry`, `index-chain`,
`missing-entry` (a record that the index does not name), `lost-message` (a queue offset that no record has, or a record
that claims one which others refute: lost), `bad-body` (a sound record whose body cannot be decoded), `checkpoint`,
`config`, `meta`, `offset` (a position after its queue's end), `timer` (wheel, log or check of the timer), `file-size`,
`foreign-file`. `repair` rebuilds everything that is not lost; bodies stay as they are.

Every check is a function or small class that takes the state of the opened store (`observation`) and adds to the one
list of findings; results of an earlier check that it needs are arguments.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rocketflow_store.delivery.timer.timer_rows import TIMER_QUEUE_ID
from rocketflow_store.fsck.findings import Finding, Findings, VerifyResult
from rocketflow_store.fsck.log_damage import damage_of_log
from rocketflow_store.fsck.observation import LenientReader, observe
from rocketflow_store.fsck.verify_batch import BatchQueuesCheck
from rocketflow_store.fsck.verify_claims import ClaimsCheck
from rocketflow_store.fsck.verify_index import IndexCheck
from rocketflow_store.fsck.verify_log import LogContext, Progress, check_log
from rocketflow_store.fsck.verify_queues import QueuesCheck
from rocketflow_store.fsck.verify_side import (
    check_checkpoint,
    check_config,
    check_files,
    check_meta,
    offsets_beyond,
)
from rocketflow_store.fsck.verify_timer import check_timer
from rocketflow_store.fsck.verify_units import ListedTopics
from rocketflow_store.model.topic_names import TIMER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocketflow_store.fsck.observation import Observation
    from rocketflow_store.settings.store_config import StoreConfig

    Queue = tuple[str, int]

__all__ = ["Finding", "VerifyResult", "verify_store"]

_LOSS_FIRST = ("record", "missing-file", "lost-message")
_INDEX_KINDS = ("index-header", "index-entry", "index-chain", "missing-entry")


def verify_store(
    path: str | Path,
    config: StoreConfig | None = None,
    *,
    workers: int = 2,
    progress: Callable[[int, int], None] | None = None,
    locked: bool = False,
) -> VerifyResult:
    """Check the whole store, `workers` CommitLog files at a time; call `progress(done, total)` with bytes of log.

    With `locked` the caller holds the store's lock, and no writer runs.
    """
    began = time.monotonic()
    with LenientReader(path, config) as reader:
        seen = observe(reader, locked=locked)
        result = _verify(seen, workers, Progress(seen.limit - reader.min_phy_offset, progress))
    result.seconds = time.monotonic() - began
    return result


def _verify(seen: Observation, workers: int, progress: Progress) -> VerifyResult:
    found, reader = Findings(), seen.reader
    if seen.is_quiet:
        check_files(reader.paths, reader.config, found)
    topics = ListedTopics(check_config(reader.paths, found), seen.unlisted_topics)
    index = IndexCheck(seen)
    index.structure(found)
    log = check_log(LogContext(seen, topics, index, progress), workers)
    damage = damage_of_log(seen, log, found)
    claims = ClaimsCheck(seen, topics, damage)
    judged = claims.judge(log.units)
    queues = QueuesCheck(seen, log, judged, damage)
    lost = queues.run(found)
    claims.report(judged, log.units, lost, found)
    queues.report(found)
    batches = BatchQueuesCheck(seen, topics.queues, judged).run(log.units.batches, damage, found)
    index.report(log.reports, damage, found)
    records = log.records - damage.other_heads
    if seen.state == "unclean":
        index.report_absent(log.reports, found)
        queues.report_absent(records, found)
    damage.report(found)
    for one in log.reports:
        found.update(one.bad_bodies)
    check_meta(reader.paths, reader.config, found)
    newest = max((one.max_store_timestamp for one in log.reports), default=0)
    ends = {**batches.ends, **queues.ends}
    if seen.is_quiet:
        check_checkpoint(seen, newest, found)
        _check_positions(seen, ends, topics, found)
    return VerifyResult(
        records=records,
        bytes=sum(one.bytes for one in log.reports),
        findings=sorted(found.listed, key=lambda one: one.kind not in _LOSS_FIRST),
        unlisted=found.unlisted,
        lost_records=found.lost_records,
        without_record_crc=sum(one.without_record_crc for one in log.reports),
        damage=list(damage.listed),
        queues=queues.wrong,
        batch_queues=batches.wrong,
        queue_ends=ends,
        strays=queues.strays,
        end=seen.limit if seen.is_clean else seen.end,
        index_damaged=any(_is_of_index(one, reader.paths.index) for one in found.listed),
        max_store_timestamp=newest,
        dispatched_phy_offset=max((one.dispatched_phy_offset for one in log.reports), default=0),
    )


def _check_positions(seen: Observation, ends: dict[Queue, int], topics: ListedTopics, found: Findings) -> None:
    """Check the stored positions and the timer's files against the ends of the queues."""
    paths = seen.reader.paths
    offsets_beyond(paths, ends, topics.queues, found)
    check_timer(paths, ends.get((TIMER_TOPIC, TIMER_QUEUE_ID), 0), seen.end, found)


def _is_of_index(one: Finding, index: Path) -> bool:
    return one.kind in _INDEX_KINDS or (one.kind == "file-size" and one.file.startswith(str(index)))
