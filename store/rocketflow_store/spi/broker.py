"""The door of a broker: a store that takes and gives the wire's bytes."""

from __future__ import annotations

from rocketflow_store.delivery.requeue.send_back import SendBack, send_back
from rocketflow_store.engine.writing_store import WritingStore, open_store
from rocketflow_store.format.properties import decode_properties, encode_properties
from rocketflow_store.format.stored_message import decode_stored, encode_stored, stored_messages
from rocketflow_store.model.broker_requests import AppendedRun, Arrival, RawMessage, SentRun, StoredMessage
from rocketflow_store.model.kernel_objects import SentRecords
from rocketflow_store.reading.checked_read import Match, ReadResult
from rocketflow_store.reading.raw_records import QueryResult

__all__ = [
    "AppendedRun",
    "Arrival",
    "Match",
    "QueryResult",
    "RawMessage",
    "ReadResult",
    "SendBack",
    "SentRecords",
    "SentRun",
    "StoredMessage",
    "WritingStore",
    "decode_properties",
    "decode_stored",
    "encode_properties",
    "encode_stored",
    "open_store",
    "send_back",
    "stored_messages",
]
