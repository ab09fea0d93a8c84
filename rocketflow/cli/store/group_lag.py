"""`store groups`: the offsets of consumer groups, and their lag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rocketflow.cli.shared.parameters import QUEUE_BOUNDS
from rocketflow.errors import UsageError
from rocketflow.process.nearest import did_you_mean
from rocketflow_store.spi.reads import record_bytes, stored_at
from rocketflow_store.spi.tables import group_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketflow_store import StoreReader

GROUP_COLUMNS = ("group", "topic", "queueId", "offset", "maxOffset", "lagMessages", "lagBytes", "lagMs")


FIELDS: Final[dict[str, dict[str, str]]] = {
    "store groups": {
        "group": "consumer group",
        "topic": "topic",
        "queueId": "queue",
        "offset": "next queue offset of the group; null if it has none",
        **QUEUE_BOUNDS,
        "lagMessages": "messages from the offset to the end; null if unknown",
        "lagBytes": "bytes of their records; null if unknown",
        "lagMs": "age of the first of them in ms; null if unknown",
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


def group_lags(reader: StoreReader, group: str | None, topic: str | None, now_ms: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each queue of each topic that a group reads; unknown values are None.

    Raises:
        UsageError: the store has no offsets of the group or of the topic.
    """
    offsets = group_offsets(reader.path)
    if group is not None and group not in (known := {name for _, name in offsets}):
        raise UsageError(f"no group {group!r} has offsets in this store: {did_you_mean(group, known)}")
    if topic is not None and topic not in (read := {name for name, _ in offsets}):
        raise UsageError(f"no group has offsets of topic {topic!r}: {did_you_mean(topic, read)}")
    bounds = reader.snapshot().queues
    queues: dict[str, list[int]] = {}
    for name, queue_id in sorted(bounds):
        queues.setdefault(name, []).append(queue_id)
    for of_topic, of_group in sorted(offsets, key=lambda one: (one[1], one[0])):
        if group not in (None, of_group) or topic not in (None, of_topic):
            continue
        known_offsets = offsets[of_topic, of_group]
        for queue_id in sorted({*queues.get(of_topic, []), *known_offsets}):
            found = _lag(
                reader, of_topic, queue_id, known_offsets.get(queue_id), bounds.get((of_topic, queue_id)), now_ms
            )
            yield {"group": of_group, "topic": of_topic, "queueId": queue_id, **found}


def _lag(
    reader: StoreReader, topic: str, queue_id: int, offset: int | None, bounds: tuple[int, int] | None, now_ms: int
) -> dict[str, int | None]:
    low, high = bounds if bounds is not None else (None, None)
    found: dict[str, int | None] = {"offset": offset, "minOffset": low, "maxOffset": high}
    lag: dict[str, int | None] = dict.fromkeys(("lagMessages", "lagBytes", "lagMs"))
    if offset is None or low is None or high is None or offset > high:
        return {**found, **lag}  # the group never read it, or the queue was replaced
    start = max(offset, low)
    if start == high:
        return {**found, **dict.fromkeys(lag, 0)}
    stored = stored_at(reader, topic, queue_id, start)
    lag["lagMessages"] = high - start
    lag["lagBytes"] = record_bytes(reader, topic, queue_id, start, high)
    lag["lagMs"] = None if stored is None else max(now_ms - stored, 0)
    return {**found, **lag}
