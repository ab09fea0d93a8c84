"""The synchronous push consumer: a plain function as listener, in threads."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path

from rocketflow.aio.loop import run
from rocketflow.client import ConsumeContext, ConsumeStatus
from rocketflow.client.received import ReceivedMessage
from rocketflow.client.sync import PushConsumer
from tests.support.pushing import committed, make_topic, options, put, small_cluster


def test_plain_functions_consume_in_threads(tmp_path: Path) -> None:
    bodies: list[str] = []
    threads: set[str] = set()
    at_once = threading.Barrier(3, timeout=30)

    def listener(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeStatus | None:
        (message,) = messages
        bodies.append(message.body.decode())
        threads.add(threading.current_thread().name)
        if len(bodies) <= 3:
            at_once.wait()  # three calls run at the same time
        if message.body == b"3" and not message.reconsume_times:
            context.delay_level = 1
            raise ValueError("once")
        return ConsumeStatus.SUCCESS

    def wait_for(count: int) -> None:
        latest = time.monotonic() + 60
        while len(bodies) < count:
            assert time.monotonic() < latest, bodies
            time.sleep(0.02)

    with small_cluster(tmp_path) as (names, _):
        run(make_topic(names.address, "plain"))
        run(put(names.address, "plain", map(str, range(20))))
        consumer = PushConsumer(options(names.address, "g-plain", concurrency=3), listener)
        consumer.subscribe("plain")
        with consumer:
            wait_for(21)
            assert len([one for one in consumer.queues() if one.topic == "plain"]) == 4
            consumer.suspend()
            consumer.resume()
            consumer.unsubscribe("plain")
        assert Counter(bodies) == {**dict.fromkeys(map(str, range(20)), 1), "3": 2}
        assert len(threads) == 3
        assert all(one.startswith("consumer-g-plain") for one in threads)
        assert sum(run(committed(names.address, "g-plain", "plain")).values()) == 20
