"""The report of a consumer about itself, for operators.

RocketMQ's source: remoting/protocol/body/ConsumerRunningInfo.java, ProcessQueueInfo.java,
client/impl/factory/MQClientInstance.java (consumerRunningInfo).
"""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, Any, Final

from rocketflow.remoting.bodies import encode_body, queue_map

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocketflow.client.options import ClientOptions
    from rocketflow.remoting.bodies import MessageQueue, SubscriptionData

CLIENT_VERSION: Final = "V5_3_3"
_MIB: Final = 1024 * 1024


def running_info(
    properties: Mapping[str, str],
    subscriptions: Mapping[str, SubscriptionData],
    queues: Mapping[MessageQueue, Mapping[str, Any]],
    status_table: Mapping[str, Mapping[str, float]],
    *,
    with_stacks: bool,
) -> bytes:
    """Return the body of ConsumerRunningInfo; `queues` has members of ProcessQueueInfo for each queue."""
    body: dict[str, Any] = {
        "mqPopTable": {},
        "mqTable": queue_map(queues),
        "properties": properties,
        "statusTable": status_table,
        "subscriptionSet": list(subscriptions.values()),
        "userConsumerInfo": {},
    }
    if with_stacks:
        body["jstack"] = _thread_stacks()
    return encode_body(body)


def properties_of_all(options: ClientOptions, consume_type: str, started_ms: int) -> dict[str, str]:
    """Return the properties that the report of every consumer has."""
    return {
        "PROP_CLIENT_VERSION": CLIENT_VERSION,
        "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
        "PROP_CONSUME_TYPE": consume_type,
        "PROP_NAMESERVER_ADDR": ";".join(options.addresses()) + ";",
    }


def queue_info(*, commit_offset: int, first: int, last: int, count: int, size: int) -> dict[str, Any]:
    """Return the members of ProcessQueueInfo that count: messages that wait, their offsets, their size in bytes."""
    return {
        "cachedMsgCount": count,
        "cachedMsgMaxOffset": last,
        "cachedMsgMinOffset": first,
        "cachedMsgSizeInMiB": size // _MIB,
        "commitOffset": commit_offset,
        "droped": False,
        "lastConsumeTimestamp": 0,
        "lastLockTimestamp": 0,
        "lastPullTimestamp": 0,
        "locked": False,
        "transactionMsgCount": 0,
        "transactionMsgMaxOffset": 0,
        "transactionMsgMinOffset": 0,
        "tryUnlockTimes": 0,
    }


def _thread_stacks() -> str:
    return "\n\n".join(
        f"thread {number}\n" + "".join(traceback.format_stack(frame)) for number, frame in sys._current_frames().items()
    )
