"""Locks of queues at brokers: only the client that holds one consumes a queue in order.

RocketMQ's source: client/impl/consumer/RebalanceImpl.java (lock, lockAll, unlock, unlockAll).
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from rocketflow.client.errors import ClientError
from rocketflow.remoting.bodies import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    MessageQueue,
    MessageQueueBody,
    decode_body,
    encode_body,
)
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.errors import RemotingError
from rocketflow.remoting.headers.client import LockBatchMqRequestHeader, UnlockBatchMqRequestHeader

if TYPE_CHECKING:
    from rocketflow.client.cluster import Cluster

LOG: Final = logging.getLogger("rocketflow.client")


class QueueLocks:
    """Locks and unlocks queues for a group's client, with one request to the master of each broker."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self._group = group
        self._asked: set[MessageQueue] = set()

    async def lock(self, queues: Iterable[MessageQueue]) -> tuple[dict[MessageQueue, float], set[MessageQueue]]:
        """Lock queues, or renew their locks.

        Return the queues that are locked, each with the loop's time at which the lock was asked for, and those whose
        broker did not answer: their locks are as before. A process that was suspended reads an old answer late.
        """
        locked: dict[MessageQueue, float] = {}
        unknown: set[MessageQueue] = set()
        loop = asyncio.get_running_loop()
        for broker, wanted in _by_broker(queues).items():
            self._asked.update(wanted)
            asked_at = loop.time()
            try:
                address = self._cluster.broker_address(broker)
                reply = await self._cluster.request(
                    address, RequestCode.LOCK_BATCH_MQ, LockBatchMqRequestHeader(), body=self._body(wanted)
                )
                found = decode_body(reply.body, LockBatchResponseBody).lock_ok_mq_set
            except (ClientError, RemotingError) as error:
                LOG.warning("group %s: %d queues of %s were not locked: %s", self._group, len(wanted), broker, error)
                unknown.update(wanted)
                continue
            for one in found:
                locked[MessageQueue(one.topic, one.broker_name, one.queue_id)] = asked_at
        return locked, unknown

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Unlock queues; a failure is logged, and the broker frees the locks after a minute."""
        for broker, wanted in _by_broker(queues).items():
            self._asked.difference_update(wanted)
            try:
                address = self._cluster.broker_address(broker)
                await self._cluster.request(
                    address, RequestCode.UNLOCK_BATCH_MQ, UnlockBatchMqRequestHeader(), body=self._body(wanted)
                )
            except ClientError as error:
                LOG.warning("group %s: %d queues of %s stay locked: %s", self._group, len(wanted), broker, error)

    async def unlock_all(self) -> None:
        """Unlock every queue that a lock was asked for and that was not unlocked since."""
        await self.unlock(set(self._asked))

    def _body(self, queues: list[MessageQueue]) -> bytes:
        return encode_body(
            LockBatchRequestBody(
                client_id=self._cluster.client_id,
                consumer_group=self._group,
                mq_set=[MessageQueueBody(topic=t, broker_name=b, queue_id=q) for t, b, q in queues],
            )
        )


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    found: dict[str, list[MessageQueue]] = defaultdict(list)
    for one in queues:
        found[one.broker_name].append(one)
    return found
