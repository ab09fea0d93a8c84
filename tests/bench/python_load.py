"""Load of the Python producer, the counterpart of `java/NetworkBench.java`: one load for each process.

    python -m tests.bench.python_load NAMES TOPIC SENDERS SIZE BATCH SECONDS

It prints `ANSWER messages nanos p50us p99us failed cpunanos`.
"""

from __future__ import annotations

import asyncio
import sys
import time

from rocketflow.aio.loop import run
from rocketflow.client import Message, Producer, ProducerOptions
from rocketflow.client.errors import ClientError

WARM_SECONDS = 0.5


async def load(names: str, topic: str, senders: int, size: int, batch: int, seconds: float) -> str:
    """Send from `senders` tasks, each with one send in flight, and return the answer."""
    body = b"x" * size
    times: list[int] = []
    failed = 0
    options = ProducerOptions(group="bench", name_servers=names, retries=0)
    async with Producer(options) as producer:

        async def send(until: float) -> None:
            nonlocal failed
            while time.perf_counter() < until:
                began = time.perf_counter_ns()
                try:
                    if batch == 1:
                        await producer.send(Message(topic, body))
                    else:
                        await producer.send_batch([Message(topic, body) for _ in range(batch)])
                except ClientError:
                    failed += batch
                    continue
                times.append(time.perf_counter_ns() - began)

        for duration in (WARM_SECONDS, seconds):
            times.clear()
            failed = 0
            began, cpu = time.perf_counter_ns(), time.process_time_ns()
            await asyncio.gather(*(send(time.perf_counter() + duration) for _ in range(senders)))
            nanos, cpu = time.perf_counter_ns() - began, time.process_time_ns() - cpu
    times.sort()
    p50, p99 = times[len(times) // 2] // 1000, times[int(len(times) * 0.99)] // 1000
    return f"{len(times) * batch} {nanos} {p50} {p99} {failed} {cpu}"


if __name__ == "__main__":
    _, names, topic, *numbers = sys.argv
    print("ANSWER", run(load(names, topic, *map(int, numbers[:3]), float(numbers[3]))))
