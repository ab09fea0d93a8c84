"""RocketMQ's getMessage: from the units of a queue to slices of the log, within the transfer limits."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.filters.tags import TagFilter
from rocketflow_store.format.consume_queue_unit import LOST_TAGS_CODE, MAX_EXT_ADDRESS, PRE_BLANK_SIZE
from rocketflow_store.format.lmq_properties import lmq_units
from rocketflow_store.format.properties import decode_properties
from rocketflow_store.model.errors import StoreError
from rocketflow_store.model.java_compat import string_hash
from rocketflow_store.model.property_names import PROPERTY_TAGS
from rocketflow_store.model.status import GetMessageStatus
from rocketflow_store.reading.get_message_result import GetMessageResult, SelectMappedBufferResult
from rocketflow_store.reading.queue_identity import queue_identity
from rocketflow_store.reading.skipped import NO_LOG_FILE, NO_UNIT, SkippedMessages
from rocketflow_store.reading.tag_codes import low_half
from rocketflow_store.views.queues.consume_queue_ext import ConsumeQueueExt

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketflow_store.files.mapped.mapped_file import FileHold
    from rocketflow_store.format.record import RecordFrame
    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.reading.queue_table import QueueTable
    from rocketflow_store.reading.tag_codes import ConfirmedTagCodes, TagCodes
    from rocketflow_store.records.decoding.decode import QueueIdentity
    from rocketflow_store.settings.store_config import StoreConfig
    from rocketflow_store.views.queues.batch_consume_queue import BatchConsumeQueue
    from rocketflow_store.views.queues.consume_queue import ConsumeQueue

_MAX_TRANSFER_BYTES: Final = 128 << 20
_LENGTH: Final = struct.Struct(">H")
_ANOTHER: Final = "its unit points at a record that is another message"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Request of one get: up to `max_count` messages of the queue `identity` with wanted tags.

    `confirmed` are the topic's tags codes that are believed, except at the queue offsets `misplaced`.
    """

    identity: QueueIdentity
    tag_filter: TagFilter
    max_count: int
    confirmed: ConfirmedTagCodes
    misplaced: set[int]


@dataclass(slots=True)
class _Gathered:
    """Result of one get: `following` is the next queue offset, `last` the physical offset of the last unit's record."""

    selection: _Selection
    following: int
    last: int
    status: GetMessageStatus = GetMessageStatus.NO_MATCHED_MESSAGE
    skipped: list[SkippedMessages] = field(default_factory=list)


