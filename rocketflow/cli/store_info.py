"""What `store info` tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketflow_store import StoreReader


def store_info(reader: StoreReader) -> dict[str, Any]:
    """State and bounds of a store as one JSON object."""
    snapshot = reader.snapshot()
    topics: dict[str, list[dict[str, int]]] = {}
    for (topic, queue_id), (low, high) in sorted(snapshot.queues.items()):
        topics.setdefault(topic, []).append({"queueId": queue_id, "minOffset": low, "maxOffset": high})
    indexes = reader.index.files
    checkpoint, stretches = reader.checkpoint, reader.tag_stretches()
    return {
        "path": str(reader.path),
        "state": reader.state,
        "commitLog": {
            "minOffset": reader.min_phy_offset,
            "maxOffset": snapshot.max_phy_offset,
            "files": reader.commit_log_file_count,
            "fileSize": reader.config.mapped_file_size_commit_log,
            "paths": [str(one) for one in reader.paths.commit_logs],
        },
        "topics": [{"topic": topic, "queues": queues} for topic, queues in topics.items()],
        "index": {
            "files": len(indexes),
            "entries": sum(one.entries for one in indexes),
            "beginTimestamp": indexes[0].header.begin_timestamp if indexes else 0,
            "endTimestamp": indexes[-1].header.end_timestamp if indexes else 0,
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
        "consumerOffsets": [str(one) for one in reader.paths.consumer_offsets if one.exists()],
        "checkpoint": {
            "physicMsgTimestamp": checkpoint.physic_msg_timestamp,
            "logicsMsgTimestamp": checkpoint.logics_msg_timestamp,
            "indexMsgTimestamp": checkpoint.index_msg_timestamp,
            "logicsPhysicalOffset": checkpoint.logics_physical_offset,
        },
    }
