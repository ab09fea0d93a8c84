"""Options of producers.

RocketMQ's source: client/producer/DefaultMQProducer.java.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rocketflow.client.options import ClientOptions
from rocketflow_store.spi.messages import Compression

TEMPLATE_TOPIC: Final = "TBW102"
"""The topic whose route and settings serve topics that a send creates (`createTopicKey`)."""


@dataclass(frozen=True, kw_only=True)
class ProducerOptions(ClientOptions):
    """Options of a producer; the names of RocketMQ's settings are in brackets.

    A send takes at most `send_timeout_s` with all its attempts (`sendMsgTimeout`), one attempt `attempt_timeout_s` if
    that is not 0 (`sendMsgMaxTimeoutPerRequest`), and `retries` follow a failed one (`retryTimesWhenSendFailed`);
    `retry_not_stored` repeats sends whose status is not OK (`retryAnotherBrokerWhenNotStoreOK`).

    Bodies of `compress_above` bytes and more are compressed (`compressMsgBodyOverHowmuch`). No more than
    `max_in_flight` messages and `max_in_flight_bytes` wait for answers: further sends wait for room. One-way sends
    wait while more bytes than that, or 16 MiB, wait for a broker's connection.

    `queues_of_new_topics` is the number of queues of a topic that a send creates (`defaultTopicQueueNums`).
    `latency_faults` avoids slow and failed brokers for a while (`sendLatencyFaultEnable`).

    With a `batch_linger_s` above 0, small messages of a topic that are sent without a queue are collected into batches
    of `batch_bytes` or for that long (`autoBatch`). `trace_topic` gets rows about what was sent; RocketMQ's tools
    read them from `RMQ_SYS_TRACE_TOPIC`.
    """

    group: str
    send_timeout_s: float = 3.0
    attempt_timeout_s: float = 0.0
    retries: int = 2
    retry_not_stored: bool = False
    compress_above: int = 4096
    compression: Compression = Compression.ZLIB
    compression_level: int = 5
    max_message_size: int = 4 * 1024 * 1024
    max_in_flight: int = 10_000
    max_in_flight_bytes: int = 100 * 1024 * 1024
    queues_of_new_topics: int = 4
    latency_faults: bool = False
    batch_linger_s: float = 0.0
    batch_bytes: int = 32 * 1024
    trace_topic: str = ""
