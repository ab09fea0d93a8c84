"""The record that announces a sink commit: `count` rows follow it in the log, up to `end_offset`, or it is not valid.

It is an ordinary message of a system topic. The sink's id is its tag and its key; its body is JSON. Numbers that are
known only once the record's offset is known are strings of 20 digits, so that the record's size does not depend on
them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.files.fastjson import parse_json_object
from rocketflow_store.files.json_fields import int64_field, object_field, text_field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocketflow_store.model.message import ReceivedMessage

COMMIT_TOPIC: Final = "rmq_sys_ROCKETFLOW_COMMIT"
COMMIT_QUEUE_ID: Final = 0
ENVELOPE_VERSION: Final = 1
_DIGITS: Final = 20


@dataclass(frozen=True, slots=True)
class CommitEnvelope:
    """One commit of batch `batch_id` of sink `sink_id`; offsets are physical, `digest` is the sum of row hashes.

    `record_crc` is True if every row's record ends with a CRC. `progress`, a JSON object, is the position of the source
    that produced the rows; every envelope holds all of it, and the newest one counts.
    """

    sink_id: str
    batch_id: int
    run_id: str
    run_seq: int
    rows: int
    digest: str
    begin_offset: int = 0
    end_offset: int = 0
    query_id: str = ""
    record_crc: bool = False
    progress: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the body of the envelope's record."""
        fields = {
            "version": ENVELOPE_VERSION,
            "sinkId": self.sink_id,
            "queryId": self.query_id,
            "batchId": self.batch_id,
            "runId": self.run_id,
            "runSeq": self.run_seq,
            "rows": self.rows,
            "digest": self.digest,
            "beginOffset": f"{self.begin_offset:0{_DIGITS}d}",
            "endOffset": f"{self.end_offset:0{_DIGITS}d}",
            "recordCrc": self.record_crc,
        }
        if self.progress:
            fields["progress"] = self.progress
        return json.dumps(fields, separators=(",", ":")).encode()


def decode_envelope(body: bytes) -> CommitEnvelope | None:
    """Return the envelope in a record's body, None if it is not one of this version."""
    try:
        fields = parse_json_object(body.decode("utf-8"))
        if fields["version"] != ENVELOPE_VERSION:
            return None
        return CommitEnvelope(
            sink_id=_text(fields, "sinkId"),
            batch_id=_number(fields, "batchId"),
            run_id=_text(fields, "runId"),
            run_seq=_number(fields, "runSeq"),
            rows=_number(fields, "rows"),
            digest=_text(fields, "digest"),
            begin_offset=_number(fields, "beginOffset"),
            end_offset=_number(fields, "endOffset"),
            query_id=_text(fields, "queryId"),
            record_crc=fields.get("recordCrc") is True,
            progress=object_field(fields, "progress"),
        )
    except (ValueError, KeyError):
        return None


def _text(fields: dict[str, Any], name: str) -> str:
    return text_field({name: fields[name]}, name, "")


def _number(fields: dict[str, Any], name: str) -> int:
    value = fields[name]
    if isinstance(value, str) and len(value) == _DIGITS:  # offsets: leading zeros
        value = value.lstrip("0") or "0"
    return int64_field({name: value}, name, 0)


def envelope_of(message: ReceivedMessage) -> CommitEnvelope | None:
    """Return the envelope that a message is, or None. A copy of an envelope at another offset is none."""
    if message.topic != COMMIT_TOPIC:
        return None
    envelope = decode_envelope(message.body)
    return envelope if envelope is not None and envelope.begin_offset == message.physical_offset else None
