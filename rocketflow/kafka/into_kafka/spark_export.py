"""Bulk export: Spark reads the store and writes through its own Kafka connector, in parallel.

The guarantee is at-least-once: a retried batch is sent again, as with every sink of that connector. Every message has
a header `rocketmq.origin` (topic:queue:offset) by which readers can drop duplicates. The connector sends no timestamps:
the Kafka timestamp is the time of sending, the message's own is in the header `rocketmq.bornTimestamp`.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rocketflow.errors import UsageError
from rocketflow.kafka.errors import KafkaMissingError, MessageRefusedError
from rocketflow.kafka.into_kafka.to_records import BODY_ERROR, COLUMNS, kafka_rows
from rocketflow.kafka.options.secrets import Secrets, hidden_in_errors, hide_in_logs
from rocketflow.kafka.shared import property_names as names
from rocketflow.process.arguments import key_value
from rocketflow.process.job_timing import timing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from rocketflow.kafka.options.bridge_options import BridgeOptions

_PROVIDER: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_NOT_FOUND: Final = "java.lang.ClassNotFoundException"
_READ: Final = ("topic", "queueId", *COLUMNS)
_SCHEMA: Final = (
    "topic string, key binary, value binary, headers array<struct<key string, value binary>>, partition int"
)
_BORN_HEADER: Final = "rocketmq.bornTimestamp"
_TUNED: Final = {
    "kafka.linger.ms": "20",
    "kafka.batch.size": str(256 << 10),
    "kafka.buffer.memory": str(256 << 20),
    "kafka.max.request.size": str(8 << 20),
}


def run(asked: BridgeOptions, checkpoint: str, connector: Sequence[str], *, required: bool) -> dict[str, Any] | None:
    """Copy with Spark; return the summary, or None without its Kafka connector.

    Raises: KafkaMissingError if the connector is missing and `required`.
    """
    from rocketflow.spark.session import build_session

    if asked.client.shown():
        raise UsageError("--kafka-option is kafka-python's; give Spark's connector --connector-option kafka.NAME=VALUE")
    options = dict(key_value(f"--connector-option number {at}", one) for at, one in enumerate(connector, 1))
    secrets = Secrets.of_options(options)
    hide_in_logs(secrets)
    spark = build_session("rocketflow-kafka-bridge")
    try:
        with hidden_in_errors(secrets):
            if has_connector(spark):
                return _copy(spark, asked, checkpoint, options)
            if required:
                raise KafkaMissingError("Spark's Kafka connector is not on the class path: give its jars (--jars)")
            return None
    finally:
        spark.stop()


def has_connector(spark: SparkSession) -> bool:
    """Return True if Spark's Kafka connector is on the class path."""
    try:
        jvm: Any = spark._jvm
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(_PROVIDER)
    except Exception as error:  # py4j's, which has no types
        thrown: Any = getattr(error, "java_exception", None)
        if thrown is not None and thrown.getClass().getName() == _NOT_FOUND:
            return False
        raise
    return True


def _copy(spark: SparkSession, asked: BridgeOptions, checkpoint: str, options: Mapping[str, str]) -> dict[str, Any]:
    from rocketflow.spark.stream.query_run import AVAILABLE_NOW, await_query, start_query
    from rocketflow_store import OnBadBody, StoreConfig, StoreReader

    with StoreReader(asked.store, StoreConfig.load()) as reader:
        mapped, missing = asked.choice.of_store(reader.topics(), reader.listed_topics())
    if missing:
        raise UsageError(f"the store at {asked.store} has no topic {', '.join(missing)}")
    began = time.monotonic()
    read = (*_READ, BODY_ERROR) if asked.on_bad_body is OnBadBody.RAW else _READ
    rows = (
        spark.readStream.format("rocketflow")
        .options(path=asked.store, subscribe=",".join(mapped), includeProperties="true", startingOffsets=asked.start)
        .option("onBadBody", asked.on_bad_body.value)
        .load()
        .select(*read)
        .mapInArrow(_to_kafka(mapped, by_key=asked.by_key), _SCHEMA)
    )
    writer = rows.writeStream.format("kafka").options(
        **{**_TUNED, "kafka.bootstrap.servers": asked.bootstrap, **options}
    )
    trigger = AVAILABLE_NOW if asked.until_caught_up else f"{asked.commit_interval_ms} milliseconds"
    total = batches = 0

    def batch_done(batch: int, rows: int) -> None:
        nonlocal total, batches
        total, batches = total + rows, batches + 1
        print(f"batch {batch}: {total} messages in all", file=sys.stderr, flush=True)

    await_query(start_query(writer, f"bridge {asked.bridge_id}", checkpoint, trigger), batch_done)
    return {
        "job": "kafka_bridge",
        "direction": asked.direction,
        "bridge": asked.bridge_id,
        "rows": total,
        "batches": batches,
        **timing(total, time.monotonic() - began),
        "quarantined": 0,
        "lost": 0,
        "caughtUp": asked.until_caught_up,
    }


def _to_kafka(
    mapped: Mapping[str, str], *, by_key: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    kinds = pa.schema(
        [
            ("topic", pa.string()),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            ("partition", pa.int32()),
        ]
    )
    target = dict(mapped)

    def convert(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = kafka_rows(batch)
            topics = batch.column("topic").to_pylist()
            queues = batch.column("queueId").to_pylist()
            offsets = batch.column("queueOffset").to_pylist()
            for row, why in rows.faults.items():
                raise MessageRefusedError(f"topic {topics[row]} queue {queues[row]} queue offset {offsets[row]}: {why}")
            headers = [
                [
                    *({"key": name, "value": value} for name, value in some),
                    {"key": names.ORIGIN_HEADER, "value": f"{topic}:{queue}:{offset}".encode()},
                    {"key": _BORN_HEADER, "value": str(stamp).encode()},
                ]
                for some, topic, queue, offset, stamp in zip(
                    rows.headers, topics, queues, offsets, rows.timestamps, strict=True
                )
            ]
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([target[one] for one in topics], kinds.field("topic").type),
                    pa.array(rows.keys, pa.binary()),
                    pa.array(rows.values, pa.binary()),
                    pa.array(headers, kinds.field("headers").type),
                    pa.array([None if by_key else one for one in queues], pa.int32()),
                ],
                schema=kinds,
            )

    return convert
