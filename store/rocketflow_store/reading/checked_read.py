"""Reads of a queue for a broker: the bytes of records in a private copy, each checked there, with no object a message.

Records are read with `preadv` instead of through the map: a copy cannot change or disappear under the caller, and with
RWF_NOWAIT the call returns at once where the disk would be waited for.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np
from isal.isal_zlib import crc32

from rocketflow_store.format.consume_queue_unit import LOST_TAGS_CODE, PRE_BLANK_SIZE, UNIT_SIZE
from rocketflow_store.format.lmq_properties import lmq_units
from rocketflow_store.format.properties import decode_properties
from rocketflow_store.format.record import (
    MAGIC_V1,
    MAX_V1_TOPIC_SIZE,
    MIN_RECORD_SIZE,
    PROPERTY_CRC_NAME,
    PROPERTY_CRC_SIZE,
)
from rocketflow_store.model.errors import StoreError, WouldBlockError
from rocketflow_store.model.java_compat import string_hash
from rocketflow_store.model.property_names import PROPERTY_TAGS
from rocketflow_store.model.status import GetMessageStatus
from rocketflow_store.model.system_flags import BORN_HOST_V6_FLAG
from rocketflow_store.reading.get_message import refusal
from rocketflow_store.reading.queue_identity import queue_identity
from rocketflow_store.reading.skipped import NO_LOG_FILE, NO_UNIT, SkippedMessages
from rocketflow_store.reading.sound_records import MAX_GAP, MAX_SPAN, UnitRows, as_list, is_like_crc, sound_records
from rocketflow_store.reading.tag_codes import low_half
from rocketflow_store.records.arrow.unit_types import UNIT_DTYPE
from rocketflow_store.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.reading.queue_table import QueueTable
    from rocketflow_store.reading.tag_codes import ConfirmedTagCodes, TagCodes
    from rocketflow_store.records.decoding.decode import QueueIdentity
    from rocketflow_store.settings.store_config import StoreConfig
    from rocketflow_store.views.queues.batch_consume_queue import BatchConsumeQueue
    from rocketflow_store.views.queues.consume_queue import ConsumeQueue

    Unit = tuple[int, int, int, int, int, bool]
    """Queue offset, physical offset, size, tags code, messages, and True if the code alone decides that it matches."""

_HEAD: Final = struct.Struct(">iiiiiqqi")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_BODY_AT: Final = 88
_SYS_FLAG_AT: Final = 39
"""The low byte of sysFlag."""
_STORE_TIME_AT: Final = 56
_MORE_FOR_V6: Final = (0, 12, 12, 24)
"""Bytes that IPv6 hosts take in addition, by the two flags of sysFlag."""
_NOTHING: Final = memoryview(b"")
_TOGETHER: Final = 16
"""So many records and more are checked together."""
_LARGE: Final = 4 << 20
"""From this size on a record's own size is compared before room for it is made: a damaged unit says anything."""
_FILTERED_AT_ONCE: Final = 32
"""Number of records that are read at once if their properties decide."""
_ANOTHER: Final = "its unit points at a record that is another message"
_SHORT: Final = "its unit points at bytes that are no record"


class Match(NamedTuple):
    """The messages that a read wants: by tags code (None: any), and by their property string (None: any)."""

    tags_codes: frozenset[int] | None = None
    properties: Callable[[memoryview], bool] | None = None
    """Called with the encoded properties of a checked record; the view is valid during the call."""


ANY_MESSAGE: Final = Match()


@dataclass(slots=True)
class ReadResult:
    """Outcome of a read; `data` holds the records as they are stored, one after the other, and belongs to the caller.

    `offsets` are their queue offsets (of a batch: that of its first message).
    `skipped` names messages before `next_offset` that are missing or damaged.
    """

    status: GetMessageStatus
    next_offset: int
    min_offset: int
    max_offset: int
    count: int = 0
    """Messages in `data`; those of an inner batch count each."""
    data: bytes | bytearray = b""
    offsets: Sequence[int] = ()
    newest_store_ms: int = -1
    """Store time (ms) of the last record; -1 without one."""
    on_disk: bool = False
    """True if the read is further from the log's end than memory holds (`accessMessageInMemoryMaxRatio`)."""
    skipped: Sequence[SkippedMessages] = ()


