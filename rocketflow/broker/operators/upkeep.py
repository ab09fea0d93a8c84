"""Requests of operators to clean a broker up, and about the ways in which it is used.

RocketMQ's source: broker/processor/AdminBrokerProcessor.java (cleanExpiredConsumeQueue, cleanUnusedTopic,
deleteExpiredCommitLog, getBrokerHaStatus), broker/processor/QueryAssignmentProcessor.java (setMessageRequestMode).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rocketflow.aio.server import Processor, RefusedError, Request
from rocketflow.remoting.bodies import SetMessageRequestModeRequestBody, decode_body, encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow_store import StoreError
from rocketflow_store.spi.names import RETRY_PREFIX

if TYPE_CHECKING:
    from rocketflow.broker.groups.groups import Groups
    from rocketflow.broker.topics.topics import Topics
    from rocketflow_store.spi.broker import WritingStore

LOG: Final = logging.getLogger("rocketflow.broker")

PULL_MODE: Final = "PULL"


class Upkeep:
    """Requests 306, 316, 329, 401 and 907.

    306 and 316 find nothing to delete: files of a queue are deleted with the log's files that they point at, and
    queues with their topic.
    """

    def __init__(self, store: WritingStore, topics: Topics, groups: Groups) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._cleaning = asyncio.Lock()

    def by_code(self) -> Mapping[int, Processor]:
        """Return the processor of each request code."""
        code = RequestCode
        return {
            code.CLEAN_EXPIRED_CONSUMEQUEUE: _nothing_to_do,
            code.CLEAN_UNUSED_TOPIC: _nothing_to_do,
            code.DELETE_EXPIRED_COMMITLOG: self._delete_expired,
            code.SET_MESSAGE_REQUEST_MODE: self._set_mode,
            code.GET_BROKER_HA_STATUS: self._get_replication,
        }

    async def _delete_expired(self, request: Request) -> None:
        """Delete the files whose `fileReservedTime` is over, whatever the hour (request 329)."""
        async with self._cleaning:
            try:
                done = await asyncio.to_thread(self._store.clean)
            except StoreError as error:
                raise RefusedError(ResponseCode.SYSTEM_ERROR, str(error)) from None
        LOG.info("expired files are deleted for %s: %s", request.channel.address, done)
        request.reply()

    async def _set_mode(self, request: Request) -> None:
        """Take note that a group pulls a topic, as all do; another mode is refused (request 401)."""
        body = decode_body(request.command.body, SetMessageRequestModeRequestBody)
        if body.topic.startswith(RETRY_PREFIX):
            raise RefusedError(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
        self._topics.known(body.topic)
        if body.mode != PULL_MODE:
            raise RefusedError(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                f"mode {body.mode} is not supported: consumers of this broker pull (mode {PULL_MODE})",
            )
        if await self._groups.for_use(body.consumer_group) is None:
            raise RefusedError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist")
        request.reply()

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


def _nothing_to_do(request: Request) -> None:
    request.reply()
