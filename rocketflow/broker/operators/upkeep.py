"""Requests of operators to clean a broker up, and about its replicas.

RocketMQ's source: broker/processor/AdminBrokerProcessor.java (cleanExpiredConsumeQueue, cleanUnusedTopic,
deleteExpiredCommitLog, getBrokerHaStatus).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from rocketflow.access.permissions import CLUSTER_CHANGE, CLUSTER_READ
from rocketflow.access.served import serves
from rocketflow.aio.server import RefusedError, Request
from rocketflow.remoting.bodies import encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow_store import StoreError

if TYPE_CHECKING:
    from rocketflow_store.spi.broker import WritingStore

LOG: Final = logging.getLogger("rocketflow.broker")


class Upkeep:
    """Requests 306, 316, 329 and 907.

    306 and 316 find nothing to delete: files of a queue are deleted with the log's files that they point at, and
    queues with their topic.
    """

    def __init__(self, store: WritingStore) -> None:
        self._store = store
        self._cleaning = asyncio.Lock()

    @serves(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, CLUSTER_CHANGE)
    @serves(RequestCode.CLEAN_UNUSED_TOPIC, CLUSTER_CHANGE)
    def _nothing_to_do(self, request: Request) -> None:
        request.reply()

    @serves(RequestCode.DELETE_EXPIRED_COMMITLOG, CLUSTER_CHANGE)
    async def _delete_expired(self, request: Request) -> None:
        """Delete the files whose `fileReservedTime` is over, whatever the hour (request 329)."""
        async with self._cleaning:
            try:
                done = await asyncio.to_thread(self._store.clean)
            except StoreError as error:
                raise RefusedError(ResponseCode.SYSTEM_ERROR, str(error)) from None
        LOG.info("expired files are deleted for %s: %s", request.channel.address, done)
        request.reply()

    @serves(RequestCode.GET_BROKER_HA_STATUS, CLUSTER_READ)
    def _get_replication(self, request: Request) -> None:
        """Answer how far the replicas of a master are: it has none (request 907)."""
        end = self._store.max_phy_offset
        found = {
            "haClientRuntimeInfo": {
                "activated": False,
                "lastReadTimestamp": 0,
                "lastWriteTimestamp": 0,
                "masterFlushOffset": 0,
                "maxOffset": 0,
                "transferredByteInSecond": 0,
            },
            "haConnectionInfo": [],
            "inSyncSlaveNums": 0,
            "master": True,
            "masterCommitLogMaxOffset": end,
        }
        request.reply(body=encode_body(found))
