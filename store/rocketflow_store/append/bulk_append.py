"""Many rows at once: Arrow batches, and sink commits (an envelope with all its rows behind it, seen at one instant)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rocketflow_store.append.aligned_write import AlignedChunkWriter
from rocketflow_store.append.chunk_append import ChunkPlacer, ChunkWriter, ParallelWriter, PlacedChunk
from rocketflow_store.format.properties import decode_properties
from rocketflow_store.format.record import RecordFields, encode_record, record_size
from rocketflow_store.log.group_flush import WHATEVER_IT_TAKES_S
from rocketflow_store.metadata.native.commit_envelope import COMMIT_QUEUE_ID, COMMIT_TOPIC
from rocketflow_store.model.errors import StoreFencedError
from rocketflow_store.model.message_id import encode_host
from rocketflow_store.model.results import AppendBatchResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from rocketflow_store.append.put_path import PutPath
    from rocketflow_store.engine.opening import StoreParts
    from rocketflow_store.records.decoding.dispatch_rows import DispatchRow
    from rocketflow_store.records.encoding.encode import EncodedChunk
    from rocketflow_store.settings.store_config import StoreConfig
    from rocketflow_store.telemetry.statistics import StoreStatistics
    from rocketflow_store.views.dispatch.confirmed_dispatch import ConfirmedDispatch, Dispatched

_UNITS_AT_ONCE: Final = 128
"""A batch over many queues is dispatched once so many of its rows a queue wait: a write costs more than its bytes."""


class BulkAppend:
    """Appends chunks under the put lock of `put`."""

    def __init__(
        self, parts: StoreParts, put: PutPath, dispatch: ConfirmedDispatch, statistics: StoreStatistics
    ) -> None:
        self._put, self._dispatch, self._statistics = put, dispatch, statistics
        self._config, self._sync_flush = parts.config, parts.sync_flush
        self._commit_log, self._flush, self._fence = parts.commit_log, parts.flush, parts.fence
        self._offsets, self._topics = parts.offsets, parts.topics

    def append_batch(self, batch: pa.RecordBatch | pa.Table, topic: str | None) -> AppendBatchResult:
        """Append every row of an Arrow batch: see `MessageStore.append_batch`."""
        from rocketflow_store.records.encoding.encode import BatchEncoder

        put = self._put
        encoder = BatchEncoder(self._config, self._topics.queue_count, default_topic=topic)
        first, rows, waiting = -1, 0, 0
        with put.lock:
            put.check_writable()
            put.assigned.check_light_queues(encoder.validate(batch))
            begin = self._commit_log.wrote_offset
            for chunk in encoder.encode(batch, now_ms=put.tick(), next_queue=put.next_queue):
                placed = self._append_chunk(chunk)
                first = int(placed.phy_offsets[0]) if first < 0 else first
                rows += len(chunk.sizes)
                waiting += len(chunk.sizes)
                if not self._sync_flush and waiting >= _UNITS_AT_ONCE * len(placed.rows.queues):
                    waiting = 0
                    if put.appended is not None:
                        put.appended()
                    self._dispatch.follow()
            end = self._commit_log.wrote_offset
        if self._sync_flush:
            self._flush.make_durable(end, self._config.sync_flush_timeout / 1000)
        elif put.appended is not None:
            put.appended()
        self._dispatch.follow()
        return AppendBatchResult(rows, begin if first < 0 else first, end)

    def append_commit(
        self,
        envelope: Callable[[int, int], RecordFields],
        chunks: Iterable[EncodedChunk],
        check: Callable[[], None] | None = None,
    ) -> AppendBatchResult:
        """Append an envelope and all rows of `chunks` behind it: see `MessageStore.append_commit`."""
        with self._put.lock:
            self._put.check_writable()
            if check is not None:
                check()
            begin, now_ms = self._commit_log.wrote_offset, self._put.tick()
            placer = ChunkPlacer(self._commit_log, self._offsets, self._topics, self._put.assigned, now_ms)
            with self._taken_back_on_error(begin):
                size = record_size(envelope(0, 0), self._config.append_prop_crc)
                phy_offset = placer.reserve(size)
                placed = []
                with ParallelWriter(
                    (AlignedChunkWriter if self._config.direct_io else ChunkWriter)(self._commit_log, now_ms),
                    (lambda: self._flush.flush_early(begin)) if self._sync_flush else None,
                ) as writer:
                    for chunk in chunks:
                        if not chunk.property_crc:
                            self._dispatch.confirm_file.record_without_crc()
                        placed.append(placer.place(chunk))
                        writer.submit(placed[-1])
                head = self._write_envelope(envelope(phy_offset, placer.end), phy_offset, size, now_ms)
                placer.offsets.advance(COMMIT_TOPIC, COMMIT_QUEUE_ID)
                # no row may be seen before all of them are: every part is confirmed by the end of the last
                rows: list[tuple[int, Dispatched]] = [(placer.end, [head]), *((placer.end, one.rows) for one in placed)]
            self._publish(placer, rows)
            if self._sync_flush:
                self._flush.make_durable(placer.end, WHATEVER_IT_TAKES_S)
            else:
                self._commit_log.commit()  # a batch that was answered for outlives this process
            self._dispatch.follow()
        return AppendBatchResult(sum(len(one.sizes) for one in placed), phy_offset, placer.end)

    def _write_envelope(self, fields: RecordFields, phy_offset: int, size: int, now_ms: int) -> DispatchRow:
        queue_offset = self._offsets.next(COMMIT_TOPIC, COMMIT_QUEUE_ID)
        record = encode_record(fields, phy_offset, queue_offset, now_ms, self._config.append_prop_crc)
        assert len(record) == size
        self._commit_log.append(record, [(phy_offset, 0)])
        return self._put.row(fields, decode_properties(fields.properties), phy_offset, size, queue_offset, now_ms)

    def _append_chunk(self, chunk: EncodedChunk) -> PlacedChunk:
        """Place, write and publish one chunk."""
        begin, now_ms = self._commit_log.wrote_offset, self._put.tick()
        placer = ChunkPlacer(self._commit_log, self._offsets, self._topics, self._put.assigned, now_ms)
        with self._taken_back_on_error(begin):
            placed = placer.place(chunk)
            ChunkWriter(self._commit_log, now_ms).write(placed)
        self._publish(placer, [(placed.end, placed.rows)])
        return placed

    @contextmanager
    def _taken_back_on_error(self, begin: int) -> Iterator[None]:
        """What was written behind `begin` goes where the block fails; a failed sync fences the store."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, StoreFencedError):
                self._fence.close(error)
            self._commit_log.undo(begin)
            raise

    def _publish(self, placer: ChunkPlacer, rows: list[tuple[int, Dispatched]]) -> None:
        try:
            self._commit_log.publish(placer.end)  # before the offsets: none is known of what is not in the log
            self._offsets.join(placer.offsets)
            placer.publish_light()
            self._dispatch.extend(rows)
        except BaseException as error:
            self._put.fence_half_published(error)
            raise
        self._statistics.put_times += placer.count


def commit_record_fields(config: StoreConfig, body: bytes, properties: bytes, now_ms: int) -> RecordFields:
    """The record of an envelope: a message of the commit topic from this store to itself."""
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
