"""Records: columns that a store reads and writes, and rows encoded for a commit."""

from __future__ import annotations

from rocketflow_store.format.properties import MAX_PROPERTIES_SIZE
from rocketflow_store.format.record import PROPERTY_CRC_SIZE
from rocketflow_store.metadata.layout.store_meta import config_for_encoding
from rocketflow_store.records.arrow.columns import SINK_COLUMNS, SOURCE_COLUMNS, SOURCE_SCHEMA
from rocketflow_store.records.arrow.queue_turns import QueueTurns
from rocketflow_store.records.encoding.encode import BatchEncoder, EncodedChunk
from rocketflow_store.records.encoding.one_message import encode_message

__all__ = [
    "MAX_PROPERTIES_SIZE",
    "PROPERTY_CRC_SIZE",
    "SINK_COLUMNS",
    "SOURCE_COLUMNS",
    "SOURCE_SCHEMA",
    "BatchEncoder",
    "EncodedChunk",
    "QueueTurns",
    "config_for_encoding",
    "encode_message",
]
