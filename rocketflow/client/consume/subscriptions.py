"""Subscriptions of a group to a topic: an expression of tags, or SQL.

RocketMQ's source: common/filter/FilterAPI.java, common/filter/ExpressionType.java,
client/impl/consumer/PullAPIWrapper.java (processPullResult).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow.client.errors import ClientError
from rocketflow.remoting.bodies import SubscriptionData
from rocketflow_store.spi.ids import string_hash

if TYPE_CHECKING:
    from rocketflow_store.spi.messages import ReceivedMessage

ALL: Final = "*"
TAG: Final = "TAG"
SQL92: Final = "SQL92"


class SubscriptionError(ClientError):
    """An expression of a subscription has no tag, or an unknown type."""


def subscription(topic: str, expression: str = ALL, *, version: int, expression_type: str = TAG) -> SubscriptionData:
    """Return a subscription to a topic; `version` is the time in ms since 1970 at which it was made or changed.

    With TAG, `expression` is `tag || tag`, and all messages match `*` or an empty text. With SQL92 it is a condition
    on properties, which the broker evaluates. Raises SubscriptionError.
    """
    if expression_type == SQL92:
        if not expression.strip():
            raise SubscriptionError(f"topic {topic!r}: the SQL expression is empty")
        return SubscriptionData(
            topic=topic, sub_string=expression, sub_version=version, expression_type=SQL92, tags_set=[], code_set=[]
        )
    if expression_type != TAG:
        raise SubscriptionError(f"topic {topic!r}: expression type {expression_type!r} is not {TAG} or {SQL92}")
    if expression in ("", ALL):
        return SubscriptionData(topic=topic, sub_string=ALL, sub_version=version, tags_set=[], code_set=[])
    tags = sorted({tag for part in expression.split("||") if (tag := part.strip())})
    if not tags:
        raise SubscriptionError(f"topic {topic!r}: {expression!r} has no tag; write 'tag || tag', or '*' for all")
    codes = sorted({string_hash(tag) for tag in tags})
    return SubscriptionData(topic=topic, sub_string=expression, sub_version=version, tags_set=tags, code_set=codes)


def matches(one: SubscriptionData, message: ReceivedMessage) -> bool:
    """Return whether a message has one of the subscription's tags.

    Brokers compare hashes of tags, so that an answer may have a message with another tag of the same hash.
    """
    return not one.tags_set or one.class_filter_mode or message.tags in one.tags_set
