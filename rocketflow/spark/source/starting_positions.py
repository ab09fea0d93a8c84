"""Conversion of a start or end option to queue offsets: pure, a function looks up times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rocketflow.process.nearest import did_you_mean
from rocketflow.process.times import iso_time
from rocketflow.spark.shared.option_values import OptionError, bad_value_error
from rocketflow.spark.source.source_options import EARLIEST, LATEST, PositionChoice, PositionKind
from rocketflow.spark.source.store_access import QueueBounds
from rocketflow.spark.source.stream_offset import QueueKey

OffsetByTime = Callable[[QueueKey, int], int]
"""(queue, ms) -> the first offset stored at or after that time, or the queue's end if there is none."""


def resolve_positions(
    choice: PositionChoice,
    queues: Mapping[QueueKey, QueueBounds],
    offset_by_time: OffsetByTime,
    *,
    clamp: bool,
    named: Iterable[str] = (),
) -> dict[QueueKey, int]:
    """Return a queue offset for each of `queues`.

    An offset outside of the queue's bounds is an error that names the option; with `clamp` (failOnDataLoss=false) it is
    moved to the nearest bound. A JSON choice must name every queue of `queues`, and only topics of `queues` or of
    `named`, the topics that the read names and that may be created later.
    """
    match choice.kind:
        case PositionKind.EARLIEST:
            return {key: bounds.low for key, bounds in queues.items()}
        case PositionKind.LATEST:
            return {key: bounds.high for key, bounds in queues.items()}
        case PositionKind.TIMESTAMP:
            times = dict.fromkeys(queues, choice.timestamp_ms)
            return {key: _by_time(choice, key, times[key], queues[key], offset_by_time) for key in queues}
    _check_topics(choice, queues, named)
    given = _numbers_by_key(choice, queues)
    if choice.kind is PositionKind.TIMESTAMPS:
        return {key: _by_time(choice, key, given[key], queues[key], offset_by_time) for key in queues}
    return {key: _by_offset(choice, key, given[key], queues[key], clamp) for key in queues}


def _check_topics(choice: PositionChoice, queues: Iterable[QueueKey], named: Iterable[str]) -> None:
    taken = {name for key in queues for name in (key.topic, key.qualified_topic)} | set(named)
    for topic, by_queue in choice.numbers:
        if topic not in taken and topic.rpartition("/")[2] not in set(named):
            hint = did_you_mean(topic, taken)
            queue = f" queue {by_queue[0][0]}" if by_queue else ""
            why = f"option {choice.option} names topic {topic}{queue}, which the read does not take: {hint}"
            raise OptionError(choice.option, why)


def _numbers_by_key(choice: PositionChoice, queues: Mapping[QueueKey, QueueBounds]) -> dict[QueueKey, int]:
    numbers = choice.by_topic()
    found: dict[QueueKey, int] = {}
    used: set[tuple[str, int]] = set()
    for key in queues:
        for name in (key.qualified_topic, key.topic):
            if key.queue_id in numbers.get(name, {}):
                found[key] = numbers[name][key.queue_id]
                used.add((name, key.queue_id))
                break
        else:
            raise OptionError(
                choice.option,
                f"option {choice.option} names no number for topic {key.qualified_topic} queue {key.queue_id}; "
                "every queue of the chosen topics needs one (-2 earliest, -1 latest)",
            )
    for topic, by_queue in numbers.items():
        for queue_id, number in by_queue.items():
            if (topic, queue_id) not in used and number > 0 and choice.kind is PositionKind.OFFSETS:
                raise OptionError(
                    choice.option,
                    f"option {choice.option} names topic {topic} queue {queue_id}, which is not part of the read "
                    "or does not exist in the store",
                )
    return found


def _by_time(
    choice: PositionChoice, key: QueueKey, timestamp_ms: int, bounds: QueueBounds, offset_by_time: OffsetByTime
) -> int:
    offset = offset_by_time(key, timestamp_ms)
    if offset >= bounds.high and bounds.high > bounds.low and not choice.latest_if_unmatched:
        raise OptionError(
            choice.option,
            f"option {choice.option}: no message of topic {key.qualified_topic} queue {key.queue_id} was stored at or "
            f"after {timestamp_ms} ms, {iso_time(timestamp_ms)}; "
            "startingOffsetsByTimestampStrategy=latest starts such queues at their end",
        )
    return min(max(offset, bounds.low), bounds.high)


def _by_offset(choice: PositionChoice, key: QueueKey, number: int, bounds: QueueBounds, clamp: bool) -> int:
    if number == EARLIEST:
        return bounds.low
    if number == LATEST:
        return bounds.high
    if not bounds.low <= number <= bounds.high and not clamp:
        raise bad_value_error(
            choice.option,
            f"{number} for topic {key.qualified_topic} queue {key.queue_id}",
            f"{bounds.low} to {bounds.high} (what the queue holds), -2 or -1; failOnDataLoss=false takes the nearest",
        )
    return min(max(number, bounds.low), bounds.high)
