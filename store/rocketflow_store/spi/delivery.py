"""Delivery of delayed and timer messages that are due."""

from __future__ import annotations

from rocketflow_store.delivery.delay.delivery import (
    DelayDelivery,
    DeliveryResult,
    DueDelays,
    deliver_due,
    look_for_due,
    preview_due,
)
from rocketflow_store.delivery.delay.lost_queues import waiting_queues_are_lost
from rocketflow_store.delivery.delay.redelivery import UNREADABLE, Redelivery, redeliveries
from rocketflow_store.delivery.delay.service import ScheduleMessageService
from rocketflow_store.delivery.timer.deliver_due import TimerRun, deliver_due_timers, timers_wait
from rocketflow_store.delivery.timer.timer_message_service import SOON_S, TimerMessageService

__all__ = [
    "SOON_S",
    "UNREADABLE",
    "DelayDelivery",
    "DeliveryResult",
    "DueDelays",
    "Redelivery",
    "ScheduleMessageService",
    "TimerMessageService",
    "TimerRun",
    "deliver_due",
    "deliver_due_timers",
    "look_for_due",
    "preview_due",
    "redeliveries",
    "timers_wait",
    "waiting_queues_are_lost",
]
