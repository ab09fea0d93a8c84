"""Which topics bridges have copied, and to which: progress belongs to a pair of topics, however it is spelled.

A bridge finds its own progress by its id. Before it begins with a pair that it has no progress of, that of all other
bridges is looked at: copying what another one has copied stores or sends every message twice.
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
    """A topic and the one that it is copied to; `kafka_id` is the id of that in Kafka, None where it has none."""

    source: str
    target: str
    kafka_id: str | None = None

    def is_same(self, other: Pair) -> bool:
        """Return whether the topics are the same; a Kafka topic that was made anew is another one."""
        another = self.kafka_id is not None and other.kafka_id is not None and self.kafka_id != other.kafka_id
        return (self.source, self.target) == (other.source, other.target) and not another


@dataclass(frozen=True, slots=True)
class Claim:
    """What the bridge `bridge_id` has copied of a pair: the next offset by partition or queue."""

    bridge_id: str
    pair: Pair
    progress: Mapping[str, int]


def refuse_claimed(bridge_id: str, pairs: Iterable[Pair], claims: Iterable[Claim]) -> None:
    """Raise TopicClaimedError where another bridge has copied one of `pairs`."""
    others = [one for one in claims if one.bridge_id != bridge_id]
    for pair in pairs:
        for other in others:
            if other.pair.is_same(pair):
                places = ", ".join(f"{place}: {offset}" for place, offset in sorted(other.progress.items()))
                raise TopicClaimedError(
                    f"bridge {bridge_id}: bridge {other.bridge_id} has copied {pair.source} to {pair.target} (next "
                    f"offsets {places}): give --id {other.bridge_id} to go on from there, or --restart to copy "
                    "everything once more"
                )


def claims_on_store(store: CommitLogReads) -> list[Claim]:
    """Return what bridges have copied into a store."""
    return [
        claim for sink_id, last in last_commits(store, SINK_PREFIX).items() for claim in _of_envelope(sink_id, last)
    ]


def _of_envelope(sink_id: str, last: CommitEnvelope) -> list[Claim]:
    """Return the claims of one bridge. Notes before 0.2 have no target: it was the default one."""
    notes, found = last.progress.get(NOTES, {}), []
    for topic, progress in offsets_alone(last.progress).items():
        note = notes.get(topic, {})
        target = note.get("target") or _default(to_store_name, topic)
        if target is not None:
            found.append(Claim(sink_id.removeprefix(SINK_PREFIX), Pair(topic, target, note.get("id")), progress))
    return found


def claims_of_marks(marks: Mapping[str, Mark], store_id: str) -> list[Claim]:
    """Return what bridges have copied out of the store with this id, by their marks in Kafka.

    A mark names the topics that were copied to, and not which of them was a topic's: each may have been.
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