@dataclass(slots=True)
class _Reading:
    """State of one read of the queue `identity`."""

    identity: QueueIdentity
    topic_part: bytes
    """Length and name of the topic, as a record has them; empty if a record has to be looked at in full."""
    match: Match
    confirmed: ConfirmedTagCodes
    nowait: bool
    following: int
    log_end: int
    last: int
    status: GetMessageStatus = GetMessageStatus.NO_MATCHED_MESSAGE
    """The status if no message is found."""
    count: int = 0
    total: int = 0
    newest: memoryview = _NOTHING
    """The last record."""
    newest_store_ms: int = -1
    is_cold: bool = False
    pieces: list[memoryview] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    skipped: list[SkippedMessages] = field(default_factory=list)

    def skip(self, at: int, count: int, phy_offset: int, why: str) -> None:
        self.skipped.append(SkippedMessages(at, count, phy_offset, why))
        self.status = GetMessageStatus.MESSAGE_WAS_REMOVING

    def accept(self, view: memoryview, start: int, at: int, size: int, messages: int) -> None:
        self.newest = piece = view[start : start + size]
        self.pieces.append(piece)
        self.offsets.append(at)
        self.total += size
        self.count += messages

    def accept_all(self, records: bytes | bytearray, offsets: list[int], last: int, last_size: int) -> None:
        """Accept records that lie one after the other, the last from `last` of the log, as the first of a result."""
        view = memoryview(records)
        self.pieces, self.total, self.newest = [view], len(view), view[-last_size:]
        self.offsets, self.count = offsets, len(offsets)
        self.following, self.last = offsets[-1] + 1, last

    def data(self) -> bytes | bytearray:
        if not self.pieces:
            return b""
        more = 12 if self.newest[_SYS_FLAG_AT] & BORN_HOST_V6_FLAG else 0
        (self.newest_store_ms,) = _INT64.unpack_from(self.newest, _STORE_TIME_AT + more)
        whole = self.newest.obj
        if isinstance(whole, (bytes, bytearray)) and len(whole) == self.total:
            return whole  # all records are in one copy, without gaps
        return b"".join(self.pieces)


