"""A bridge's mark: the store that it copies and its progress. `into_kafka.progress_mark` keeps marks in a topic."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rocketflow.kafka.errors import KafkaRefusedError
from rocketflow_store.spi.json_text import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping


VERSION: Final = 1
Progress = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Mark:
    """The id of the copied store, the next offset of each queue, and the ids of the target topics."""

    store_id: str
    progress: Progress
    targets: Mapping[str, str | None] = field(default_factory=dict)


def encode_mark(mark: Mark) -> bytes:
    """Return the value of a mark."""
    fields = {"version": VERSION, "store": mark.store_id, "progress": mark.progress, "targets": mark.targets}
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_mark(value: bytes, where: str) -> Mark:
    """Decode the mark in a record's value. Raise KafkaRefusedError if it is malformed."""
    try:
        fields = parse_json(value)
        if fields["version"] != VERSION:
            raise ValueError(f"version {fields['version']}")
        progress = {
            str(topic): {str(queue): int(offset) for queue, offset in queues.items()}
            for topic, queues in fields["progress"].items()
        }
        targets = {str(topic): None if one is None else str(one) for topic, one in fields.get("targets", {}).items()}
        return Mark(str(fields["store"]), progress, targets)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise KafkaRefusedError(f"{where} is not a bridge's mark ({error}); give another --progress-topic") from error
