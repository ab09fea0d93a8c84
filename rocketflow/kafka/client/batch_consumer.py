"""A consumer whose polls return record batches, which are decoded into columns many at a time.

kafka-python unpacks every record into an object before `poll` returns it, and no documented option returns batches.
Its fetcher creates one `PartitionRecords` per fetch response, whose `_unpack_records` iterates over the batches and
skips control batches and those of aborted transactions. This module replaces it by a subclass that yields complete
batches; kafka-python still manages positions, pauses, sessions and retries. If a kafka-python version has another
structure, or with `ROCKETFLOW_KAFKA_RECORDS=1`, columns are built from its records: the same rows, several times
slower.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

from rocketflow.environment import KAFKA_RECORDS
from rocketflow.kafka.client.partition_rows import KafkaRows, rows_of_records
from rocketflow.kafka.client.record_batches import RawBatch, decode_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_WANTED: Final = ["self", "tp", "records", "key_deserializer", "value_deserializer"]
BATCHES_AT_ONCE: Final = 400
RECORDS_AT_ONCE: Final = 20_000


def hand_out_batches(consumer: Any) -> bool:
    """Make `consumer.poll` return `RawBatch`es; return False, with nothing changed, if this client cannot."""
    if KAFKA_RECORDS.text() == "1":
        return False
    try:
        fetcher = consumer._fetcher
        original = type(fetcher).PartitionRecords
        if list(inspect.signature(original._unpack_records).parameters) != _WANTED:
            return False
        fetcher.PartitionRecords = _batch_records(original)
    except (AttributeError, TypeError, ValueError):
        return False
    return True


def rows_of(topic: str, partition: int, polled: Sequence[Any]) -> Iterator[KafkaRows]:
    """Yield the columns of a partition's poll result, in order: one item per run of batches or old-format records."""
    start = 0
    while start < len(polled):
        raw = isinstance(polled[start], RawBatch)
        stop = start
        while stop < len(polled) and isinstance(polled[stop], RawBatch) == raw:
            stop += 1
        run = polled[start:stop]
        found = decode_batches(topic, partition, run) if raw else rows_of_records(topic, partition, run)
        if len(found):
            yield found
        start = stop


def count_of(polled: Sequence[Any]) -> int:
    """Return the most messages that a partition's poll result can hold: gaps within a batch are unknown."""
    return sum(one.most_rows if isinstance(one, RawBatch) else 1 for one in polled)


def cut(polled: list[Any], rows: int, room: int) -> tuple[list[Any], list[Any]]:
    """Split a partition's poll result into (part for this commit, rest for the next one), in order.

    The first part has at most `rows` messages; a batch is split if necessary. It ends with the batch that reaches
    `room` bytes.
    """
    for at, one in enumerate(polled):
        if rows <= 0 or room <= 0:
            return polled[:at], polled[at:]
        if isinstance(one, RawBatch):
            if one.most_rows > rows:
                head, tail = one.split(rows)
                return [*polled[:at], head], [tail, *polled[at + 1 :]]
            rows, room = rows - one.most_rows, room - one.size
        else:
            rows, room = rows - 1, room - size_of({None: [one]})
    return polled, []


def size_of(polled: Mapping[Any, Sequence[Any]]) -> int:
    """Return the approximate size of a poll result in bytes."""
    total = 0
    for batches in polled.values():
        for one in batches:
            total += one.size if isinstance(one, RawBatch) else len(one.value or b"") + len(one.key or b"") + 64
    return total


def _batch_records(original: Any) -> Any:
    """Return a subclass of `original` that yields complete batches."""
    from kafka.errors import CorruptRecordError
    from kafka.protocol.consumer import IsolationLevel

    class BatchRecords(original):  # type: ignore[misc]
        """A fetch response of one partition, one batch at a time."""

        def _unpack_records(
            self, tp: Any, records: Any, key_deserializer: Any, value_deserializer: Any
        ) -> Iterator[Any]:
            batch = records.next_batch()
            while batch is not None:
                if batch.magic != 2:
                    yield from _old_records(self, tp, batch)
                else:
                    if self.check_crcs and not batch.validate_crc():
                        raise CorruptRecordError(f"record batch of {tp} at offset {batch.base_offset}: CRC differs")
                    self.leader_epoch = batch.leader_epoch
                    wanted = self._is_wanted(batch)
                    self.next_fetch_offset = batch.next_offset
                    if wanted and batch.records_count:
                        self.records_read += batch.records_count
                        self.bytes_read += batch.size_in_bytes
                        yield _raw_batch(batch, self.fetch_offset)
                batch = records.next_batch()
            self.drain()

        def _is_wanted(self, batch: Any) -> bool:
            if self.isolation_level == IsolationLevel.READ_COMMITTED and batch.has_producer_id():
                self._consume_aborted_transactions_up_to(batch.last_offset)
                if self._contains_abort_marker(batch):
                    self.aborted_producer_ids.discard(batch.producer_id)
                elif self._is_batch_aborted(batch):
                    return False
            return not batch.is_control_batch

    return BatchRecords


def _raw_batch(batch: Any, fetch_offset: int) -> RawBatch:
    iter(batch)  # decompresses; raises UnsupportedCodecError for a codec that is not installed
    return RawBatch(
        batch.base_offset,
        batch.last_offset,
        batch.first_timestamp,
        batch.max_timestamp,
        batch.timestamp_type == batch.LOG_APPEND_TIME,
        batch.records_count,
        memoryview(batch._buffer)[batch._pos :],
        fetch_offset,
    )


def _old_records(answer: Any, tp: Any, batch: Any) -> Iterator[Any]:
    """Yield the records of an old-format message set, advancing the fetch position of `answer`."""
    from kafka.consumer.fetcher import ConsumerRecord
    from kafka.errors import CorruptRecordError

    if answer.check_crcs and not batch.validate_crc():
        raise CorruptRecordError(f"message set of {tp} at offset {batch.base_offset}: CRC differs")
    for one in batch:
        if answer.check_crcs and not one.validate_crc():
            raise CorruptRecordError(f"message of {tp} at offset {one.offset}: CRC differs")
        answer.records_read += 1
        answer.bytes_read += one.size_in_bytes
        answer.next_fetch_offset = one.offset + 1
        yield ConsumerRecord(
            tp.topic, tp.partition, -1, one.offset, one.timestamp, one.timestamp_type, one.key, one.value,
            one.headers, one.checksum, -1, -1, -1,
        )  # fmt: skip
