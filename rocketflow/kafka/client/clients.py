"""kafka-python clients with the bridge's settings, and the conversion of their errors."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any, Final

from rocketflow.kafka.client.batch_consumer import BATCHES_AT_ONCE, RECORDS_AT_ONCE, hand_out_batches
from rocketflow.kafka.client.connection_failures import connection_failures
from rocketflow.kafka.errors import (
    BridgeError,
    FencedBridgeError,
    KafkaRefusedError,
    KafkaUnreachableError,
    TopicMissingError,
)
from rocketflow.kafka.options.client_options import require_kafka

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketflow.kafka.client.connection_failures import ConnectionFailures
    from rocketflow.kafka.options.bridge_options import BridgeOptions

_MIB: Final = 1 << 20
MAX_REQUEST_BYTES: Final = 8 * _MIB
GIVE_UP_S: Final = 60.0
"""Seconds for which a failing call or transaction is retried if the run must end or Kafka refuses the request."""
_CONSUMER: Final = {
    "bootstrap_timeout_ms": 15_000,
    "fetch_max_bytes": 16 * _MIB,
    "max_partition_fetch_bytes": 8 * _MIB,
    "receive_buffer_bytes": _MIB,
    "fetch_max_wait_ms": 250,
}
_PRODUCER: Final = {
    "bootstrap_timeout_ms": 15_000,
    "linger_ms": 20,
    "batch_size": 256 << 10,
    "max_request_size": MAX_REQUEST_BYTES,
    "send_buffer_bytes": _MIB,
    "max_block_ms": 30_000,
}
CALL_MS: Final = 10_000
"""Timeout of one request to Kafka, in ms."""
_DIVIDED_SECONDS: Final = 0.001


NULL: Final = object()
"""A message value that is sent as null: kafka-python refuses the value None with the key None, Kafka does not."""


def leave_null() -> Any:
    """Return a serializer that passes bytes through and sends `NULL` as null."""
    from kafka.serializer import Serializer

    class LeaveNull(Serializer):  # type: ignore[misc]
        def serialize(self, topic: str, headers: Any, data: Any) -> bytes | None:
            return None if data is NULL else data

    return LeaveNull()


class NullHeader(tuple[str, bytes]):
    """A header whose value is null: kafka-python can write such headers but refuses to accept them."""

    def __new__(cls, name: str) -> NullHeader:
        return super().__new__(cls, (name, b""))

    def __iter__(self) -> Iterator[Any]:
        return iter((self[0], None))


def allow_null_headers() -> None:
    """Let kafka-python count headers with null values as 0 bytes: it writes them, but then calls `len` on the value."""
    from kafka.producer import producer_batch

    producer_batch.len = lambda value: 0 if value is None else len(value)


def consumer(options: BridgeOptions, **more: Any) -> tuple[Any, bool]:
    """Create a consumer without an assignment; return (consumer, True if its polls return complete batches)."""
    require_kafka()
    from kafka import KafkaConsumer

    given = {**_CONSUMER, **options.client.for_client(KafkaConsumer.DEFAULT_CONFIG, _producer_defaults())}
    with _connecting(options):
        made = KafkaConsumer(
            bootstrap_servers=options.bootstrap.split(","),
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="none",
            allow_auto_create_topics=False,
            **{**given, **more},
        )
    in_batches = hand_out_batches(made)
    made.config["max_poll_records"] = BATCHES_AT_ONCE if in_batches else RECORDS_AT_ONCE
    return made, in_batches


def continue_join(consumer: Any) -> None:
    """Make the next poll take up a join of the group that took longer than the poll that began it.

    kafka-python 3.0.12 forgets such a join if changed partitions of a topic caused it: the member is given its
    partitions in the background, and never reads them (findings/kafka-python-join-outlasts-poll.sh).
    """
    coordinator: Any = getattr(consumer, "_coordinator", None)
    if getattr(coordinator, "rejoining", False):
        coordinator.request_rejoin()


def producer(options: BridgeOptions) -> Any:
    """Create the transactional producer of a bridge: it ends open transactions of its predecessors and fences them."""
    require_kafka()
    from kafka import KafkaConsumer, KafkaProducer

    given = {**_PRODUCER, **options.client.for_client(KafkaProducer.DEFAULT_CONFIG, KafkaConsumer.DEFAULT_CONFIG)}
    with _connecting(options):
        made = KafkaProducer(
            bootstrap_servers=options.bootstrap.split(","),
            transactional_id=options.transactional_id,
            value_serializer=leave_null(),
            allow_auto_create_topics=False,
            **given,
        )
        made.init_transactions()
    return made


def admin(options: BridgeOptions, **more: Any) -> Any:
    """Create an admin client; `more` are settings of the client that take precedence."""
    require_kafka()
    from kafka import KafkaConsumer
    from kafka.admin import KafkaAdminClient

    known = KafkaAdminClient.DEFAULT_CONFIG
    given = options.client.for_client(known, _producer_defaults(), KafkaConsumer.DEFAULT_CONFIG)
    with _connecting(options):
        return KafkaAdminClient(
            bootstrap_servers=options.bootstrap.split(","), **{"bootstrap_timeout_ms": 15_000, **given, **more}
        )


def flush(producer: Any) -> None:
    """Wait until all that was sent is answered. Raises KafkaError as the producer's `flush` does.

    That of kafka-python 3.0 ends with UnknownError as soon as a batch that it waits for is divided, because the broker
    finds it too large: its parts are waited for here, until the client itself gives them up.
    """
    from kafka.errors import UnknownError

    end = time.monotonic() + producer.config["delivery_timeout_ms"] / 1000
    while True:
        try:
            producer.flush()
        except UnknownError:
            if time.monotonic() >= end:
                raise
            time.sleep(_DIVIDED_SECONDS)
        else:
            return


def _producer_defaults() -> dict[str, Any]:
    from kafka import KafkaProducer

    return dict(KafkaProducer.DEFAULT_CONFIG)


@contextlib.contextmanager
def kafka_errors(options: BridgeOptions, failures: ConnectionFailures | None = None) -> Iterator[None]:
    """Convert kafka-python's errors in this block into bridge errors without secrets."""
    from kafka.errors import KafkaError

    try:
        yield
    except KafkaError as error:
        raise as_bridge_error(options, error, failures) from None  # its traceback may hold options
    except (AssertionError, ValueError, OSError) as error:  # raised by the clients for options and files
        raise KafkaRefusedError(options.client.hide(f"kafka-python refused: {error}")) from None


