"""Messages that are first stored under another topic: delayed by a level or to a time (RocketMQ's conversion).

A client requests it by properties, which are checked in RocketMQ's order: DELAY above 0 wins and drops the others, then
TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS. A message that has TIMER_OUT_MS was converted before. A level above
the last one is stored as the last one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rocketflow_store.model.errors import MessageRejectedError
from rocketflow_store.model.property_names import (
    PROPERTY_DELAY,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TIMER_DEL_UNIQKEY,
    PROPERTY_TIMER_DELAY_MS,
    PROPERTY_TIMER_DELAY_SEC,
    PROPERTY_TIMER_DELIVER_MS,
    PROPERTY_TIMER_OUT_MS,
)
from rocketflow_store.model.status import PutMessageStatus
from rocketflow_store.model.system_flags import NEVER_QUEUED, TRANSACTION_MASK
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC, TIMER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketflow_store.settings.store_config import StoreConfig

TIMER_REQUESTS: Final = (PROPERTY_TIMER_DELAY_SEC, PROPERTY_TIMER_DELAY_MS, PROPERTY_TIMER_DELIVER_MS)
"""In the order in which RocketMQ checks them."""
REQUESTS: Final = (PROPERTY_DELAY, *TIMER_REQUESTS)
LATER: Final = frozenset(REQUESTS)
"""A message without any of these properties is stored directly under its topic."""
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_INT32_MAX: Final = (1 << 31) - 1
_INT64_MAX: Final = (1 << 63) - 1


def timer_out_ms(deliver_timestamp: int, precision_ms: int) -> int:
    """Return the tick of a delivery time."""
    rest = deliver_timestamp % precision_ms
    return deliver_timestamp - (rest or precision_ms)


def delay_level(properties: dict[str, str]) -> int:
    """Return the requested delay level of a message, 0 for none; raise MessageRejectedError if it is no number."""
    text = properties.get(PROPERTY_DELAY)
    if text is None:
        return 0
    level = _number(text, _INT32_MAX)
    if level is None:
        raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, f"DELAY={text[:40]!r} is no delay level")
    return level


def place_for_later(
    topic: str,
    queue_id: int,
    properties: dict[str, str],
    sys_flag: int,
    config: StoreConfig,
    *,
    accepted: bool = False,
) -> tuple[str, int]:
    """Return the topic and queue under which a message is stored first, and update `properties` for that.

    The present time is the clock's, even if it was set back and store times were not: no message is delivered early.
    Raises MessageRejectedError for a request that RocketMQ refuses, unless it is known to be `accepted` (a moment ago).
    """
    if sys_flag & TRANSACTION_MASK in NEVER_QUEUED or topic in (SCHEDULE_TOPIC, TIMER_TOPIC):
        return topic, queue_id
    level = delay_level(properties)
    if level > 0:
        for name in TIMER_REQUESTS:
            properties.pop(name, None)
        last = len(config.delay_levels_ms)
        if level > last:
            level, properties[PROPERTY_DELAY] = last, str(last)
        properties |= {PROPERTY_REAL_TOPIC: topic, PROPERTY_REAL_QUEUE_ID: str(queue_id)}
        return SCHEDULE_TOPIC, level - 1
    if PROPERTY_TIMER_OUT_MS in properties or not any(name in properties for name in TIMER_REQUESTS):
        return topic, queue_id
    now_ms = config.clock.now_ms()
    due = _deliver_time(properties, now_ms, accepted=accepted, enabled=config.timer_wheel_enable)
    if due <= now_ms and not (accepted and PROPERTY_TIMER_DEL_UNIQKEY in properties):
        if PROPERTY_TIMER_DEL_UNIQKEY in properties:
            raise _refused("it recalls a message whose time is over")
        return topic, queue_id
    if due - now_ms > config.timer_max_delay_sec * 1000 and not accepted:
        raise _refused(f"due in {due - now_ms} ms, timerMaxDelaySec is {config.timer_max_delay_sec}")
    properties |= {PROPERTY_REAL_TOPIC: topic, PROPERTY_REAL_QUEUE_ID: str(queue_id)}
    properties[PROPERTY_TIMER_OUT_MS] = str(timer_out_ms(due, config.timer_precision_ms))
    return TIMER_TOPIC, 0


class TimerCongestion:
    """Refuses timer messages of a tick that has more than `most`: a growing share, and all from twice `most` on.

    `waiting_at` returns the number of messages that wait in the tick of a time (ms).
    """

    def __init__(self, waiting_at: Callable[[int], int], most: int) -> None:
        self._waiting_at, self._most = waiting_at, most
        self._share = 0.0

    def check(self, properties: dict[str, str]) -> None:
        """Raise MessageRejectedError for a share of the messages with these properties (with TIMER_OUT_MS)."""
        waiting, most = self._waiting_at(int(properties[PROPERTY_TIMER_OUT_MS])), self._most
        if waiting <= most:
            return
        self._share += min((waiting - most) / most, 1.0)
        if self._share >= 1.0:
            self._share -= 1.0
            why = f"{waiting} messages wait for that time, timerCongestNumEachSlot is {most}; send it again later"
            raise MessageRejectedError(PutMessageStatus.WHEEL_TIMER_FLOW_CONTROL, why)


def _deliver_time(properties: dict[str, str], now_ms: int, *, accepted: bool, enabled: bool) -> int:
    if not enabled and not accepted:
        why = "timerWheelEnable is false: no message can be delivered at a time"
        raise MessageRejectedError(PutMessageStatus.WHEEL_TIMER_NOT_ENABLE, why)
    name = next(one for one in TIMER_REQUESTS if one in properties)
    text = properties[name]
    number = _number(text, _INT64_MAX)
    if number is None:
        raise _refused(f"{name}={text[:40]!r} is not a number")
    if name == PROPERTY_TIMER_DELIVER_MS:
        return number
    return now_ms + number * (1000 if name == PROPERTY_TIMER_DELAY_SEC else 1)


def _number(text: str, most: int) -> int | None:
    """Parse a decimal number as Java does; return None if it is none, or is outside [-`most` - 1, `most`]."""
    if not _NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if -most - 1 <= number <= most else None


def _refused(why: str) -> MessageRejectedError:
    return MessageRejectedError(PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL, why)
