"""The report of a push consumer about itself, for operators.

RocketMQ's source: remoting/protocol/body/ConsumerRunningInfo.java, ProcessQueueInfo.java,
client/impl/consumer/DefaultMQPushConsumerImpl.java (consumerRunningInfo), ProcessQueue.java (fillProcessQueueInfo).
"""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any, Final

from rocketflow.remoting.bodies import encode_body, queue_map

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocketflow.client.push.held_queue import HeldQueue
    from rocketflow.client.push.options import PushOptions
    from rocketflow.remoting.bodies import MessageQueue, SubscriptionData

CLIENT_VERSION: Final = "V5_3_3"
_MIB: Final = 1024 * 1024


def running_info(
    options: PushOptions,
    started_ms: int,
    subscriptions: Mapping[str, SubscriptionData],
    held: Mapping[MessageQueue, HeldQueue],
    status_table: Mapping[str, Mapping[str, float]],
    stacks: str | None = None,
) -> bytes:
    """Return the body of ConsumerRunningInfo; `stacks` are those of all threads if they were asked for."""
    now = asyncio.get_running_loop().time()
    body: dict[str, Any] = {
        "mqPopTable": {},
        "mqTable": queue_map({queue: _queue_info(one, now) for queue, one in held.items()}),
        "properties": _properties(options, started_ms),
        "statusTable": status_table,
        "subscriptionSet": list(subscriptions.values()),
        "userConsumerInfo": {},
    }
    if stacks is not None:
        body["jstack"] = stacks
    return encode_body(body)


def thread_stacks() -> str:
    """Return the stacks of all threads of this process, as text."""
    return "\n\n".join(
        f"thread {number}\n" + "".join(traceback.format_stack(frame)) for number, frame in sys._current_frames().items()
    )


def _properties(options: PushOptions, started_ms: int) -> dict[str, str]:
    return {
        "PROP_CLIENT_VERSION": CLIENT_VERSION,
        "PROP_CONSUMEORDERLY": str(options.orderly).lower(),
        "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        "PROP_NAMESERVER_ADDR": ";".join(options.addresses()) + ";",
        "PROP_THREADPOOL_CORE_SIZE": str(options.concurrency),
        "consumeFromWhere": options.consume_from.value,
        "consumeMessageBatchMaxSize": str(options.batch),
        "consumeTimeout": str(int(options.consume_timeout_s // 60)),
        "consumerGroup": options.group,
        "maxReconsumeTimes": str(options.max_reconsume),
        "messageModel": "BROADCASTING" if options.broadcasting else "CLUSTERING",
        "pullBatchSize": str(options.pull_batch),
        "pullInterval": str(int(options.pull_interval_s * 1000)),
        "pullThresholdForQueue": str(options.limits.messages),
        "pullThresholdSizeForQueue": str(options.limits.size // _MIB),
    }


def _queue_info(held: HeldQueue, now: float) -> dict[str, Any]:
    def since_1970(at: float) -> int:
        return int(time.time() * 1000 - (now - at) * 1000) if at else 0

    messages = held.messages
    return {
        "cachedMsgCount": len(messages),
        "cachedMsgMaxOffset": messages.last_offset or 0,
        "cachedMsgMinOffset": messages.first_offset or 0,
        "cachedMsgSizeInMiB": messages.size // _MIB,
        "commitOffset": messages.commit_offset,
        "droped": held.is_dropped,
        "lastConsumeTimestamp": since_1970(held.last_consumed),
        "lastLockTimestamp": since_1970(held.last_lock),
        "lastPullTimestamp": since_1970(held.last_pull),
        "locked": held.is_locked,
        "transactionMsgCount": 0,
        "transactionMsgMaxOffset": 0,
        "transactionMsgMinOffset": 0,
        "tryUnlockTimes": 0,
    }