class MessageGetter:
    """Gets from one store, which ends at `log_end()`."""

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
        self._ext = ConsumeQueueExt(queues.paths.consume_queue_ext, config.mapped_file_size_consume_queue_ext)
        self._in_memory_bytes = _memory_bytes() * config.access_message_in_memory_max_ratio // 100

    def get(self, topic: str, queue_id: int, offset: int, max_count: int, tags: str | None) -> GetMessageResult:
        """Return up to `max_count` messages of a queue from `offset`.

        A record must claim to be the message, and its CRC must be right. Missing and damaged messages are skipped, and
        listed by the result's `skipped`.
        """
        plain = self._queues.find(topic, queue_id)
        queue = plain or self._queues.find_batch(topic, queue_id)
        low, high = self._queues.bounds(topic, queue_id)
        if queue is None:  # RocketMQ's look-up creates the queue, and answers as for an empty one
            return GetMessageResult(GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        refused = refusal(offset, low, high)
        if refused is not None:
            return GetMessageResult(*refused, low, high)
        identity, tag_filter = queue_identity(self._config, topic, queue_id), TagFilter.parse(tags)
        misplaced: set[int] = set()
        if plain is not None and not tag_filter.matches_all:
            doubted = plain.misplaced(offset, plain.steps_end(offset, high, max_count))
            misplaced = {offset + at for at in np.flatnonzero(doubted).tolist()}
        wanted = _Wanted(identity, tag_filter, max_count, self._tag_codes.of(topic), misplaced)
        log_end = self._log_end()
        gathered = self._gather(queue, wanted, offset, high, log_end)
        if gathered.following == offset:  # its file was deleted: continue with the next
            gathered.status, gathered.following = GetMessageStatus.OFFSET_FOUND_NULL, queue.next_known(offset, high)
            gathered.skipped.append(SkippedMessages(offset, gathered.following - offset, -1, NO_UNIT))
        return GetMessageResult(
            gathered.status,
            gathered.following,
            low,
            high,
            gathered.selection.found,
            skipped=self._not_removed(identity, gathered.skipped) if gathered.skipped else (),
            suggest_pulling_from_slave=log_end - gathered.last > self._in_memory_bytes,
        )

    def _gather(
        self, queue: ConsumeQueue | BatchConsumeQueue, wanted: _Wanted, offset: int, high: int, log_end: int
    ) -> _Gathered:
        """Select the records of queue offsets [`offset`, `high`) until the answer is full."""
        tag_filter, topic, queue_id = wanted.tag_filter, wanted.identity.topic, wanted.identity.queue_id
        max_count, confirmed, misplaced = wanted.max_count, wanted.confirmed, wanted.misplaced
        min_phy_offset = self._log.min_phy_offset
        selection, total, count, removed_until = _Selection(self._log, wanted.identity), 0, 0, -1
        gathered = _Gathered(selection, offset, log_end)
        skipped = gathered.skipped
        for at, phy_offset, size, code, messages in queue.steps(offset, high, max_count):
            in_memory = log_end - phy_offset <= self._in_memory_bytes
            if selection.found and self._is_full(count, messages, total, size, max_count, in_memory):
                break
            if at > gathered.following:
                skipped.append(SkippedMessages(gathered.following, at - gathered.following, -1, NO_UNIT))
            gathered.following, gathered.last = at + messages, phy_offset
            if phy_offset < removed_until:
                skipped.append(SkippedMessages(at, messages, phy_offset, NO_LOG_FILE))
                continue
            if not (
                tag_filter.matches_all
                or self._matches(tag_filter, topic, queue_id, size, code)
                or selection.is_wanted(at, phy_offset, size, code, tag_filter, None if at in misplaced else confirmed)
            ):
                if not selection.found:
                    gathered.status = GetMessageStatus.NO_MATCHED_MESSAGE
                continue
            why = selection.take(at, phy_offset, size)
            if why is None:
                total += selection.found[-1].size
                count += messages
                gathered.status = GetMessageStatus.FOUND
                continue
            skipped.append(SkippedMessages(at, messages, phy_offset, why))
            if not selection.found:
                gathered.status = GetMessageStatus.MESSAGE_WAS_REMOVING
            if selection.file_is_missing and phy_offset < min_phy_offset:
                removed_until = (phy_offset // self._log.file_size + 1) * self._log.file_size
        return gathered

    def _not_removed(self, identity: QueueIdentity, skipped: list[SkippedMessages]) -> list[SkippedMessages]:
        """Return those of `skipped` that retention did not remove meanwhile."""
        low, _ = self._queues.bounds(identity.topic, identity.queue_id)
        return [one for one in skipped if one.queue_offset + one.count > low]

    def _matches(self, tag_filter: TagFilter, topic: str, queue_id: int, size: int, code: int) -> bool:
        """Return True if the message may have a wanted tag, also if its tags code is unknown."""
        if not 0 < size < PRE_BLANK_SIZE or code == LOST_TAGS_CODE:
            return True
        if code <= MAX_EXT_ADDRESS:
            unit = self._ext.unit(topic, queue_id, code)
            return unit is None or tag_filter.matches_code(unit.tags_code)
        return tag_filter.matches_code(code)

    def _is_full(self, count: int, messages: int, total: int, size: int, max_count: int, in_memory: bool) -> bool:
        """Return True if one more record of `size` bytes and so many messages would be too much (isTheBatchFull)."""
        config = self._config
        if count + messages > max_count or total + size > _MAX_TRANSFER_BYTES:
            return True
        if in_memory:
            return (
                total + size > config.max_transfer_bytes_on_message_in_memory
                or count + 1 > config.max_transfer_count_on_message_in_memory
            )
        return (
            total + size > config.max_transfer_bytes_on_message_in_disk
            or count + 1 > config.max_transfer_count_on_message_in_disk
        )


class _Selection:
    """Selected records of one queue, and the files that they hold."""

    def __init__(self, log: CommitLogView, identity: QueueIdentity) -> None:
        self._log, self._identity, self._topic = log, identity, identity.topic.encode()
        self._held: FileHold | None = None
        self.found: list[SelectMappedBufferResult] = []
        self.file_is_missing = False
        """True if the last record could not be read because its file no longer exists."""

    def take(self, queue_offset: int, phy_offset: int, size: int) -> str | None:
        """Add the record of a unit; return the reason if it is another record or cannot be read."""
        frame, held = self._frame(queue_offset, phy_offset, size)
        if isinstance(frame, str) or held is None:
            return str(frame)
        self.found.append(SelectMappedBufferResult(held, frame))
        return None

    def _frame(self, queue_offset: int, phy_offset: int, size: int) -> tuple[RecordFrame | str, FileHold | None]:
        """Return the record of a unit and its file, or why it cannot be read."""
        held = self._held
        if held is None or not 0 <= phy_offset - held.file_from_offset < self._log.file_size:
            held = self._held = self._hold(phy_offset)
            self.file_is_missing = held is None
        if size == 0 and phy_offset == 0:
            return NO_UNIT, None
        if held is None:
            return NO_LOG_FILE, None
        try:
            frame = self._log.frame_in(held, phy_offset, size)
        except StoreError as error:
            return str(error), None
        if not self._is_message(frame, held, queue_offset):
            return _ANOTHER, None
        return frame, held

    def is_wanted(
        self,
        queue_offset: int,
        phy_offset: int,
        size: int,
        code: int,
        tag_filter: TagFilter,
        confirmed: ConfirmedTagCodes | None,
    ) -> bool:
        """Return True if a record with another tags code than the wanted has a wanted tag, or cannot be read."""
        if confirmed is not None and code in confirmed:
            return False
        frame, held = self._frame(queue_offset, phy_offset, size)
        if isinstance(frame, str) or held is None:
            return True
        tag = self._properties(frame, held).get(PROPERTY_TAGS)
        if string_hash(tag or "") == low_half(code):
            if confirmed is not None:
                confirmed.add({code})
            return False
        return tag_filter.matches_tag(tag)

    def _properties(self, frame: RecordFrame, held: FileHold) -> dict[str, str]:
        start = frame.topic_end + _LENGTH.size
        (size,) = _LENGTH.unpack_from(held.view, frame.topic_end)
        return decode_properties(bytes(held.view[start : start + size]))

    def _hold(self, phy_offset: int) -> FileHold | None:
        try:
            return self._log.hold(phy_offset)
        except StoreError:  # it was deleted while it was opened
            return None

    def _is_message(self, frame: RecordFrame, held: FileHold, queue_offset: int) -> bool:
        identity = self._identity
        if not identity.exact:  # an LMQ: the record belongs to another topic, and names it
            return (identity.topic, queue_offset) in lmq_units(self._properties(frame, held))
        return (
            frame.queue_id == identity.queue_id
            and frame.queue_offset == queue_offset
            and held.view[frame.topic_start : frame.topic_end] == self._topic
        )


def refusal(offset: int, low: int, high: int) -> tuple[GetMessageStatus, int] | None:
    """Return the status and the next offset of a get outside of the queue's messages; None inside."""
    if high == 0:
        return GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < low:
        return GetMessageStatus.OFFSET_TOO_SMALL, low
    if offset == high:
        return GetMessageStatus.OFFSET_OVERFLOW_ONE, offset
    return (GetMessageStatus.OFFSET_OVERFLOW_BADLY, high) if offset > high else None


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
