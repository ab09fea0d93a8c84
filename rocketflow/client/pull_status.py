"""The outcomes of a pull.

RocketMQ's source: client/consumer/PullStatus.java, client/impl/MQClientAPIImpl.java (processPullResponse).
"""

from __future__ import annotations

from enum import Enum

from rocketflow.remoting.codes import ResponseCode


class PullStatus(Enum):
    """The outcomes of a pull, in RocketMQ's names; the values are the codes of answers.

    FOUND comes with messages. NO_NEW_MSG: the queue has no message at the offset yet. NO_MATCHED_MSG: none of those
    that the broker examined matches the filter. OFFSET_ILLEGAL: the queue has no such offset; the result names the
    nearest one.
    """

    FOUND = ResponseCode.SUCCESS
    NO_NEW_MSG = ResponseCode.PULL_NOT_FOUND
    NO_MATCHED_MSG = ResponseCode.PULL_RETRY_IMMEDIATELY
    OFFSET_ILLEGAL = ResponseCode.PULL_OFFSET_MOVED
