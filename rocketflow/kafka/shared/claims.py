"""Claims: the pairs of topics (source and target) that bridges have copied.

A bridge finds its own progress by its id. Before it starts a pair without progress, it checks the progress of all
other bridges: copying a pair that another bridge has copied would store or send every message twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rocketflow.kafka.errors import TopicClaimedError, TopicNameError
from rocketflow.kafka.shared.topic_names import to_kafka_name, to_store_name
from rocketflow.kafka.shared.topic_record import NOTES, offsets_alone
from rocketflow_store.spi.commits import last_commits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rocketflow.kafka.shared.mark import Mark
    from rocketflow_store.spi.commits import CommitEnvelope, CommitLogReads

SINK_PREFIX: Final = "kafka-bridge:"


@dataclass(frozen=True, slots=True)
class Pair:
    """A topic and its target; `kafka_id` is the id of the one that is in Kafka, None if it has none."""

    source: str
    target: str
    kafka_id: str | None = None

    def is_same(self, other: Pair) -> bool:
        """Return True if the topics are the same; a recreated Kafka topic is another one."""
        another = self.kafka_id is not None and other.kafka_id is not None and self.kafka_id != other.kafka_id
        return (self.source, self.target) == (other.source, other.target) and not another


@dataclass(frozen=True, slots=True)
class Claim:
    """The progress of the bridge `bridge_id` with a pair: the next offset by partition or queue."""

    bridge_id: str
    pair: Pair
    progress: Mapping[str, int]


def refuse_claimed(bridge_id: str, pairs: Iterable[Pair], claims: Iterable[Claim]) -> None:
    """Raise TopicClaimedError if another bridge has copied one of `pairs`."""
    others = [one for one in claims if one.bridge_id != bridge_id]
    for pair in pairs:
        for other in others:
            if other.pair.is_same(pair):
                places = ", ".join(f"{place}: {offset}" for place, offset in sorted(other.progress.items()))
                raise TopicClaimedError(
                    f"bridge {bridge_id}: bridge {other.bridge_id} has copied {pair.source} to {pair.target} (next "
                    f"offsets {places}): give --id {other.bridge_id} to resume there, or --restart to copy everything "
                    "again"
                )


def claims_on_store(store: CommitLogReads) -> list[Claim]:
    """Return the claims of all bridges that have copied into a store."""
    return [
        claim for sink_id, last in last_commits(store, SINK_PREFIX).items() for claim in _of_envelope(sink_id, last)
    ]


def _of_envelope(sink_id: str, last: CommitEnvelope) -> list[Claim]:
    """Return the claims of one bridge. Notes written before 0.2 have no target: it was the default one."""
    notes, found = last.progress.get(NOTES, {}), []
    for topic, progress in offsets_alone(last.progress).items():
        note = notes.get(topic, {})
        target = note.get("target") or _default(to_store_name, topic)
        if target is not None:
            found.append(Claim(sink_id.removeprefix(SINK_PREFIX), Pair(topic, target, note.get("id")), progress))
    return found


def claims_of_marks(marks: Mapping[str, Mark], store_id: str) -> list[Claim]:
    """Return the claims of all bridges that have copied from the store with this id, by their marks in Kafka.

    A mark names the target topics without their source topics: if no target has the default name, each is claimed.
    """
    found = []
    for bridge_id, mark in marks.items():
        if mark.store_id and store_id and mark.store_id != store_id:
            continue
        for topic, progress in mark.progress.items():
            default = _default(to_kafka_name, topic)
            targets = {default} if default in mark.targets or not mark.targets else set(mark.targets)
            pairs = [Pair(topic, one, mark.targets.get(one)) for one in targets if one is not None]
            found += [Claim(bridge_id, pair, progress) for pair in pairs]
    return found


def _default(translate: Callable[[str], str], topic: str) -> str | None:
    try:
        return translate(topic)
    except TopicNameError:
        return None
