"""Errors of the Kafka bridge; exit codes are the same as for every command."""

from __future__ import annotations

from rocketflow.errors import RocketFlowError, UsageError


class BridgeError(RocketFlowError):
    """Base class of errors that stop a bridge without losing messages."""


class KafkaMissingError(UsageError):
    """kafka-python is not installed."""


class TopicNameError(UsageError):
    """A topic has no legal, reversible name on the other side."""


class TopicMissingError(UsageError):
    """A requested topic does not exist."""


class TopicReplacedError(BridgeError):
    """A Kafka topic was deleted and recreated: a bridge's progress does not apply to the new topic."""


class TopicClaimedError(UsageError):
    """Another bridge has copied a topic to the same target: copying it again would duplicate every message."""


class QueuesChangedError(UsageError):
    """`--queues` differs from earlier runs: a key's messages would be in two queues."""


class KafkaUnreachableError(BridgeError):
    """No broker answers."""


class KafkaRefusedError(BridgeError):
    """Kafka or its client refused a request: authorisation, configuration, an unreadable record."""


class FencedBridgeError(BridgeError):
    """Another bridge with the same id has taken over; this one must stop."""


class MessageRefusedError(BridgeError):
    """The other side refused a message, and `--on-refused` is `stop`."""


class DataLossError(BridgeError):
    """Messages were deleted before they were copied."""

    exit_code = 3
