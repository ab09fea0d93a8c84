"""Messages, and their form in records, batches and property strings: the standard library alone."""

from __future__ import annotations

from rocketflow_store.format.batch_body import batch_body, usual_batch
from rocketflow_store.format.inner_batch import received_messages
from rocketflow_store.format.properties import (
    MAX_PROPERTIES_SIZE,
    decode_properties,
    message_property_text,
    property_text,
)
from rocketflow_store.format.record import decode_records
from rocketflow_store.model.compression import Compression, compress_body
from rocketflow_store.model.errors import CorruptRecordError, MessageRejectedError, RocketFlowError
from rocketflow_store.model.message import Message, ReceivedMessage
from rocketflow_store.model.status import PutMessageStatus
from rocketflow_store.model.system_flags import COMPRESSION_MASK, TRANSACTION_PREPARED

__all__ = [
    "COMPRESSION_MASK",
    "MAX_PROPERTIES_SIZE",
    "TRANSACTION_PREPARED",
    "Compression",
    "CorruptRecordError",
    "Message",
    "MessageRejectedError",
    "PutMessageStatus",
    "ReceivedMessage",
    "RocketFlowError",
    "batch_body",
    "compress_body",
    "decode_properties",
    "decode_records",
    "message_property_text",
    "property_text",
    "received_messages",
    "usual_batch",
]
