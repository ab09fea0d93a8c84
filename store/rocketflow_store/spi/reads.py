"""Reads beyond a reader's own methods: figures of queues, exports, inner messages."""

from __future__ import annotations

from rocketflow_store.reading.export import export_topic
from rocketflow_store.reading.inner_messages import inner_messages
from rocketflow_store.reading.queue_figures import queue_size, record_bytes, stored_at
from rocketflow_store.reading.skipped import SkippedMessages

__all__ = [
    "SkippedMessages",
    "export_topic",
    "inner_messages",
    "queue_size",
    "record_bytes",
    "stored_at",
]
