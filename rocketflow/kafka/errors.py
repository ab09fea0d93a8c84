"""What can be wrong between a store and Kafka; exit codes are those of every command."""

from __future__ import annotations

from rocketflow.errors import RocketFlowError, UsageError


class BridgeError(RocketFlowError):
    """Base of the bridge's errors; nothing was lost."""


class KafkaMissingError(UsageError):
    """kafka-python is not installed."""


class TopicNameError(UsageError):
    """A topic has no name on the other side that is legal and leads back."""


class TopicMissingError(UsageError):
    """A topic that was asked for is not there."""


class TopicReplacedError(BridgeError):
    """A Kafka topic was deleted and made anew: how far a bridge came says nothing of the one that is there now."""


class TopicClaimedError(UsageError):
    """Another bridge has copied a topic to the same target: copying it again would double every message."""


class QueuesChangedError(UsageError):
    """`--queues` is another than before: a key's messages would be in two queues."""


class KafkaUnreachableError(BridgeError):
    """No broker answers."""


class KafkaRefusedError(BridgeError):
    """Kafka, or its client, refused: authorisation, configuration, a record that cannot be read."""


class FencedBridgeError(BridgeError):
    """Another bridge with the same id has taken over; this one must not go on."""


class MessageRefusedError(BridgeError):
    """A message cannot be kept on the other side, and `--on-refused` says to stop."""


class DataLossError(BridgeError):
    """Messages that were not copied yet are gone."""

    exit_code = 3
