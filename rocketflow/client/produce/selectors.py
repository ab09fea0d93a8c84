"""Selectors: functions that choose the queue of a message among those of its topic.

RocketMQ's source: client/producer/selector/SelectMessageQueueByHash.java, SelectMessageQueueByRandom.java.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from rocketflow.client.produce.errors import BadMessageError
from rocketflow.remoting.bodies import MessageQueue
from rocketflow_store.spi.ids import string_hash
from rocketflow_store.spi.messages import Message

Selector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""Chooses the queue of a message; the queues are those of its topic, by broker name and id."""


def by_sharding_key(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
    """Return the queue that Java's selector by hash chooses for the sharding key: messages of a key stay in order."""
    if not message.sharding_key:
        raise BadMessageError(f"topic {message.topic!r}: by_sharding_key needs a message with a sharding_key")
    return queues[java_remainder(string_hash(message.sharding_key), len(queues))]


def at_random(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
    """Return a random queue."""
    return random.choice(queues)


def java_remainder(number: int, count: int) -> int:
    """Return `Math.abs(number % count)` of Java, whose remainder has the sign of `number`."""
    return abs(number) % count
