"""The sink: tasks encode and stage rows, and one commit on the driver appends a batch to the log exactly once.

A batch is identified by (sink id, batch id). Tasks read the query's id, batch and run from their task context and send
them in the commit message, because the commit runs in a fresh process without that context.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zlib import crc32

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from rocketflow.errors import UsageError
from rocketflow.spark.shared import checkpoint
from rocketflow.spark.shared.option_values import OptionError
from rocketflow.spark.shared.plain_errors import with_plain_errors
from rocketflow.spark.shared.worker_heap import freeze_heap_once
from rocketflow.spark.sink.append_port import AppendPort
from rocketflow.spark.sink.batch_identity import BatchIdentity
from rocketflow.spark.sink.sink_options import SinkOptions
from rocketflow_store import MessageRejectedError, StoreConfig, StoreError
from rocketflow_store.spi.commits import SinkBatch
from rocketflow_store.spi.places import check_writable_directory
from rocketflow_store.spi.records import BatchEncoder, QueueTurns, config_for_encoding
from rocketflow_store.spi.staging import StagedPart, StagingArea, stage
from rocketflow_store.spi.tables import topics_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from rocketflow_store.spi.records import EncodedChunk


_log: Final = logging.getLogger("rocketflow.spark.sink")


@dataclass(frozen=True)
class StagedCommit(WriterCommitMessage):
    """The message of a task to the commit."""

    sink_id: str
    query_id: str
    batch_id: int
    run_id: str
    run_seq: int
    partition_id: int
    part: StagedPart


@dataclass(frozen=True)
class Sent(WriterCommitMessage):
    """The message of a task whose rows were sent to RocketMQ's brokers."""

    rows: int
    stored_before: int


def make_stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """Return the writer of a streaming query (append mode only)."""
    parsed = SinkOptions.parse(options)
    if parsed.txn_id is not None:
        raise OptionError("txnId", "option txnId is for df.write: a query has its sinkId, else its own id")
    if overwrite:
        raise StoreError('output mode complete would overwrite; a log is append-only: use .outputMode("append")')
    parsed.check_schema(schema)
    address = _place(parsed)
    freeze_heap_once()
    return StreamWriter(parsed, address)


def make_batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """Return the writer of `df.write` (mode append only)."""
    parsed = SinkOptions.parse(options)
    if parsed.sink_id is not None:
        raise OptionError("sinkId", "option sinkId is for streaming queries: txnId makes a df.write run once")
    if overwrite:
        raise StoreError('mode overwrite is not possible; a log is append-only: use .mode("append")')
    parsed.check_schema(schema)
    return BatchWriter(parsed, _place(parsed))


def _place(options: SinkOptions) -> str | None:
    """Check where rows go; return the address of RocketFlow's broker, None for a directory or RocketMQ's brokers."""
    if options.network is None:
        check_writable_directory(Path(options.path), options.store_config())
        return None
    try:
        from rocketflow.spark.sink.target import find_target
    except ImportError as error:
        raise UsageError(
            f"option namesrvAddr needs the extra broker: pip install 'rocketflow[broker]' ({error})"
        ) from None
    return find_target(options.network, options.broker_name)


