"""Requests of a put, and their outcomes."""

from __future__ import annotations

from typing import Final, TypeAlias

from rocketflow_store.format.record import RecordFields
from rocketflow_store.model.broker_requests import RawMessage, SentRun
from rocketflow_store.model.message import Message, MessageBatch
from rocketflow_store.model.results import PutMessageResult

PutRequest: TypeAlias = Message | MessageBatch | RecordFields | RawMessage | SentRun
"""A message, a client's batch, a record whose fields are given byte for byte, a single message of the wire, or
encoded messages."""

Outcomes: TypeAlias = list[PutMessageResult | Exception]
"""Outcomes of requests: a result, or the exception that the append raised."""

SYNC_TIMED_OUT: Final = "the sync took longer than syncFlushTimeout; the message may be stored"


def body_size(request: PutRequest) -> int:
    """Return the size of a request's body in bytes; 0 for an invalid request, which the append refuses."""
    if isinstance(request, SentRun):
        return request.records.body_size
    try:
        return len(request.body or b"")
    except (TypeError, AttributeError):
        return 0


def not_visible_because(error: BaseException) -> str:
    """Return the text for a stored message that is not visible to readers because dispatch raised `error`."""
    return f"stored, but not visible to readers until dispatch succeeds ({error})"
