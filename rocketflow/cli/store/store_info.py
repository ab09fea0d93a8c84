"""The fields and tables of `store info`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rocketflow.cli.shared.parameters import QUEUE_BOUNDS
from rocketflow.process.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketflow_store import StoreReader


FIELDS: Final[dict[str, dict[str, str]]] = {
    "store info": {
        "path": "the store",
        "state": "clean, unclean (the last writer was killed) or running (a writer has the lock)",
        "profile": "RocketMQ version of the derived files, 5.3 or 5.5",
        "commitLog": "the CommitLog",
        "commitLog.minOffset": "its first byte",
        "commitLog.maxOffset": "the byte after its last record",
        "commitLog.files": "number of its files",
        "commitLog.fileSize": "bytes of a file",
        "commitLog.paths": "its directories",
        "topics": "topics that have a queue",
        "topics.topic": "name",
        "topics.queues": "its queues",
        "topics.queues.queueId": "queue",
        **{f"topics.queues.{name}": about for name, about in QUEUE_BOUNDS.items()},
        "topics.bytes": "with --sizes: bytes of its records",
        "topics.beginTimestamp": "with --sizes: store time of its first message, ms",
        "topics.endTimestamp": "with --sizes: store time of its last message, ms",
        "index": "the index",
        "index.files": "number of its files",
        "index.entries": "number of its entries",
        "index.beginTimestamp": "store time of the first entry, ms",
        "index.endTimestamp": "store time of the last entry, ms",
        "index.tagStretches": "parts of the log by whether the index has entries for TAGS",
        "index.tagStretches.beginOffset": "first byte of the part",
        "index.tagStretches.endOffset": "the byte after it",
        "index.tagStretches.tagEntries": "whether the index has entries for TAGS there",
        "index.tagStretchesExact": "whether every entry was read; else a sample",
        "checkpoint": "fields of the file checkpoint",
        "checkpoint.physicMsgTimestamp": "store time up to which the log is synced, ms",
        "checkpoint.logicsMsgTimestamp": "store time up to which the queues are synced, ms",
        "checkpoint.indexMsgTimestamp": "store time up to which the index is synced, ms",
        "checkpoint.logicsPhysicalOffset": "offset of the last record whose unit is synced (5.5.0)",
        "settings": "with --config: the file of settings",
        "settings.file": "its path",
        "settings.withoutEffect": "names of its settings that have no effect in a store",
        "consumerOffsets": "stored offsets of consumer groups: TOPIC@GROUP, then queue",
        "queuesWithoutFiles": "queues that the writer recorded and that have no files",
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


def lost_queues_hint(reader: StoreReader) -> str:
    """Return the remedy for a CommitLog without any queue."""
    return (
        "the CommitLog has no ConsumeQueue at all; if they are lost, "
        f"`rocketflow store rebuild {reader.path}` rebuilds them"
    )


def topic_columns(sizes: bool) -> tuple[str, ...]:
    """Return the columns of the table of topics."""
    more = ("bytes", "beginTimestamp", "endTimestamp") if sizes else ()
    return ("topic", "queues", "messages", *more)


def topic_rows(topics: list[dict[str, Any]], sizes: bool) -> Iterator[list[object]]:
    """Yield the cells of each topic of `store_info`."""
    for one in topics:
        row: list[object] = [one["topic"], len(one["queues"])]
        row.append(sum(queue["maxOffset"] - queue["minOffset"] for queue in one["queues"]))
        if sizes:
            times = (one["beginTimestamp"], one["endTimestamp"])
            row += [one["bytes"], *(None if ms is None else iso_time(ms) for ms in times)]
        yield row


def _with_sizes(reader: StoreReader, topic: str, queues: list[dict[str, int]]) -> dict[str, Any]:
    """Return bytes and retained time span of a topic; None if unknown."""
    from rocketflow_store.spi.reads import queue_size

    sizes = [
        queue_size(reader, topic, one["queueId"], one["minOffset"], one["maxOffset"])
        for one in queues
        if one["minOffset"] < one["maxOffset"]
    ]
    begins, ends = [one.begin_timestamp for one in sizes], [one.end_timestamp for one in sizes]
    totals = [one.bytes for one in sizes]
    return {
        "bytes": None if None in totals else sum(one or 0 for one in totals),
        "beginTimestamp": min((one for one in begins if one is not None), default=None),
        "endTimestamp": max((one for one in ends if one is not None), default=None),
    }


def store_info(reader: StoreReader, *, sizes: bool = False) -> dict[str, Any]:
    """Return state and bounds of a store as one JSON object; with `sizes` bytes and time span of each topic."""
    from rocketflow_store.spi.reads import consumer_offset_files, index_figures, log_figures, queues_without_files

    snapshot = reader.snapshot()
    topics: dict[str, list[dict[str, int]]] = {}
    for (topic, queue_id), (low, high) in sorted(snapshot.queues.items()):
        topics.setdefault(topic, []).append({"queueId": queue_id, "minOffset": low, "maxOffset": high})
    index, log = index_figures(reader), log_figures(reader)
    checkpoint, stretches = reader.checkpoint, reader.tag_stretches()
    return {
        "path": str(reader.path),
        "state": reader.state,
        "commitLog": {
            "minOffset": reader.min_phy_offset,
            "maxOffset": snapshot.max_phy_offset,
            "files": log.files,
            "fileSize": log.file_size,
            "paths": list(log.directories),
        },
        "topics": [
            {"topic": topic, "queues": queues, **(_with_sizes(reader, topic, queues) if sizes else {})}
            for topic, queues in topics.items()
        ],
        "queuesWithoutFiles": queues_without_files(reader, snapshot.queues),
        "index": {
            "files": index.files,
            "entries": index.entries,
            "beginTimestamp": index.begin_timestamp,
            "endTimestamp": index.end_timestamp,
            "tagStretches": [
                {
                    "beginOffset": one.begin_phy_offset,
                    "endOffset": one.end_phy_offset,
                    "tagEntries": one.tag_entries,
                }
                for one in stretches.stretches
            ],
            "tagStretchesExact": stretches.exact,
        },
        "profile": reader.profile,
        "consumerOffsets": consumer_offset_files(reader),
        "checkpoint": {
            "physicMsgTimestamp": checkpoint.physic_msg_timestamp,
            "logicsMsgTimestamp": checkpoint.logics_msg_timestamp,
            "indexMsgTimestamp": checkpoint.index_msg_timestamp,
            "logicsPhysicalOffset": checkpoint.logics_physical_offset,
        },
    }