@with_plain_errors
class StreamWriter(DataSourceStreamArrowWriter):
    """Writes one micro-batch at a time; Spark creates a new object for every step, so it keeps no state."""

    def __init__(self, options: SinkOptions, address: str | None) -> None:
        self.options, self.address = options, address

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Encode and stage this partition's rows, in a task."""
        context = TaskContext.get()
        assert context is not None
        query_id = context.getLocalProperty("sql.streaming.queryId")
        batch_id = context.getLocalProperty("streaming.sql.batchId")
        run_id = context.getLocalProperty("spark.jobGroup.id")
        if query_id is None or batch_id is None:
            raise StoreError("no query id in the task context: the sink needs a Structured Streaming query")
        sink_id = self.options.sink_id or query_id
        batch = BatchIdentity(sink_id, query_id, int(batch_id), run_id or "run")
        return _stage(self.options, self.address, batch, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit all staged rows once, on the driver."""
        location = self.options.checkpoint_location
        query_id = None if location is None else checkpoint.query_id(location)
        names = (self.options.sink_id or query_id, query_id)
        _commit(AppendPort(self.options, self.address), messages, batchId, names, more_follow=True)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Delete what was staged, on the driver after a failure. A durable commit is never undone."""
        _abort(self.options, messages, batchId)


@with_plain_errors
class BatchWriter(DataSourceArrowWriter):
    """Writes `df.write`: one batch; with option `txnId` it is stored once however often it is run."""

    def __init__(self, options: SinkOptions, address: str | None) -> None:
        self.options, self.address = options, address
        self._run_id = uuid.uuid4().hex
        self._sink_id = f"txn.{options.txn_id}" if options.txn_id else f"write.{self._run_id}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Encode and stage this partition's rows, in a task."""
        batch = BatchIdentity(self._sink_id, self._sink_id, 0, self._run_id)
        return _stage(self.options, self.address, batch, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit all staged rows once, on the driver."""
        _commit(AppendPort(self.options, self.address), messages, 0, (self._sink_id, self._sink_id))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete what was staged, on the driver after a failure."""
        _abort(self.options, messages, 0)


def _stage(
    options: SinkOptions, address: str | None, batch: BatchIdentity, rows: Iterator[pa.RecordBatch]
) -> WriterCommitMessage:
    """Encode and stage a task's rows: in the store's directory, or at the broker at an address.

    RocketMQ's brokers have no commits: rows for them are sent at once.
    """
    if options.network is None:
        return _stage_by_path(options, batch, rows)
    if address is None:
        return _send(options, batch, rows)
    from rocketflow.spark.sink.sent_parts import send_part

    context = TaskContext.get()
    assert context is not None
    partition = context.partitionId()
    first_turn = _first_turn(batch, partition)

    def encoded(encoder: BatchEncoder) -> Iterator[EncodedChunk]:
        return _encoded(encoder, rows, partition, first_turn, options.topic)

    name = f"p{partition}-a{context.taskAttemptId()}"
    run_seq, part = send_part(options, address, batch, encoded, name)
    freeze_heap_once()
    return StagedCommit(batch.sink_id, batch.query_id, batch.batch_id, batch.run_id, run_seq, partition, part)


def _send(options: SinkOptions, batch: BatchIdentity, rows: Iterator[pa.RecordBatch]) -> Sent:
    from rocketflow.spark.sink.sent_rows import send_rows

    context = TaskContext.get()
    assert context is not None
    partition = context.partitionId()
    count, found = send_rows(options, batch, partition, rows, _first_turn(batch, partition))
    freeze_heap_once()
    return Sent(count, found)


def _first_turn(batch: BatchIdentity, partition: int) -> int:
    """Return the first queue's number: a replay of the batch must give the same queues."""
    return crc32(batch.sink_id.encode()) + batch.batch_id + partition


def _stage_by_path(options: SinkOptions, batch: BatchIdentity, rows: Iterator[pa.RecordBatch]) -> StagedCommit:
    context = TaskContext.get()
    assert context is not None
    staging = StagingArea(options.path, batch.sink_id)
    run_seq = staging.run_number(batch.run_id, options.store_config())
    partition = context.partitionId()
    topics = topics_of(options.path)

    def queue_count(topic: str) -> int:
        known = topics.get(topic)
        return known.queues_to_write() if known is not None else options.queues

    config = config_for_encoding(options.path, options.store_config())
    encoder = BatchEncoder(config, queue_count, default_topic=options.topic, row_hashes=True)
    name = f"p{partition}-a{context.taskAttemptId()}"
    first_turn = _first_turn(batch, partition)
    part = stage(
        _encoded(encoder, rows, partition, first_turn, options.topic),
        staging.directory(batch.batch_id),
        name,
    )
    freeze_heap_once()
    return StagedCommit(batch.sink_id, batch.query_id, batch.batch_id, batch.run_id, run_seq, partition, part)


def _encoded(
    encoder: BatchEncoder, rows: Iterator[pa.RecordBatch], partition: int, first_turn: int, topic: str | None
) -> Iterator[EncodedChunk]:
    done = 0
    next_queue = QueueTurns(lambda _: first_turn)
    now_ms = StoreConfig().clock.now_ms()
    for batch in rows:
        if topic is not None and "topic" in batch.schema.names:  # the option wins, as in Spark's Kafka sink
            batch = batch.drop_columns(["topic"])
        try:
            encoder.validate(batch)
        except MessageRejectedError as error:
            row = done + (error.row or 0)
            raise StoreError(f"partition {partition}, row {row}: {error.why}; the batch is not written") from error
        yield from encoder.encode(batch, now_ms, next_queue)
        done += batch.num_rows


def _sent(messages: Sequence[WriterCommitMessage | None]) -> tuple[int, int]:
    found = [message for message in messages if isinstance(message, Sent)]
    return sum(one.rows for one in found), sum(one.stored_before for one in found)


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[StagedCommit]:
    found = [message for message in messages if isinstance(message, StagedCommit)]
    return sorted(found, key=lambda one: one.partition_id)


def _commit(
    port: AppendPort,
    messages: Sequence[WriterCommitMessage | None],
    batch_id: int,
    names: tuple[str | None, str | None],
    *,
    more_follow: bool = False,
) -> None:
    """Commit the staged parts, unless rows were sent; `names` (sink, query) are those of a batch without partitions."""
    if port.is_by_sends:
        _log.info("batch %d: %d rows were sent, %d were stored before", batch_id, *_sent(messages))
        return
    staged = _staged(messages)
    if not staged:
        sink_id, query_id = names
        if sink_id is not None:
            port.commit_nothing(sink_id, query_id, batch_id)
        return
    first = staged[0]
    parts = [one.part for one in staged]
    topic = port.options.topic
    if topic is not None and not any(part.rows for part in parts):  # its topic exists after the commit all the same
        parts = [replace(part, topics=(topic,)) for part in parts]
    batch = SinkBatch(
        sink_id=first.sink_id,
        query_id=first.query_id,
        batch_id=batch_id,
        run_id=first.run_id,
        run_seq=first.run_seq,
        parts=parts,
        more_follow=more_follow,
    )
    port.commit(batch)


def _abort(options: SinkOptions, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
    staged = _staged(messages)
    if staged and options.network is None:  # a broker sweeps what was sent to it
        StagingArea(options.path, staged[0].sink_id).abort(batch_id, [one.part for one in staged])
