"""The state of a store before it is rebuilt: where its log ends, and which topics were deleted."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rocketflow_store.files.mapped.mapped_file import file_name
from rocketflow_store.log.record_crc_range import record_crc_range
from rocketflow_store.log.written_end import written_end
from rocketflow_store.metadata.config_files import ConfigFiles, is_system_topic
from rocketflow_store.metadata.config_files.listed_topics import listed_topics
from rocketflow_store.metadata.native.confirm import read_confirm
from rocketflow_store.metadata.native.deleted_topics import DeletedTopics
from rocketflow_store.metadata.native.stop_record import believed_record
from rocketflow_store.model.errors import StoreError, StoreVersionError
from rocketflow_store.model.topic_names import LMQ_PREFIX, is_directory_name
from rocketflow_store.rebuild.scan_task import QueueChoice
from rocketflow_store.recovery.preview import preview_recovery

if TYPE_CHECKING:
    from pathlib import Path

    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.metadata.native.stop_record import StopRecord
    from rocketflow_store.rebuild.result import RebuildRequest
    from rocketflow_store.settings.store_config import StoreConfig

    Queue = tuple[str, int]

_ZEROS_OF_A_RECORD: Final = 32
"""More zeros than a complete record ends with: two without properties, ZEROS_OF_LMQ in some."""


@dataclass(slots=True)
class StoreState:
    """A log of [`begin`, `end`); bytes after `known_end` that are not a record are a torn tail, not damage."""

    begin: int
    end: int
    known_end: int
    gaps: list[tuple[int, int]]
    clean: bool
    record: StopRecord | None
    record_crc: tuple[int, int]
    deleted: DeletedTopics
    choice: QueueChoice
    unlisted: frozenset[str]
    """The listed topics, if only they (and system topics) may have new queues; empty if any topic may."""


def look_at_store(
    paths: StorePaths, config: StoreConfig, files: MappedFileQueue, request: RebuildRequest, *, running: bool
) -> StoreState:
    """Read the state of a store without a writer, or (for a dry run) of one that is `running`. Changes nothing."""
    there = files.files
    begin = there[0].file_from_offset if there else 0
    record, unclean = believed_record(paths), paths.abort.exists()
    end = min(written_end(files.files, keep_cached=True) + _ZEROS_OF_A_RECORD, there[-1].end_offset if there else 0)
    known_end = 0
    confirmed = read_confirm(paths)
    if running and confirmed is not None:
        end = known_end = confirmed.confirm_offset
    elif unclean and confirmed is not None:
        # written by RocketFlow: what recovery would cut, including an incomplete sink commit, is not rebuilt
        end = known_end = preview_recovery(paths.root, config).truncated_to
    elif record is not None and not unclean:
        known_end = min(record.end_phy_offset, there[-1].end_offset if there else 0)
        end = max(end, known_end)
    gaps = [
        (one.end_offset, two.file_from_offset) for one, two in pairwise(there) if one.end_offset < two.file_from_offset
    ]
    if gaps and not request.force:
        missing = f"{str(there[0].path).rpartition('/')[0]}/{file_name(gaps[0][0])}"
        raise StoreVersionError(
            missing, "is missing between other CommitLog files; restore it, or rebuild the rest with --force"
        )
    left_out, listed = _left_out(paths, record, clean=not unclean and not running)
    return StoreState(
        begin=begin,
        end=end,
        known_end=known_end,
        gaps=gaps,
        clean=not unclean,
        record=record,
        record_crc=record_crc_range(paths),
        deleted=DeletedTopics.load(paths),
        choice=QueueChoice(
            units=request.units,
            index=request.index and config.message_index_enable,
            topics=request.topics or None,
            queue_id=request.queue_id,
            left_out=left_out,
            batch_topics=_batch_topics(paths, record),
            lmqs=_lmqs(paths, config, record),
            unusual_lmqs=frozenset(
                one.name
                for one in _directories(paths.consume_queue)
                if one.name.startswith(LMQ_PREFIX) and not is_directory_name(one.name)
            ),
        ),
        unlisted=listed,
    )


def _left_out(paths: StorePaths, record: StopRecord | None, *, clean: bool) -> tuple[frozenset[str], frozenset[str]]:
    """Return the topics that were deleted, and those that may have queues (empty: any may)."""
    listed = listed_topics(paths)
    if listed is None:
        return frozenset(), frozenset()
    deleted: frozenset[str] = frozenset()
    if record is not None:
        known = {**record.queues, **record.batch_queues}
        deleted = frozenset(key[0] for key, state in known.items() if state.listed) - listed
    return deleted, listed if clean else frozenset()


def may_have_queues(state: StoreState, paths: StorePaths, topic: str) -> bool:
    """Return True if a topic of the log still exists: it is listed, a system topic, requested, or has a queue."""
    if topic in state.choice.left_out:
        return False
    if not state.unlisted or topic in state.unlisted or is_system_topic(topic) or topic.startswith(LMQ_PREFIX):
        return True
    if state.choice.topics is not None and topic in state.choice.topics:
        return True
    return any((parent / topic).is_dir() for parent in (paths.consume_queue, paths.batch_consume_queue))


def _batch_topics(paths: StorePaths, record: StopRecord | None) -> frozenset[str]:
    there = {one.name for one in _directories(paths.batch_consume_queue)}
    there |= {topic for topic, _ in record.batch_queues} if record is not None else set()
    try:
        topics = ConfigFiles(paths.config).topics.topics()
    except StoreError:
        return frozenset(there)
    return frozenset(there | {name for name, one in topics.items() if one.is_batch_cq})


def _lmqs(paths: StorePaths, config: StoreConfig, record: StopRecord | None) -> frozenset[str] | None:
    """Return the LMQs that exist or existed; None if only records show them."""
    if config.enable_multi_dispatch:
        return None
    topics = [one.name for one in _directories(paths.consume_queue)]
    there = {one for one in topics if one.startswith(LMQ_PREFIX)}
    if record is None and (there or not topics):
        return None  # no other evidence; only a broker that has LMQs writes their offsets into records
    if record is not None:
        there |= {topic for topic, _ in record.queues if topic.startswith(LMQ_PREFIX)}
    return frozenset(there)


def _directories(parent: Path) -> list[Path]:
    return [one for one in parent.iterdir() if one.is_dir()] if parent.is_dir() else []
