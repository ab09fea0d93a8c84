"""Manual requeues: chosen rows requeued, each once, with a ledger."""

from __future__ import annotations

from rocketflow_store.delivery.requeue.ledger import KINDS, ledger, requeued_by_others
from rocketflow_store.delivery.requeue.requeue_choice import Choice, NoOriginError, windows
from rocketflow_store.delivery.requeue.requeue_properties import DELIVERED, QUARANTINED, origin_topic_properties
from rocketflow_store.delivery.requeue.requeue_rows import ChosenRows, requeued_chunks
from rocketflow_store.delivery.requeue.requeue_run import (
    Queues,
    RequeuedBatch,
    RequeueRequest,
    RequeueRun,
    advance_run,
    begin_run,
    check_run_id,
    find_run,
    queue_count,
)

__all__ = [
    "DELIVERED",
    "KINDS",
    "QUARANTINED",
    "Choice",
    "ChosenRows",
    "NoOriginError",
    "Queues",
    "RequeueRequest",
    "RequeueRun",
    "RequeuedBatch",
    "advance_run",
    "begin_run",
    "check_run_id",
    "find_run",
    "ledger",
    "origin_topic_properties",
    "queue_count",
    "requeued_by_others",
    "requeued_chunks",
    "windows",
]
