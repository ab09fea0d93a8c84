"""Reads beyond the methods of a StoreReader: figures of queues, exports, inner messages, answers of brokers."""

from __future__ import annotations

from rocketflow_store.format.inner_batch import messages_in
from rocketflow_store.reading.export import export_topic
from rocketflow_store.reading.pulled_records import PulledRecords
from rocketflow_store.reading.queue_figures import (
    consumer_offset_files,
    index_figures,
    log_figures,
    queue_size,
    queues_without_files,
    record_bytes,
    stored_at,
)
from rocketflow_store.reading.range_read import Condition
from rocketflow_store.reading.skipped import SkippedMessages

__all__ = [
    "Condition",
    "PulledRecords",
    "SkippedMessages",
    "consumer_offset_files",
    "export_topic",
    "index_figures",
    "log_figures",
    "messages_in",
    "queue_size",
    "queues_without_files",
    "record_bytes",
    "stored_at",
]