class CheckedReader:
    """Reads of one store, whose log ends at `log_end()`."""

    def __init__(
        self,
        log: CommitLogView,
        queues: QueueTable,
        config: StoreConfig,
        tag_codes: TagCodes,
        log_end: Callable[[], int],
    ) -> None:
        self._log, self._queues, self._config, self._log_end = log, queues, config, log_end
        self._tag_codes = tag_codes
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._in_memory_bytes = memory * config.access_message_in_memory_max_ratio // 100

    def read(
        self, topic: str, queue_id: int, offset: int, max_count: int, max_bytes: int, match: Match, *, nowait: bool
    ) -> ReadResult:
        """Read messages of a queue from `offset`: see `WritingStore.read_messages`."""
        plain = self._queues.find(topic, queue_id)
        queue = plain or self._queues.find_batch(topic, queue_id)
        if queue is None:
            return ReadResult(GetMessageStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        low, high = self._queues.bounds(topic, queue_id, nowait=nowait)
        refused = refusal(offset, low, high)
        if refused is not None:
            return ReadResult(*refused, low, high)
        identity, log_end = queue_identity(self._config, topic, queue_id), self._log_end()
        raw = topic.encode()
        part = bytes([len(raw)]) + raw if identity.exact and len(raw) <= MAX_V1_TOPIC_SIZE else b""
        reading = _Reading(
            *(identity, part, match, self._tag_codes.of(topic), nowait, offset, log_end, log_end),
        )
        units, end = self._units(plain, queue, reading, offset, high, max_count)
        stopped = self._read_all(reading, units, max_count, max_bytes)
        if reading.is_cold and not reading.offsets:
            raise WouldBlockError(self._queues.paths.commit_log)
        if not stopped and end > reading.following:
            reading.following = end
        if reading.following == offset:  # its file is missing: continue with the next
            reading.status, reading.following = GetMessageStatus.OFFSET_FOUND_NULL, queue.next_known(offset, high)
            reading.skipped.append(SkippedMessages(offset, reading.following - offset, -1, NO_UNIT))
        data = reading.data()
        return ReadResult(
            GetMessageStatus.FOUND if reading.offsets else reading.status,
            reading.following,
            low,
            high,
            reading.count,
            data,
            reading.offsets,
            reading.newest_store_ms,
            log_end - reading.last > self._in_memory_bytes,
            self._reported(identity, reading.skipped) if reading.skipped else (),
        )

    def _units(
        self,
        plain: ConsumeQueue | None,
        queue: ConsumeQueue | BatchConsumeQueue,
        reading: _Reading,
        offset: int,
        high: int,
        max_count: int,
    ) -> tuple[list[Unit] | UnitRows, int]:
        """Return the units whose records may match, and the queue offset before which all others do not."""
        codes = reading.match.tags_codes
        if plain is None:
            steps = list(cast("BatchConsumeQueue", queue).steps(offset, high, max_count, nowait=reading.nowait))
            end = steps[-1][0] + steps[-1][4] if steps else offset
            return [(*one, codes is None or low_half(one[3]) in codes) for one in steps], end
        if codes is None and reading.match.properties is None:
            end = min(high, plain.next_file(offset), offset + max(max_count, 1))
        else:
            end = plain.steps_end(offset, high, max_count)
        raw = plain.unit_bytes(offset, end, nowait=reading.nowait)
        count = len(raw) // UNIT_SIZE
        end = offset + count
        if codes is None:
            return UnitRows(raw[: count * UNIT_SIZE], range(offset, end)), end
        found = np.frombuffer(raw, UNIT_DTYPE, count)
        low = found["tags_code"].astype(np.int64).astype(np.int32)
        sure = np.isin(low, np.array(sorted(codes), np.int32))
        sizes = found["msg_size"]
        doubted = ~reading.confirmed.mask(low) | (found["tags_code"] == LOST_TAGS_CODE)
        doubted |= (found["tags_code"] != low) | (sizes <= 0) | (sizes == PRE_BLANK_SIZE)
        doubted |= plain.misplaced(offset, end)
        rows = np.flatnonzero(sure | doubted)
        return UnitRows(found[rows].tobytes(), offset + rows, sure[rows]), end

    def _read_all(self, reading: _Reading, units: list[Unit] | UnitRows, max_count: int, max_bytes: int) -> bool:
        """Read units until the result is full; return True if it is, or if the rest is not in memory."""
        if isinstance(units, UnitRows):
            taken = self._read_together(reading, units, max_count, max_bytes)
            if taken == len(units.offsets):
                return False
            if 0 < taken == max_count:
                return True
            units = units.fields(taken)
        at, min_phy_offset, removed_until = 0, self._log.min_phy_offset, -1
        while at < len(units):
            span, stop = self._next_span(reading, units, at, max_count, max_bytes)
            if not span:
                return True
            mapped = self._log.file_at(span[0][1])
            if span[0][1] < removed_until or mapped is None:
                for one in span:
                    why = NO_UNIT if one[1] == 0 and one[2] == 0 else NO_LOG_FILE
                    self._examined(reading, one)
                    reading.skip(one[0], one[4], one[1], why)
                if mapped is None and span[0][1] < min_phy_offset:
                    removed_until = (span[0][1] // self._log.file_size + 1) * self._log.file_size
            elif not self._read_span(reading, mapped, span):
                return True
            at = stop
        return False

    def _read_together(self, reading: _Reading, rows: UnitRows, max_count: int, max_bytes: int) -> int:
        """Read the first units by one call, and check their records together; return how many of them were taken.

        If anything is unusual it is none: then they are read one by one.
        """
        if len(rows.offsets) < _TOGETHER or not reading.topic_part or reading.match.properties is not None:
            return 0
        begin = rows.place(0)
        mapped = self._log.file_at(begin)
        if mapped is None:
            return 0
        count, size = limits = self._limits(reading.log_end - begin)
        room = min(mapped.file_from_offset + mapped.file_size - begin, MAX_SPAN)
        first, span = rows.first_span(min(count, max_count), min(size, max_bytes), room)
        taken = len(first.offsets)
        if taken < _TOGETHER:
            return 0
        last = first.place(taken - 1)
        if self._limits(reading.log_end - last) != limits:
            return 0
        raw = bytearray(span)
        try:
            got = mapped.read_into(begin - mapped.file_from_offset, raw, nowait=reading.nowait)
        except StoreError:
            return 0
        if got < span:
            return 0
        records = sound_records(
            raw, first, reading.identity.queue_id, reading.topic_part, self._log.may_require_record_crc
        )
        if records is None:
            return 0
        reading.accept_all(records, as_list(first.offsets), last, begin + span - last)
        return taken

    def _next_span(
        self, reading: _Reading, units: list[Unit], at: int, max_count: int, max_bytes: int
    ) -> tuple[list[Unit], int]:
        """Return the next units that one call reads, and the number after the last; none if the result is full."""
        count, total, found = reading.count, reading.total, bool(reading.offsets)
        span: list[Unit] = []
        file_size, end = self._log.file_size, 0
        most = _FILTERED_AT_ONCE if reading.match.properties is not None else len(units)
        for number in range(at, min(len(units), at + most)):
            unit = units[number]
            _, phy_offset, size, _, messages, _ = unit
            if (found or span) and (
                count + messages > max_count
                or total + size > max_bytes
                or self._is_past_transfer_limits(count + 1, total + size, reading.log_end - phy_offset)
            ):
                return span, number
            if span and not (
                min(size, span[-1][2]) >= MIN_RECORD_SIZE
                and end <= phy_offset <= end + MAX_GAP
                and phy_offset + size - span[0][1] <= MAX_SPAN
                and phy_offset // file_size == span[0][1] // file_size
            ):
                return span, number
            span.append(unit)
            end = phy_offset + size
            count, total = count + messages, total + size
        return span, at + len(span)

    def _is_past_transfer_limits(self, count: int, total: int, away: int) -> bool:
        """Return True if RocketMQ's limits forbid a result of `total` bytes with a record `away` from the log's end."""
        most, most_bytes = self._limits(away)
        return total > most_bytes or count > most

    def _limits(self, away: int) -> tuple[int, int]:
        """Return RocketMQ's limits of messages and bytes of a result with a record `away` from the log's end."""
        config = self._config
        if away <= self._in_memory_bytes:
            return config.max_transfer_count_on_message_in_memory, config.max_transfer_bytes_on_message_in_memory
        return config.max_transfer_count_on_message_in_disk, config.max_transfer_bytes_on_message_in_disk

    @staticmethod
    def _examined(reading: _Reading, unit: Unit) -> None:
        at, phy_offset, _, _, messages, _ = unit
        if at > reading.following and reading.match.tags_codes is None:
            reading.skip(reading.following, at - reading.following, -1, NO_UNIT)
        reading.following, reading.last = at + messages, phy_offset

    def _read_span(self, reading: _Reading, mapped: MappedFile, span: list[Unit]) -> bool:
        """Read and check the records of units; return False if one is not in memory, and the caller does not wait."""
        begin = span[0][1]
        position = begin - mapped.file_from_offset
        size = span[-1][1] + max(span[-1][2], 0) - begin
        if len(span) == 1 and (size < MIN_RECORD_SIZE or size > mapped.file_size - position or size == PRE_BLANK_SIZE):
            self._examined(reading, span[0])
            why = NO_UNIT if begin == 0 or size <= 0 or size == PRE_BLANK_SIZE else _SHORT
            reading.skip(span[0][0], span[0][4], begin, why)
            return True
        if size >= _LARGE and not self._is_as_large(reading, mapped, position, size):
            if not reading.is_cold:
                self._examined(reading, span[0])
                reading.skip(span[0][0], span[0][4], begin, _SHORT)
            return not reading.is_cold
        raw = bytearray(size)
        try:
            got = mapped.read_into(position, raw, nowait=reading.nowait)
        except StoreError as error:
            for one in span:
                self._examined(reading, one)
                reading.skip(one[0], one[4], one[1], str(error))
            return True
        view, asks = memoryview(raw), reading.match.properties is not None
        for one in span:
            start = one[1] - begin
            if start + one[2] > got:
                if reading.nowait:
                    reading.is_cold = True
                    return False
                self._examined(reading, one)
                reading.skip(one[0], one[4], one[1], _SHORT)
                continue
            if one[5] and not asks and one[0] <= reading.following:  # the usual case, without another call
                found = self._properties_at(reading, raw, view, start, one)
                if found.__class__ is int:
                    reading.following, reading.last = one[0] + one[4], one[1]
                    reading.accept(view, start, one[0], one[2], one[4])
                    continue
            self._take(reading, raw, view, start, one)
        return True

    def _is_as_large(self, reading: _Reading, mapped: MappedFile, position: int, size: int) -> bool:
        head = bytearray(4)
        got = mapped.read_into(position, head, nowait=reading.nowait)
        reading.is_cold = reading.nowait and got < len(head)
        return got == len(head) and int.from_bytes(head, "big") == size

    def _take(self, reading: _Reading, raw: bytearray, view: memoryview, start: int, unit: Unit) -> None:
        """Check the record at `start`, and take it if it matches."""
        self._examined(reading, unit)
        at, phy_offset, size, code, messages, is_sure = unit
        found = self._properties_at(reading, raw, view, start, unit)
        if isinstance(found, str):
            reading.skip(at, messages, phy_offset, found)
            return
        match = reading.match
        if not is_sure:
            tags = decode_properties(bytes(view[found : start + size])).get(PROPERTY_TAGS)
            of_record = string_hash(tags) if tags else 0
            if match.tags_codes is not None and of_record not in match.tags_codes:
                if of_record == code:
                    reading.confirmed.add({code})
                reading.status = GetMessageStatus.NO_MATCHED_MESSAGE
                return
        if match.properties is not None and not match.properties(view[found : start + size]):
            reading.status = GetMessageStatus.NO_MATCHED_MESSAGE
            return
        reading.accept(view, start, at, size, messages)

    def _properties_at(self, reading: _Reading, raw: bytearray, view: memoryview, start: int, unit: Unit) -> int | str:
        """Return where the properties of a sound record begin, or what is wrong with it."""
        at, phy_offset, size, _, _, _ = unit
        total, magic, body_crc, queue_id, _, queue_offset, own_offset, sys_flag = _HEAD.unpack_from(raw, start)
        part = reading.topic_part
        if (
            part
            and total == size
            and magic == MAGIC_V1
            and queue_offset == at
            and own_offset == phy_offset
            and queue_id == reading.identity.queue_id
        ):
            body_at, end = start + _BODY_AT + _MORE_FOR_V6[sys_flag >> 4 & 3], start + size
            body_size: int = _INT32.unpack_from(raw, body_at - 4)[0]
            topic_at = body_at + body_size
            topic_end = topic_at + len(part)
            if body_size >= 0 and topic_end + 2 <= end and raw[topic_at:topic_end] == part:
                found = topic_end + 2
                if found + (raw[topic_end] << 8 | raw[topic_end + 1]) == end:
                    crc_at = end - PROPERTY_CRC_SIZE
                    if crc_at >= found and raw.startswith(PROPERTY_CRC_NAME, crc_at):
                        digits = b"\x02%010d" % (crc32(view[start:crc_at]) & 0x7FFFFFFF)
                        if raw.endswith(digits[::-1], crc_at, end):
                            return found
                    elif (
                        end > found
                        and raw[end - 1]
                        and (crc_at < found or not is_like_crc(raw[crc_at:end]))
                        and crc32(view[body_at:topic_at]) & 0x7FFFFFFF == body_crc
                        and not self._log.may_require_record_crc(phy_offset, phy_offset)
                    ):
                        return found
        return self._properties_in_full(reading, view, start, unit)

    def _properties_in_full(self, reading: _Reading, view: memoryview, start: int, unit: Unit) -> int | str:
        """Return what `_properties_at` does for records of every kind, and the reason for damaged ones."""
        at, phy_offset, size, _, _, _ = unit
        identity = reading.identity
        try:
            frame = self._log.check_copy(view[: start + size], start, phy_offset)
        except StoreError as error:
            return str(error)
        if frame.size != size:
            return _ANOTHER
        if not identity.exact:  # an LMQ: the record is another topic's, and names it
            properties = decode_properties(bytes(view[frame.topic_end + 2 : frame.end]))
            return frame.topic_end + 2 if (identity.topic, at) in lmq_units(properties) else _ANOTHER
        is_right = frame.queue_id == identity.queue_id and frame.queue_offset == at
        if not is_right or view[frame.topic_start : frame.topic_end] != identity.topic.encode():
            return _ANOTHER
        return frame.topic_end + 2

    def _reported(self, identity: QueueIdentity, skipped: list[SkippedMessages]) -> list[SkippedMessages]:
        """Report and return those of `skipped` that retention did not remove meanwhile."""
        low, _ = self._queues.bounds(identity.topic, identity.queue_id)
        kept = [one for one in skipped if one.queue_offset + one.count > low]
        if kept:
            paths, count = self._queues.paths, sum(one.count for one in kept)
            place = f"{identity.topic}-{identity.queue_id}"
            events.report(events.SKIPPED, paths.root, place, kept[0].why, offset=kept[0].queue_offset, count=count)
        return kept
