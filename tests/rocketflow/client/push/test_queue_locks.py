"""Locks of queues last from the moment at which they were asked for, however late the answer is read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any, cast

import pytest

from rocketflow.client.push.figures import ConsumeFigures
from rocketflow.client.push.held_queue import LOCK_LIVES_S, HeldQueue
from rocketflow.client.push.listeners import ConsumeContext, ConsumeStatus
from rocketflow.client.push.options import PushOptions
from rocketflow.client.push.orderly import OrderlyCalls
from rocketflow.client.push.process_queue import QueueLimits
from rocketflow.client.push.queue_locks import QueueLocks
from rocketflow.remoting.bodies import LockBatchResponseBody, MessageQueue, MessageQueueBody, encode_body
from rocketflow.remoting.command import Command
from rocketflow_store.spi.messages import ReceivedMessage
from tests.support.simulated_loop import SimulatedLoop

QUEUES = [MessageQueue("t", "b", number) for number in range(2)]


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    with closing(SimulatedLoop(1)) as found:
        yield found


class _SlowCluster:
    """Stands for a cluster whose broker locks all queues; its answer is read 25 s later."""

    client_id = "c"

    def broker_address(self, broker: str) -> str:
        return "127.0.0.1:1"

    async def request(self, *request: object, body: bytes) -> Command:
        await asyncio.sleep(25.0)
        queues = [MessageQueueBody(topic=t, broker_name=b, queue_id=q) for t, b, q in QUEUES]
        return Command(code=0, body=encode_body(LockBatchResponseBody(lock_ok_mq_set=queues)))


def test_a_lock_lasts_from_the_request(loop: SimulatedLoop) -> None:
    async def main() -> None:
        began = loop.time()
        locked, unknown = await QueueLocks(cast("Any", _SlowCluster()), "g").lock(QUEUES)
        assert locked == dict.fromkeys(QUEUES, began)
        assert unknown == set()
        held = HeldQueue(QUEUES[0], 0, QueueLimits())
        held.set_locked(locked[QUEUES[0]])
        assert held.is_locked
        await asyncio.sleep(LOCK_LIVES_S - 25.0)
        assert not held.is_locked

    loop.run_until_complete(main())


def test_a_queue_whose_lock_expires_while_it_waits_for_a_slot_is_not_consumed(loop: SimulatedLoop) -> None:
    begun: list[MessageQueue] = []

    async def listen(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeStatus:
        begun.append(context.queue)
        await asyncio.sleep(LOCK_LIVES_S + 1.0)
        return ConsumeStatus.SUCCESS

    async def main() -> None:
        options = PushOptions(group="g", name_servers="127.0.0.1:1", orderly=True, concurrency=1)
        calls = OrderlyCalls(options, listen, cast("Any", None), ConsumeFigures())
        queues = [HeldQueue(one, 0, QueueLimits()) for one in QUEUES]
        for held in queues:
            held.set_locked(loop.time())
            held.add([ReceivedMessage("t", held.queue.queue_id, 0, b"", {})], 1)
            calls.hold(held)
        await asyncio.sleep(LOCK_LIVES_S + 10.0)
        assert begun == QUEUES[:1]
        queues[1].set_locked(loop.time())
        await asyncio.sleep(1.0)
        assert begun == QUEUES
        await calls.close(LOCK_LIVES_S + 2.0)

    loop.run_until_complete(main())
