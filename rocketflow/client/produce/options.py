"""Options of producers.

RocketMQ's source: client/producer/DefaultMQProducer.java.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from rocketflow.client.options import ClientOptions
from rocketflow_store.spi.messages import Compression
from rocketflow_store.spi.setting_rows import NAME, described, option

TEMPLATE_TOPIC: Final = "TBW102"
"""The topic whose route and settings serve topics that a send creates (`createTopicKey`)."""


@dataclass(frozen=True, kw_only=True)
class ProducerOptions(ClientOptions):
    """Options of a producer; the names of RocketMQ's settings are in brackets."""

    group: str = field(metadata=described("Producer group.", key=NAME, shown_default="required"))
    send_timeout_s: float = option("Longest time of a send with all its attempts (`sendMsgTimeout`).", 3.0, "s")
    attempt_timeout_s: float = option(
        "Longest time of one attempt, 0 for any (`sendMsgMaxTimeoutPerRequest`).", 0.0, "s"
    )
    retries: int = option("Attempts that follow a failed one (`retryTimesWhenSendFailed`).", 2)
    retry_not_stored: bool = option(
        "Whether a send whose status is not OK is repeated (`retryAnotherBrokerWhenNotStoreOK`).", False
    )
    compress_above: int = option(
        "Size from which bodies are compressed (`compressMsgBodyOverHowmuch`).", 4_096, "bytes"
    )
    compression: Compression = option("Format of compressed bodies.", Compression.ZLIB, shown_default="ZLIB")
    compression_level: int = option("Effort of the compression.", 5)
    max_message_size: int = option("Largest body of a message.", 4 * 1024 * 1024, "bytes")
    max_in_flight: int = option("Messages that wait for answers; further sends wait for room.", 10_000)
    max_in_flight_bytes: int = option(
        "Their bytes. One-way sends wait while more than that, or 16 MiB, waits for a broker's connection.",
        100 * 1024 * 1024,
        "bytes",
    )
    queues_of_new_topics: int = option("Queues of a topic that a send creates (`defaultTopicQueueNums`).", 4)
    latency_faults: bool = option(
        "Whether slow and failed brokers are avoided for a while (`sendLatencyFaultEnable`).", False
    )
    batch_linger_s: float = option(
        "Time in which small messages of a topic that are sent without a queue are collected into a batch; 0 for none "
        "(`autoBatch`).",
        0.0,
        "s",
    )
    batch_bytes: int = option("Size at which such a batch is sent before.", 32 * 1024, "bytes")
    trace_topic: str = option(
        "Topic that gets rows about what was sent; RocketMQ's tools read them from RMQ_SYS_TRACE_TOPIC.", ""
    )
