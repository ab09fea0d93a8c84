"""The report of a push consumer about itself and its queues.

RocketMQ's source: client/impl/consumer/DefaultMQPushConsumerImpl.java (consumerRunningInfo), ProcessQueue.java
(fillProcessQueueInfo).
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from rocketflow.client.consume.membership import BROADCASTING, CLUSTERING, PUSH
from rocketflow.client.consume.running_info import properties_of_all, queue_info

if TYPE_CHECKING:
    from rocketflow.client.push.held_queue import HeldQueue
    from rocketflow.client.push.options import PushOptions

_MIB: Final = 1024 * 1024


def properties(options: PushOptions, started_ms: int) -> dict[str, str]:
    """Return the properties of ConsumerRunningInfo."""
    return {
        **properties_of_all(options, PUSH, started_ms),
        "PROP_CONSUMEORDERLY": str(options.orderly).lower(),
        "PROP_THREADPOOL_CORE_SIZE": str(options.concurrency),
        "consumeFromWhere": options.consume_from.value,
        "consumeMessageBatchMaxSize": str(options.batch),
        "consumeTimeout": str(int(options.consume_timeout_s // 60)),
        "consumerGroup": options.group,
        "maxReconsumeTimes": str(options.max_reconsume),
        "messageModel": BROADCASTING if options.broadcasting else CLUSTERING,
        "pullBatchSize": str(options.pull_batch),
        "pullInterval": str(int(options.pull_interval_s * 1000)),
        "pullThresholdForQueue": str(options.limits.messages),
        "pullThresholdSizeForQueue": str(options.limits.size // _MIB),
    }


def held_queue_info(held: HeldQueue) -> dict[str, Any]:
    """Return the members of ProcessQueueInfo."""
    now, messages = asyncio.get_running_loop().time(), held.messages

    def since_1970(at: float) -> int:
        return int(time.time() * 1000 - (now - at) * 1000) if at else 0

    counts = queue_info(
        commit_offset=messages.commit_offset,
        first=messages.first_offset or 0,
        last=messages.last_offset or 0,
        count=len(messages),
        size=messages.size,
    )
    return {
        **counts,
        "droped": held.is_dropped,
        "lastConsumeTimestamp": since_1970(held.last_consumed),
        "lastLockTimestamp": since_1970(held.last_lock),
        "lastPullTimestamp": since_1970(held.last_pull),
        "locked": held.is_locked,
    }
