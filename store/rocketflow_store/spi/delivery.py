"""Delivery of delayed and timer messages that are due."""

from __future__ import annotations

from rocketflow_store.delivery.delay.delivery import (
    SINK_ID,
    DelayDelivery,
    DeliveryResult,
    deliver_due,
    due_by_level,
    positions_seen,
    preview_due,
)
from rocketflow_store.delivery.delay.lost_queues import waiting_queues_are_lost
from rocketflow_store.delivery.delay.redelivery import UNREADABLE, Redelivery, redeliveries
from rocketflow_store.delivery.timer.deliver_due import TimerRun, deliver_due_timers
from rocketflow_store.delivery.timer.timer_rows import TIMER_QUEUE_ID

__all__ = [
    "SINK_ID",
    "TIMER_QUEUE_ID",
    "UNREADABLE",
    "DelayDelivery",
    "DeliveryResult",
    "Redelivery",
    "TimerRun",
    "deliver_due",
    "deliver_due_timers",
    "due_by_level",
    "positions_seen",
    "preview_due",
    "redeliveries",
    "waiting_queues_are_lost",
]
