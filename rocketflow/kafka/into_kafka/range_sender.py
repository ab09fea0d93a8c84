"""Send the messages of queue ranges in the producer's transaction; messages that Kafka refuses are quarantined."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from rocketflow.kafka.client import clients
from rocketflow.kafka.errors import MessageRefusedError
from rocketflow.kafka.into_kafka.refused_record import RefusedMessage, refused_record
from rocketflow.kafka.into_kafka.to_records import BODY_ERROR, COLUMNS, ProducerRows, body_errors, kafka_rows
from rocketflow.kafka.options.bridge_options import CONTINUE, QUARANTINE
from rocketflow.kafka.shared import property_names as names
from rocketflow_store import OnBadBody, RaiseFaults, SkipFaults

if TYPE_CHECKING:
    from rocketflow.kafka.into_kafka.kafka_topics import TargetTopics
    from rocketflow.kafka.options.bridge_options import BridgeOptions
    from rocketflow.kafka.shared.record_sizes import Header
    from rocketflow.kafka.shared.run_state import StopRequest
    from rocketflow_store import StoreReader
    from rocketflow_store.spi.reads import SkippedMessages

_READ_BYTES: Final = 2 << 20
_RECORD_OVERHEAD: Final = 128
_PROPERTIES_ROOM: Final = 64 << 10
"""More bytes than the key and headers of a stored message can have."""
_CLIENT_ROOM: Final = 512
"""More bytes than a client's estimate exceeds a message's real size, plus a key for a compacted quarantine topic."""


@dataclass(frozen=True, slots=True)
class QueueRange:
    """Messages [start, end) of one queue."""

    topic: str
    queue_id: int
    start: int
    end: int


@dataclass(slots=True)
class Sent:
    """The part of a range that is in the transaction; `following` is the next queue offset."""

    following: int
    rows: int = 0
    size: int = 0
    quarantined: int = 0
    lost: int = 0
    newest_ms: int = 0


class RangeSender:
    """Sends queue ranges through one producer at a time."""

    def __init__(self, options: BridgeOptions, reader: StoreReader, stop: StopRequest) -> None:
        self._options, self._reader, self._stop = options, reader, stop
        self._sent: list[tuple[QueueRange, pa.Array, list[Any]]] = []
        """The messages of the transaction: range, queue offsets, and kafka-python's futures, None if quarantined."""
        self._refused: dict[tuple[str, int], tuple[int, str]] = {}
        """The last message of each queue that Kafka has refused, and why."""

    def connect(self, kafka: TargetTopics, producer: Any) -> None:
        """Use this producer from now on."""
        self._kafka, self._producer = kafka, producer

    def begin(self) -> None:
        """Begin a transaction."""
        self._sent = []

    def take_suspect(self) -> tuple[QueueRange, int] | None:
        """Return range and queue offset of a message that Kafka has probably refused, once its producer is closed.

        What kafka-python had not sent by then fails with the error of the refused one, one object for all.
        """
        from kafka.errors import InvalidRecordError, InvalidTimestampError, MessageSizeTooLargeError

        refusals = (InvalidRecordError, InvalidTimestampError, MessageSizeTooLargeError)
        sent, self._sent = self._sent, []
        failed = [
            (one, int(offsets[at].as_py()), id(future.exception))
            for one, offsets, futures in sent
            for at, future in enumerate(futures)
            if future is not None and isinstance(future.exception, refusals)
        ]
        counts = Counter(error for _, _, error in failed)
        return min(failed, key=lambda one: counts[one[2]])[:2] if failed else None

    def refuse(self, one: QueueRange, why: str) -> None:
        """Send the message at the begin of a range no more."""
        self._refused[one.topic, one.queue_id] = one.start, why

    def send(self, one: QueueRange, target: str, room: int) -> Sent:
        """Send messages of a range until it ends or until they use this range's share of `room` bytes."""
        sent = Sent(following=one.start)
        skipped: list[SkippedMessages] = []
        fails = self._options.on_bad_body is OnBadBody.FAIL
        bad = OnBadBody.FAIL if fails else OnBadBody.RAW
        faults = SkipFaults(skipped.append, bad) if self._options.on_data_loss == CONTINUE else RaiseFaults(bad)
        columns = COLUMNS if fails else (*COLUMNS, BODY_ERROR)
        share = max(room // 4, min(room, _READ_BYTES))
        reads = self._reader.read(
            one.topic, one.queue_id, one.start, one.end, columns, max_batch_bytes=_READ_BYTES, faults=faults
        )
        for batch in reads:
            self._send_batch(one, target, batch, sent)
            sent.following = int(batch.column("queueOffset")[-1].as_py()) + 1
            sent.newest_ms = int(batch.column("storeTimestamp")[-1].cast(pa.int64()).as_py()) // 1000
            if sent.size >= share or self._stop.asked.is_set():
                break
        else:
            sent.following = one.end
        sent.lost = sum(some.count for some in skipped if some.queue_offset < sent.following)
        return sent

    def _send_batch(self, one: QueueRange, target: str, batch: pa.RecordBatch, sent: Sent) -> None:
        rows = kafka_rows(batch)
        offsets = batch.column("queueOffset")
        refused, why_refused = self._refused.get((one.topic, one.queue_id), (-1, ""))
        rows.faults.update(dict.fromkeys(np.flatnonzero(np.asarray(offsets) == refused).tolist(), why_refused))
        bad = body_errors(batch) if self._options.on_bad_body is OnBadBody.QUARANTINE else {}
        if self._options.origin_headers:
            for headers, offset in zip(rows.headers, offsets.to_pylist(), strict=True):
                headers.append((names.ORIGIN_HEADER, f"{one.topic}:{one.queue_id}:{offset}".encode()))
        sizes = np.diff(np.frombuffer(batch.column("body").buffers()[1], np.int32, batch.num_rows + 1,
                                      batch.column("body").offset * 4))  # fmt: skip
        limits, now_ms = self._kafka.limits(target), clients.now_ms()
        sent.size += int(sizes.sum()) + _RECORD_OVERHEAD * batch.num_rows
        sent.rows += batch.num_rows
        partition = None if self._options.by_key else one.queue_id
        count = self._kafka.partitions(target, 1 if partition is None else partition + 1)
        send, null = self._producer.send, clients.NULL
        nulls = _has_nulls(rows.headers)
        if nulls:
            clients.allow_null_headers()
        in_doubt = (
            nulls or bool(rows.faults) or bool(bad) or int(sizes.max(initial=0)) > limits.max_bytes - _PROPERTIES_ROOM
        )
        in_doubt = in_doubt or (limits.needs_keys and None in rows.keys)
        stamps = [stamp for stamp in rows.timestamps if stamp is not None] or [now_ms]
        in_doubt = in_doubt or any(limits.refusal_of_time(stamp, now_ms) for stamp in (min(stamps), max(stamps)))
        futures: list[Any] = [None] * batch.num_rows
        self._sent.append((one, offsets, futures))
        for at, (key, value, headers, stamp) in enumerate(
            zip(rows.keys, rows.values, rows.headers, rows.timestamps, strict=True)
        ):
            if at in bad:
                self._quarantine(one, batch, rows, at, f"its body cannot be decoded: {bad[at]}", sent)
                continue
            if in_doubt:
                why = rows.faults.get(at) or limits.refusal_of_parts(key, value, headers)
                why = why or limits.refusal_of_time(stamp, now_ms)
                if why is not None:
                    self._check_refused(one, batch, at, why)
                    self._quarantine(one, batch, rows, at, why, sent)
                    continue
                headers = [clients.NullHeader(name) if item is None else (name, item) for name, item in headers]
            if partition is None and key is None:
                place: int | None = one.queue_id % count
            else:
                place = partition
            futures[at] = send(target, null if value is None else value, key, headers, place, stamp)

    def _check_refused(self, one: QueueRange, batch: pa.RecordBatch, at: int, why: str) -> None:
        """Raise MessageRefusedError, unless refused messages are quarantined."""
        offset = batch.column("queueOffset")[at].as_py()
        if self._options.on_refused != QUARANTINE:
            raise MessageRefusedError(
                f"topic {one.topic} queue {one.queue_id} queue offset {offset}: {why}; give --on-refused quarantine to "
                "skip such messages (or, if they are too large, raise max.message.bytes and --kafka-option "
                "max_request_size)"
            )

    def _quarantine(
        self, one: QueueRange, batch: pa.RecordBatch, rows: ProducerRows, at: int, why: str, sent: Sent
    ) -> None:
        """Send the record of a message that is not copied to the quarantine topic."""
        offset = batch.column("queueOffset")[at].as_py()
        topic = self._options.quarantine_topic
        self._kafka.partitions(topic, 1)
        limits = self._kafka.limits(topic)
        origin = f"{one.topic}:{one.queue_id}:{offset}"
        refused = RefusedMessage(origin, rows.keys[at], rows.values[at], rows.headers[at], rows.timestamps[at])
        kept = refused_record(refused, why, limits.max_bytes - _CLIENT_ROOM)
        clients.allow_null_headers()
        headers = [clients.NullHeader(name) if item is None else (name, item) for name, item in kept.headers]
        key = origin.encode() if kept.key is None and limits.needs_keys else kept.key
        self._producer.send(topic, kept.value, key, headers, 0)
        sent.quarantined += 1


def _has_nulls(headers: list[list[Header]]) -> bool:
    return any(item is None for one in headers for _, item in one)
