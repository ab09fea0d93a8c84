"""RocketMQ's names of topics and groups, their rules, and permissions.

A name that passes is safe as one path component.

RocketMQ's source: common/topic/TopicValidator.java, common/constant/PermName.java.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from rocketflow_store.model.errors import MessageRejectedError, StoreConfigError
from rocketflow_store.model.property_names import (
    PROPERTY_INNER_MULTI_DISPATCH,
)
from rocketflow_store.model.status import PutMessageStatus

MAX_QUEUE_NUMS: Final = 65_536

HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
CHECK_RESULTS_TOPIC: Final = "rmq_sys_ROCKETFLOW_QUALITY"
"""The results of checks: jobs commit them, clients send none."""

MAX_TOPIC_LENGTH: Final = 127
MAX_RETRY_TOPIC_LENGTH: Final = 255
MAX_GROUP_LENGTH: Final = 120
RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
SYSTEM_PREFIX: Final = "rmq_sys_"
OWN_PREFIX: Final = "rmq_sys_ROCKETFLOW_"
"""RocketFlow's own topics; others with RocketMQ's prefix are its clients', as those of traces by region."""
LMQ_PREFIX: Final = "%LMQ%"
PERM_INHERIT: Final = 1
PERM_WRITE: Final = 2
PERM_READ: Final = 4
PERM_READ_WRITE: Final = PERM_READ | PERM_WRITE
"""Permissions of topics (common/constant/PermName.java)."""
SYSTEM_TOPICS: Final = frozenset(
    {
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
    }
)

SEND_REFUSED_TOPICS: Final = frozenset(
    {
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        TIMER_TOPIC,
    }
)
"""Topics for which a broker accepts no messages: it writes them itself."""

_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]+")


def validate_topic(name: str) -> str:
    """Return `name`; raise StoreConfigError, which names what RocketMQ allows, if it is invalid."""
    long_name = name.startswith((RETRY_PREFIX, DLQ_PREFIX))
    return _validate("topic", name, MAX_RETRY_TOPIC_LENGTH if long_name else MAX_TOPIC_LENGTH)


def validate_group(name: str) -> str:
    """Return `name`; raise StoreConfigError, which names what RocketMQ allows, if it is invalid."""
    return _validate("group", name, MAX_GROUP_LENGTH)


def is_directory_name(name: str) -> bool:
    """Return True if a name of any origin may become a directory: it cannot lead to another place."""
    return len(name) <= MAX_RETRY_TOPIC_LENGTH and _NAME.fullmatch(name) is not None


def is_system_topic(name: str) -> bool:
    """Return True if `name` is a topic of the store itself: clients neither create nor list it."""
    return name in SYSTEM_TOPICS or name.startswith(SYSTEM_PREFIX)


def is_send_refused(name: str) -> bool:
    """Return True if only the store itself writes messages of this topic."""
    return name in SEND_REFUSED_TOPICS or name.startswith(OWN_PREFIX)


def _validate(kind: str, name: str, most: int) -> str:
    if not name:
        raise StoreConfigError(kind, name, f"the {kind} name is empty; give 1 to {most} of letters, digits, % | - _")
    if len(name) > most:
        raise StoreConfigError(kind, name[:64] + "...", f"has {len(name)} characters, at most {most} are allowed")
    if not _NAME.fullmatch(name):
        raise StoreConfigError(kind, name, f"a {kind} name may hold only letters, digits, % | - and _")
    return name


def check_topic(topic: str, row: int | None = None) -> None:
    """Raise MessageRejectedError for a topic name that RocketMQ refuses; a valid one is safe as a directory name."""
    try:
        validate_topic(topic)
    except StoreConfigError as error:
        raise MessageRejectedError(
            PutMessageStatus.MESSAGE_ILLEGAL, f"topic {topic[:64]!r}: {error.why}", row
        ) from error


@lru_cache(maxsize=4096)  # of valid names: an error is not cached
def check_send_topic(topic: str, row: int | None = None) -> None:
    """Raise MessageRejectedError for a topic that a user must not send to: invalid, or written by the store itself."""
    check_topic(topic, row)
    if topic.startswith(LMQ_PREFIX):
        why = f"topic {topic!r}: an LMQ gets messages of other topics, by {PROPERTY_INNER_MULTI_DISPATCH}"
        raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, why, row)
    if is_send_refused(topic):
        raise MessageRejectedError(
            PutMessageStatus.MESSAGE_ILLEGAL, f"topic {topic!r}: only the store itself writes to this topic", row
        )
