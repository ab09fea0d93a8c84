"""The topic notes that a bridge stores beside its progress: each topic's id and the choice of its queues.

Kafka (2.8 and newer) gives every topic an id. A topic that was deleted and recreated under its name has another id, and
copied offsets do not apply to it. A bridge into a store keeps the notes in the envelope's progress:

    "#topics": {"orders.eu": {"id": "0b5e...", "queues": null, "target": "orders|eu"}}

`queues` is `--queues`, null for one queue per partition; `target` is the store's topic. No topic name contains `#`. The
next commit adds missing notes: those of bridges of earlier versions, or of brokers without ids.
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
    """A topic's id (None if the broker has none), the number of queues its keys are hashed to, and its target."""

    topic_id: str | None
    queues: int | None
    target: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the note as stored in the envelope."""
        return {"id": self.topic_id, "queues": self.queues, "target": self.target}


def offsets_alone(progress: Mapping[str, Any]) -> dict[str, Any]:
    """Return an envelope's progress by topic and partition, without the notes."""
    return {topic: dict(partitions) for topic, partitions in progress.items() if topic != NOTES}


def check_note(progress: Mapping[str, Any], topic: str, now: TopicNote, bridge_id: str) -> None:
    """Check a topic against its note in `progress`.

    Raises: TopicReplacedError if it was recreated, QueuesChangedError if its keys would go to other queues than before.
    """
    noted = progress.get(NOTES, {}).get(topic)
    if noted is None:
        return
    check_same_topic(topic, noted["id"], now.topic_id, bridge_id)
    if noted["queues"] != now.queues:
        raise QueuesChangedError(
            f"bridge {bridge_id}: {topic} was copied with {_text(noted['queues'])}, but this run has "
            f"{_text(now.queues)}: messages of one key would be in two queues, out of order; keep "
            f"{_text(noted['queues'])}, or give another --id (and --map to another topic) to copy everything again"
        )


def check_same_topic(topic: str, before: str | None, now: str | None, bridge_id: str) -> None:
    """Raise TopicReplacedError if a Kafka topic's id has changed; None stands for an unknown id."""
    if before is not None and now is not None and before != now:
        raise TopicReplacedError(
            f"bridge {bridge_id}: Kafka topic {topic} was deleted and recreated (its id was {before}, now it is "
            f"{now}): the bridge's progress does not apply to it; give another --id to copy the new topic"
        )


def ids_of(client: Any, topics: Iterable[str]) -> dict[str, str | None]:
    """Return the id of each topic in the metadata of a kafka-python client, None if it has none."""
    cluster = getattr(client, "_cluster", None) or getattr(client, "_metadata", None)
    ask = getattr(cluster, "topic_id", lambda _: None)
    return {topic: id_text(ask(topic)) for topic in topics}


def id_text(topic_id: Any) -> str | None:
    """Return an id as text; None for no id, which brokers write as all zeros."""
    text = str(topic_id or "")
    return text if text.strip("0-") else None


def note_topic(progress: dict[str, Any], topic: str, note: TopicNote, bridge_id: str) -> None:
    """Check a topic against its note in `progress` and update the note; an unknown id keeps the noted one."""
    check_note(progress, topic, note, bridge_id)
    notes = progress.setdefault(NOTES, {})
    known = notes.get(topic, {}).get("id")
    notes[topic] = replace(note, topic_id=note.topic_id or known).as_dict()


def _text(queues: int | None) -> str:
    return "one queue per partition (no --queues)" if queues is None else f"--queues {queues}"
