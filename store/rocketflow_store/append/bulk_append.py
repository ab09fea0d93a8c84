"""Bulk appends: Arrow batches, and sink commits (an envelope followed by its rows, visible atomically)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow_store.append.aligned_write import AlignedChunkWriter
from rocketflow_store.append.chunk_append import ChunkPlacer, ChunkWriter, ParallelWriter, PlacedChunk
from rocketflow_store.format.properties import decode_properties
from rocketflow_store.format.record import RecordFields, place_record, record_size
from rocketflow_store.log.group_flush import NO_TIMEOUT_S
from rocketflow_store.metadata.native.commit_envelope import COMMIT_QUEUE_ID, COMMIT_TOPIC
from rocketflow_store.model.message_id import encode_host
from rocketflow_store.model.results import AppendBatchResult
from rocketflow_store.records.encoding.unplaced_record import RecordRules, unplaced_record
from rocketflow_store.views.dispatch.run_rows import RunRows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from rocketflow_store.append.acknowledgement import Acknowledgement
    from rocketflow_store.append.log_append import LogAppend
    from rocketflow_store.append.put_path import PutPath
    from rocketflow_store.append.queue_choice import QueueChoice
    from rocketflow_store.append.write_gate import WriteGate
    from rocketflow_store.metadata.config_files.topic_table import TopicTable
    from rocketflow_store.records.encoding.encode import EncodedChunk
    from rocketflow_store.settings.store_config import StoreConfig
    from rocketflow_store.views.dispatch.confirmed_dispatch import Dispatched


_UNITS_AT_ONCE: Final = 128
"""Average number of pending rows per queue at which a batch is dispatched; a write costs more than its bytes."""


class BulkAppend:
    """Appends chunks under the put lock of `put`."""

    def __init__(
        self,
        config: StoreConfig,
        topics: TopicTable,
        put: PutPath,
        log_append: LogAppend,
        queue_choice: QueueChoice,
        gate: WriteGate,
        acknowledgement: Acknowledgement,
    ) -> None:
        self._config, self._topics = config, topics
        self._put, self._log_append, self._queue_choice, self._gate = put, log_append, queue_choice, gate
        self._commit_log, self._offsets = log_append.commit_log, log_append.offsets
        self._acknowledgement, self._sync_flush = acknowledgement, acknowledgement.sync_flush

    def append_batch(self, batch: pa.RecordBatch | pa.Table, topic: str | None) -> AppendBatchResult:
        """Append every row of an Arrow batch: see `MessageStore.append_batch`."""
        from rocketflow_store.records.encoding.encode import BatchEncoder

        encoder = BatchEncoder(self._config, self._topics.queue_count, default_topic=topic)
        first, rows, waiting = -1, 0, 0
        with self._put.lock:
            self._gate.check()
            self._log_append.assigned.check_lmq_limit(encoder.validate(batch))
            begin = self._commit_log.wrote_offset
            for chunk in encoder.encode(batch, now_ms=self._log_append.tick(), next_queue=self._queue_choice.turns):
                placed = self._append_chunk(chunk)
                first = int(placed.phy_offsets[0]) if first < 0 else first
                rows += len(chunk.sizes)
                waiting += len(chunk.sizes)
                if not self._sync_flush and waiting >= _UNITS_AT_ONCE * len(placed.rows.queues):
                    waiting = 0
                    self._acknowledgement.notify_appended()
                    self._acknowledgement.make_visible()
            end = self._commit_log.wrote_offset
        if self._sync_flush:
            self._acknowledgement.make_durable(end)
        else:
            self._acknowledgement.notify_appended()
        self._acknowledgement.make_visible()
        return AppendBatchResult(rows, begin if first < 0 else first, end)

    def append_commit(
        self,
        envelope: Callable[[int, int], RecordFields],
        chunks: Iterable[EncodedChunk],
        check: Callable[[], None] | None = None,
    ) -> AppendBatchResult:
        """Append an envelope, then all rows of `chunks`: see `MessageStore.append_commit`."""
        with self._put.lock:
            self._gate.check()
            if check is not None:
                check()
            begin, now_ms = self._commit_log.wrote_offset, self._log_append.tick()
            placer = ChunkPlacer(self._commit_log, self._offsets, self._topics, self._log_append.assigned, now_ms)
            with self._log_append.taken_back_on_error(begin):
                size = record_size(envelope(0, 0), self._config.append_prop_crc)
                phy_offset = placer.reserve(size)
                placed = []
                with ParallelWriter(
                    (AlignedChunkWriter if self._config.direct_io else ChunkWriter)(self._commit_log, now_ms),
                    (lambda: self._acknowledgement.flush_early(begin)) if self._sync_flush else None,
                ) as writer:
                    for chunk in chunks:
                        if not chunk.property_crc:
                            self._log_append.withdraw_record_crc()
                        placed.append(placer.place(chunk))
                        writer.submit(placed[-1])
                head = self._write_envelope(envelope(phy_offset, placer.end), phy_offset, size, now_ms)
                placer.offsets.advance(COMMIT_TOPIC, COMMIT_QUEUE_ID)
                # readers see no row before all rows: every part is confirmed by the end offset of the last
                rows: list[tuple[int, Dispatched]] = [(placer.end, head), *((placer.end, one.rows) for one in placed)]
            self._log_append.publish(placer, rows)
            if self._sync_flush:
                self._acknowledgement.make_durable(placer.end, NO_TIMEOUT_S)
            else:
                self._commit_log.commit()  # an acknowledged batch must outlive this process
            self._acknowledgement.make_visible()
        return AppendBatchResult(sum(len(one.sizes) for one in placed), phy_offset, placer.end)

    def _write_envelope(self, fields: RecordFields, phy_offset: int, size: int, now_ms: int) -> RunRows:
        queue_offset = self._offsets.next(COMMIT_TOPIC, COMMIT_QUEUE_ID)
        one = unplaced_record(fields, decode_properties(fields.properties), now_ms, RecordRules.of(self._config))
        assert one.size == size
        record = place_record(one.before, one.rest, queue_offset, phy_offset, self._config.append_prop_crc)
        self._commit_log.append(record, [(phy_offset, 0)])
        rows = RunRows(now_ms)
        rows.add((COMMIT_TOPIC, COMMIT_QUEUE_ID), queue_offset, phy_offset, size, one.tags_code, one.keys)
        return rows

    def _append_chunk(self, chunk: EncodedChunk) -> PlacedChunk:
        """Place, write and publish one chunk."""
        begin, now_ms = self._commit_log.wrote_offset, self._log_append.tick()
        placer = ChunkPlacer(self._commit_log, self._offsets, self._topics, self._log_append.assigned, now_ms)
        with self._log_append.taken_back_on_error(begin):
            placed = placer.place(chunk)
            ChunkWriter(self._commit_log, now_ms).write(placed)
        self._log_append.publish(placer, [(placed.end, placed.rows)])
        return placed


def commit_record_fields(config: StoreConfig, body: bytes, properties: bytes, now_ms: int) -> RecordFields:
    """Return the fields of an envelope's record in the commit topic; born and store host are the store's."""
    host = encode_host(config.store_host)
    return RecordFields(
        topic=COMMIT_TOPIC.encode(),
        queue_id=COMMIT_QUEUE_ID,
        body=body,
        properties=properties,
        flag=0,
        sys_flag=0,
        born_timestamp=now_ms,
        born_host=host,
        store_host=host,
    )
