"""A push consumer of a backlog: `python -m tests.bench.push_client NAMES TOPIC GROUP COUNT FACE` prints its time.

FACE is `asyncio`, or `threads` for the synchronous face. The line is `messages nanoseconds`, from the first message on.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time

from rocketflow.aio.loop import run
from rocketflow.client import ConsumeContext, ConsumeFrom, PushConsumer, PushOptions, ReceivedMessage, sync


class Meter:
    """Counts messages, and calls `done` when all have come."""

    def __init__(self, wanted: int) -> None:
        self.count = self.began = self.ended = 0
        self._wanted = wanted
        self.done = threading.Event()

    def add(self, count: int) -> None:
        if not self.count:
            self.began = time.monotonic_ns()
        self.count += count
        if self.count >= self._wanted and not self.ended:
            self.ended = time.monotonic_ns()
            self.done.set()


def main() -> None:
    names, topic, group, count, face = sys.argv[1:]
    options = PushOptions(name_servers=names, group=group, consume_from=ConsumeFrom.FIRST)
    meter = Meter(int(count))
    if face == "asyncio":
        run(_asynchronous(options, topic, meter))
    else:

        def listener(messages: list[ReceivedMessage], context: ConsumeContext) -> None:
            meter.add(len(messages))

        consumer = sync.PushConsumer(options, listener)
        consumer.subscribe(topic)
        with consumer:
            meter.done.wait()
    print(meter.count, meter.ended - meter.began)


async def _asynchronous(options: PushOptions, topic: str, meter: Meter) -> None:
    async def listener(messages: list[ReceivedMessage], context: ConsumeContext) -> None:
        meter.add(len(messages))

    consumer = PushConsumer(options, listener)
    await consumer.subscribe(topic)
    async with consumer:
        while not meter.done.is_set():
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    main()
