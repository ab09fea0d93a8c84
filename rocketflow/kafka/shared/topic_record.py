"""What a bridge notes of the topics it copies beside how far it is: which topic it was, and how queues were chosen.

Kafka gives every topic an id (2.8 and newer): one that was deleted and made anew under its name has another, and the
offsets that were copied say nothing of it. Into a store the notes are in the envelope's progress:

    "#topics": {"orders.eu": {"id": "0b5e...", "queues": null, "target": "orders|eu"}}

`queues` is `--queues`, null for one queue a partition; `target` is the store's topic. `#` is in no topic's name. Notes
that are missing, of bridges of before or of brokers without ids, are made with the next commit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from rocketflow.kafka.errors import QueuesChangedError, TopicReplacedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NOTES: Final = "#topics"


@dataclass(frozen=True, slots=True)
class TopicNote:
    """A topic's id (None where the broker has none), by which number of queues its keys were divided, where it went."""

    topic_id: str | None
    queues: int | None
    target: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """As it stands in the envelope."""
        return {"id": self.topic_id, "queues": self.queues, "target": self.target}


def offsets_alone(progress: Mapping[str, Any]) -> dict[str, Any]:
    """An envelope's progress by topic and partition, without the notes."""
    return {topic: dict(partitions) for topic, partitions in progress.items() if topic != NOTES}


def check_note(progress: Mapping[str, Any], topic: str, now: TopicNote, bridge_id: str) -> None:
    """Refuse to go on with a topic that is another one, or whose keys would go to other queues than before.

    TopicReplacedError, QueuesChangedError.
    """
    noted = progress.get(NOTES, {}).get(topic)
    if noted is None:
        return
    check_same_topic(topic, noted["id"], now.topic_id, bridge_id)
    if noted["queues"] != now.queues:
        raise QueuesChangedError(
            f"bridge {bridge_id}: {topic} was copied with {_told(noted['queues'])}, now {_told(now.queues)} is asked "
            f"for: messages of one key would be in two queues, out of order; keep {_told(noted['queues'])}, or give "
            "another --id (and --map to another topic) to copy everything anew"
        )


def check_same_topic(topic: str, before: str | None, now: str | None, bridge_id: str) -> None:
    """TopicReplacedError where a Kafka topic has another id than before; None is no id."""
    if before is not None and now is not None and before != now:
        raise TopicReplacedError(
            f"bridge {bridge_id}: Kafka topic {topic} was deleted and made anew (its id was {before}, it is {now}): "
            "how far the bridge was says nothing of this one; give another --id to begin anew with it"
        )


def ids_of(client: Any, topics: Iterable[str]) -> dict[str, str | None]:
    """The id of each topic as a client of kafka-python knows it from its last look, None where it knows none."""
    cluster = getattr(client, "_cluster", None) or getattr(client, "_metadata", None)
    ask = getattr(cluster, "topic_id", lambda _: None)
    return {topic: id_text(ask(topic)) for topic in topics}


def id_text(topic_id: Any) -> str | None:
    """An id as text; None for none, which brokers write as all zeros."""
    text = str(topic_id or "")
    return text if text.strip("0-") else None


def note_topic(progress: dict[str, Any], topic: str, note: TopicNote, bridge_id: str) -> None:
    """Check a topic against the notes in `progress`, and put it there; of an id that is not known now the old stays."""
    check_note(progress, topic, note, bridge_id)
    notes = progress.setdefault(NOTES, {})
    known = notes.get(topic, {}).get("id")
    notes[topic] = replace(note, topic_id=note.topic_id or known).as_dict()


def _told(queues: int | None) -> str:
    return "one queue a partition (no --queues)" if queues is None else f"--queues {queues}"
