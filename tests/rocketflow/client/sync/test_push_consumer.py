"""The synchronous push consumer: a plain function as listener, in threads."""

from __future__ import annotations

import threading
import time
from collections import Counter

from rocketflow.aio.loop import run
from rocketflow.client import ConsumeContext, ConsumeStatus
from rocketflow.client.sync import PushConsumer
from rocketflow_store.spi.messages import ReceivedMessage
from tests.support.client_cluster import ClientCluster
from tests.support.pushing import committed, make_topic, options, put


def test_plain_functions_consume_in_threads(cluster: ClientCluster) -> None:
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

    names = cluster.names.address
    run(make_topic(names, "in-threads"))
    run(put(names, "in-threads", map(str, range(20))))
    consumer = PushConsumer(options(names, "g-in-threads", concurrency=3), listener)
    consumer.subscribe("in-threads")
    with consumer:
        wait_for(21)
        assert len([one for one in consumer.queues() if one.topic == "in-threads"]) == 4
        consumer.suspend()
        consumer.resume()
        consumer.unsubscribe("in-threads")
    assert Counter(bodies) == {**dict.fromkeys(map(str, range(20)), 1), "3": 2}
    assert len(threads) == 3
    assert all(one.startswith("consumer-g-in-threads") for one in threads)
    assert sum(run(committed(names, "g-in-threads", "in-threads")).values()) == 20
