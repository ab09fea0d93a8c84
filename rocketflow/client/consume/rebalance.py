"""The queues of a client: what it shall read, by the queues of a topic and the clients of its group.

RocketMQ's source: client/impl/consumer/RebalanceImpl.java, RebalanceService.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow.client.consume.allocation import utf16_order
from rocketflow.remoting.bodies import MessageQueue

if TYPE_CHECKING:
    from rocketflow.client.consume.allocation import AllocationStrategy

LOG: Final = logging.getLogger("rocketflow.client")

REBALANCE_SECONDS: Final = 20.0
_LEAST_SECONDS: Final = 1.0
"""Repeated notices of brokers lead to one round in this time (rocketmq.client.rebalance.minInterval)."""


class Changes(NamedTuple):
    """Queues that a client gets and loses, each sorted."""

    added: list[MessageQueue]
    removed: list[MessageQueue]


def sorted_queues(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Return queues by topic, broker name and id, in Java's order."""
    return sorted(queues, key=lambda one: (utf16_order(one.topic), utf16_order(one.broker_name), one.queue_id))


def sorted_client_ids(client_ids: Iterable[str]) -> list[str]:
    """Return client ids in Java's order, each once."""
    return sorted(set(client_ids), key=utf16_order)


def assigned_queues(
    strategy: AllocationStrategy, client_id: str, queues: Collection[MessageQueue], client_ids: Collection[str]
) -> list[MessageQueue]:
    """Return the queues of a topic that a client reads; none without queues or clients."""
    if not queues or not client_ids:
        return []
    return strategy.allocate(client_id, sorted_queues(queues), sorted_client_ids(client_ids))


def changes(held: Collection[MessageQueue], wanted: Collection[MessageQueue]) -> Changes:
    """Return what a client that holds queues has to add and to remove so that it holds those that it wants."""
    return Changes(sorted_queues(set(wanted) - set(held)), sorted_queues(set(held) - set(wanted)))


class RebalanceLoop:
    """Calls `work` every 20 s, and soon after `wake`; calls are at least 1 s apart.

    `work` returns whether it is complete; if not it is called again after 1 s.
    """

    def __init__(self, work: Callable[[], Awaitable[bool]]) -> None:
        self._work = work
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Call `work` as soon as the last call is 1 s old."""
        self._woken.set()

    async def run(self) -> None:
        """Call `work` until the task is cancelled."""
        while True:
            self._woken.clear()
            try:
                complete = await self._work()
            except Exception:  # of a user's strategy or listener, for example
                LOG.exception("a rebalance failed and is repeated")
                complete = False
            await asyncio.sleep(_LEAST_SECONDS)
            if complete:
                try:
                    async with asyncio.timeout(REBALANCE_SECONDS - _LEAST_SECONDS):
                        await self._woken.wait()
                except TimeoutError:
                    pass