@contextlib.contextmanager
def _connecting(options: BridgeOptions) -> Iterator[None]:
    """Convert errors like `kafka_errors` while a client is created, and add why it could not connect."""
    with connection_failures() as failures, kafka_errors(options, failures):
        yield


def as_bridge_error(
    options: BridgeOptions, error: Exception, failures: ConnectionFailures | None = None
) -> BridgeError | TopicMissingError:
    """Return the bridge error for one of kafka-python's, with the reason of `failures` if connections failed before."""
    from kafka import errors

    text = options.client.hide(f"{type(error).__name__}: {error}")
    # after a failure a producer's next error has the original error among its arguments
    error = next((one for one in error.args if isinstance(one, errors.KafkaError)), error)
    if isinstance(error, (errors.ProducerFencedError, errors.InvalidProducerEpochError)):
        return FencedBridgeError(
            f"bridge {options.bridge_id}: fenced by another bridge that started with the same id (transactional id "
            f"{options.transactional_id}); this bridge stops, its open transaction is aborted"
        )
    if isinstance(error, errors.UnsupportedCodecError):
        return KafkaRefusedError(f"messages are compressed with a codec that is not installed here: {text}")
    if isinstance(error, errors.CorruptRecordError):
        return KafkaRefusedError(f"a record batch in Kafka is corrupt: {text}; none of its records was copied")
    if failures is not None and failures.refused:
        return _refused_at_login(options, failures.refused)
    if failures is not None and failures.handshake:
        why = options.client.hide(failures.handshake)
        return KafkaRefusedError(
            f"Kafka at {options.bootstrap}: the TLS handshake failed ({why}); check the ssl options"
        )
    if isinstance(error, (errors.KafkaTimeoutError, errors.KafkaConnectionError, errors.NodeNotReadyError)):
        return KafkaUnreachableError(f"Kafka at {options.bootstrap} does not answer: {text}{_last(options, failures)}")
    if isinstance(error, errors.AuthorizationError) or "Sasl" in type(error).__name__:
        return _refused_at_login(options, text)
    if isinstance(error, errors.UnknownTopicOrPartitionError):
        return TopicMissingError(f"Kafka at {options.bootstrap}: a topic does not exist: {text}")
    return KafkaRefusedError(f"Kafka at {options.bootstrap}: {text}")


def _last(options: BridgeOptions, failures: ConnectionFailures | None) -> str:
    """Return the outcome of the last attempt to connect, or ""."""
    if failures is None or not failures.last:
        return ""
    hint = ""
    if failures.disconnected and options.client.secured:
        hint = "; a broker closes connections that it rejects: check the SASL options and ACLs"
    return options.client.hide(f" ({failures.last}{hint})")


def _refused_at_login(options: BridgeOptions, why: str) -> KafkaRefusedError:
    reason = options.client.hide(why)
    return KafkaRefusedError(f"Kafka at {options.bootstrap} refused: {reason}; check the SASL options and ACLs")


def quiet_log() -> None:
    """Silence kafka-python's log, unless configured: it reports every reconnection, and the bridge reports failures."""
    log = logging.getLogger("kafka")
    if log.level == logging.NOTSET:
        log.setLevel(logging.CRITICAL)


def now_ms() -> int:
    """Return the wall-clock time in ms."""
    return int(time.time() * 1000)
