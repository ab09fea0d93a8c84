"""The service that asks producers about half messages that they have not ended.

RocketMQ's source: broker/transaction/TransactionalMessageCheckService.java,
broker/transaction/AbstractTransactionalMessageCheckListener.java,
broker/transaction/queue/TransactionalMessageServiceImpl.java (check).
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow.aio.server import RefusedError
from rocketflow.broker.transactions.decisions import Decisions
from rocketflow.broker.transactions.half_queue import MARKS_AT_ONCE, SPAN, Acted, HalfQueue, Scan
from rocketflow.broker.transactions.messages import EXPIRED_TOPIC, OP_TOPIC, SYSTEM_GROUP, asked_record
from rocketflow.broker.transactions.op_marks import OpMarks
from rocketflow.broker.transactions.walk import Rules, Walk, due_ms
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.command import ONE_WAY_FLAG
from rocketflow.remoting.prepared_frame import PreparedFrame, number_value, text_value
from rocketflow_store import StoreError
from rocketflow_store.spi.names import HALF_TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow.aio.channel import Channel
    from rocketflow.broker.figures import MessageCounts
    from rocketflow.broker.groups import GroupOffsets, ProducerTable
    from rocketflow.broker.operators import Access
    from rocketflow.broker.topics import Topics
    from rocketflow.broker.transactions.marked_puts import MarkedPuts
    from rocketflow.broker.transactions.messages import Half
    from rocketflow.broker.transactions.op_marks import OpMark
    from rocketflow_store import PutMessageResult

LOG: Final = logging.getLogger("rocketflow.broker")

CONGESTED_SECONDS: Final = 5.0
"""How long a round waits in all for producers that read slowly; then they are asked in the next round."""

_CONGESTED_LOOK_SECONDS: Final = 0.05


_CHANGING: Final = ("tranStateTableOffset", "commitLogOffset", "msgId", "transactionId", "offsetMsgId")
"""The fields of a question, in the order of `Question.values`; `CheckTransactionStateRequestHeader` has all."""


class Question(NamedTuple):
    """Request 39 for a producer of a group: the values of its changing fields, and the copy of the half message.

    `topic` is that of the transaction.
    """

    group: str
    topic: str
    values: tuple[bytes, ...]
    body: bytes


class Broker(NamedTuple):
    """The broker that checks: its producers, topics and counts, its name, and its address as a record has it."""

    producers: ProducerTable[Channel]
    topics: Topics
    name: str
    host: bytes
    counts: MessageCounts
    access: Access


class Unread(NamedTuple):
    """Half messages from the first that is not decided, and op marks that no check has read."""

    half_messages: int
    op_marks: int


class TransactionChecks:
    """Rounds over the half messages that are not ended.

    A half message that its producer is asked about is copied to the end of the half queue and marked, in one write:
    so the queue is read once, and only what is undecided is written again.
    """

    def __init__(
        self, queue: HalfQueue, offsets: GroupOffsets, puts: MarkedPuts, marks: OpMarks, broker: Broker, rules: Rules
    ) -> None:
        self._queue = queue
        self._offsets = offsets
        self._puts = puts
        self._marks = marks
        self._broker = broker
        self._rules = rules
        self._walk = Walk(stored_offset(offsets, HALF_TOPIC, queue.half_bounds()))
        self._end_at_start = queue.half_bounds()[1]
        self._is_known = False
        self._learning = asyncio.Lock()
        self.decisions = Decisions()
        self._congested_until = 0.0
        fixed = {"topic": HALF_TOPIC, "bname": broker.name}
        self._question = PreparedFrame(RequestCode.CHECK_TRANSACTION_STATE, fixed, _CHANGING, flag=ONE_WAY_FLAG)
        self.asked = 0
        """Questions to producers since the start."""

    def unread(self) -> Unread:
        """Return what is not decided and not read; does not wait."""
        half_end, op_end = self._queue.half_bounds()[1], self._queue.op_bounds()[1]
        first, next_mark = self._walk.first_undecided, self._marks.next_offset
        return Unread(max(half_end - first, 0), max(op_end - next_mark, 0))

    def knows(self, half_offset: int) -> bool:
        """Return whether it is known if the half message at an offset is undecided: else await `learn`."""
        return self._is_known or half_offset >= self._end_at_start

    def undecided(self, half: Half) -> int | None:
        """Return the half offset of the newest copy of a half message; None if it is decided."""
        offset = half.stored.queue_offset
        newest = self.decisions.newest(half, by_key=offset < self._end_at_start)
        if newest is not None:
            return newest
        if self.decisions.is_held(offset):  # it may be marked already, and its copy not be known yet
            return offset
        is_marked = offset in self._marks or (half.first_offset is not None and half.first_offset in self._marks)
        is_decided = is_marked or self._walk.has_decided(offset) or self.decisions.ended(half) is not None
        return None if is_decided else offset

    def are_open(self, half_offsets: Sequence[int]) -> bool:
        """Return whether half messages since the start are undecided, without copies, and no decision is written."""
        first = max(self._end_at_start, self._walk.next_offset)
        is_open = min(half_offsets) >= first and self.decisions.are_open(half_offsets)
        return is_open and not self._marks.have_any(half_offsets)

    async def learn(self) -> None:
        """Read which half messages are undecided since before the start, and how the last ended; once.

        Raises StoreError.
        """
        async with self._learning:
            if self._is_known:
                return
            low = self._queue.half_bounds()[0]
            self._walk.begin_at(low)
            first = max(self._queue.op_bounds()[0], self._marks.next_offset - MARKS_AT_ONCE)
            self._learn_ends(await asyncio.to_thread(self._queue.read_marks, first, self._marks.next_offset))
            await self._read_marks(self._end_at_start)
            await self._learn_copies()
            self._is_known = True

    def _learn_ends(self, marks: Sequence[OpMark]) -> None:
        for mark in marks:
            if mark.commits is not None:
                for place, offset in enumerate(mark.half_offsets):
                    self.decisions.end(offset, is_commit=place < mark.commits)

    async def _learn_copies(self) -> None:
        """Take note of the undecided copies that were stored before the start, and count undecided half messages."""
        start, end = self._walk.next_offset, self._end_at_start
        topics: dict[int | str, str] = {}
        for begin in range(start, end, SPAN):
            for offset, first_offset, chain, topic in await asyncio.to_thread(
                self._queue.places, range(begin, min(begin + SPAN, end))
            ):
                if offset in self._marks or (first_offset is not None and first_offset in self._marks):
                    continue
                if chain != offset:
                    self.decisions.copied(chain, offset)
                topics[chain] = topic  # a kill may leave a half message and its copy without the mark of the first
        for topic in topics.values():
            self._broker.counts.half(topic, 1)

    async def check_every(self, seconds: float) -> None:
        """Check until cancelled; a failure is logged and the round tried again."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.check(int(time.time() * 1000))
            except (StoreError, RefusedError) as error:
                LOG.warning("half messages are not all checked: %s", error)

    async def check(self, now_ms: int) -> None:
        """Check all half messages once. Raises StoreError and RefusedError if reads or puts fail."""
        await self.learn()
        self._congested_until = time.monotonic() + CONGESTED_SECONDS
        low, end = self._queue.half_bounds()
        self._walk.begin_at(low)
        try:
            await self._read_marks(end)
            self._walk.drop_marked(self._marks.__contains__)
            await self._check_due(now_ms)
            await self._check_on(end, now_ms)
        finally:
            self._marks.forget(self._walk.next_offset)
            self._commit_offsets()

    async def _read_marks(self, half_end: int) -> None:
        self._marks.begin_round()
        low, end = self._queue.op_bounds()
        start = max(self._marks.next_offset, low)
        while start < end:
            following = min(start + MARKS_AT_ONCE, end)
            marks = await asyncio.to_thread(self._queue.read_marks, start, following)
            self._marks.add(marks, following, half_end)
            if not self._is_known:
                self._learn_ends(marks)
            start = following

    async def _check_due(self, now_ms: int) -> None:
        """Check the half messages that were passed undecided and are due now."""
        due = self._walk.due(now_ms)
        while due:
            scan = await self._scan(due, now_ms)
            still = await self._act(scan, now_ms)
            self._walk.decided([one for one in due if one < scan.next_offset and one not in still])
            if scan.stops:
                return
            due = [one for one in due if one >= scan.next_offset]

    async def _check_on(self, end: int, now_ms: int) -> None:
        """Check half messages from where the last round ended."""
        while self._walk.next_offset < end:
            start = self._walk.next_offset
            scan = await self._scan(range(start, min(start + SPAN, end)), now_ms)
            await self._act(scan, now_ms)
            self._walk.next_offset = scan.next_offset
            if scan.stops:
                return

    async def _scan(self, offsets: Sequence[int], now_ms: int) -> Scan:
        is_marked = self._marks.__contains__
        return await asyncio.to_thread(self._queue.scan, offsets, is_marked, self._rules, now_ms, now_ms)

    async def _act(self, scan: Scan, now_ms: int) -> set[int]:
        """Store what takes the place of half messages, and ask their producers; return the offsets that wait on."""
        for half in scan.waiting:
            self._walk.wait(half, due_ms(half, self._rules))
        still = {half.stored.queue_offset for half in scan.waiting}
        if not all(one.is_check for one in scan.acted):
            await self._broker.topics.ensure(EXPIRED_TOPIC, 1)
        acted: list[Acted] = []
        for one in scan.acted:
            offset = one.half.stored.queue_offset
            if self.decisions.is_held(offset):  # its producer has ended it, which may fail
                self._walk.wait(one.half, now_ms)
                still.add(offset)
            elif self.undecided(one.half) == offset:
                acted.append(one)
        if not acted:
            return still
        results = await self._replaced(acted)
        for one, result in zip(acted, results, strict=True):
            if not result.stored:
                LOG.warning("half message %d is not checked: %s", one.half.stored.queue_offset, result.why)
                self._walk.wait(one.half, now_ms)
                still.add(one.half.stored.queue_offset)
        asked = [(one, result) for one, result in zip(acted, results, strict=True) if one.is_check and result.stored]
        for question in await asyncio.to_thread(self._questions, asked):
            await self._ask(question)
        return still

    async def _replaced(self, acted: Sequence[Acted]) -> list[PutMessageResult]:
        """Put what takes the place of half messages, and return the results; their ends wait for it."""
        offsets = [one.half.stored.queue_offset for one in acted]
        self.decisions.hold(*offsets)
        try:
            results = await self._puts.stored([one.message for one in acted], [[one] for one in offsets])
            for one, result in zip(acted, results, strict=True):
                if result.stored and one.is_check:
                    self.decisions.copied(one.half.chain, result.queue_offset)
                elif result.stored:
                    self.decisions.closed(one.half)
                    self._broker.counts.half(one.half.real_topic, -1)
            return results
        finally:
            self.decisions.release(*offsets)

    def _questions(self, asked: Sequence[tuple[Acted, PutMessageResult]]) -> list[Question]:
        """Return the requests about copies of half messages."""
        host = self._broker.host
        found = []
        for (half, message, _), result in asked:
            key = text_value(half.uniq_key)
            places = (number_value(result.queue_offset), number_value(result.physical_offset))
            values = (*places, key, key, text_value(result.msg_id))
            found.append(Question(half.group, half.real_topic, values, asked_record(half, message, result, host)))
        return found

    async def _ask(self, question: Question) -> None:
        """Send a request to the next producer of its group that may publish to its topic, if one is connected.

        Any client may say that it is a producer of a group.
        """
        channel = self._broker.producers.next_channel(
            question.group,
            lambda one: one.is_open,
            lambda client: self._broker.access.may_publish(client.sender, question.topic),
        )
        if channel is None:
            LOG.info("no producer of group %s can be asked about half messages of %s", question.group, question.topic)
            return
        # channels have no event for it: few are ever congested
        while channel.is_congested and channel.is_open and time.monotonic() < self._congested_until:  # noqa: ASYNC110
            await asyncio.sleep(_CONGESTED_LOOK_SECONDS)
        if not channel.is_congested:
            self.asked += 1
            channel.notify_prepared(self._question, question.values, question.body)

    def _commit_offsets(self) -> None:
        first = self._walk.first_undecided
        for topic, offset in ((HALF_TOPIC, first), (OP_TOPIC, self._marks.first_needed(first))):
            if self._offsets.get(SYSTEM_GROUP, topic, 0) != offset:
                self._offsets.commit(SYSTEM_GROUP, topic, 0, offset)


def stored_offset(offsets: GroupOffsets, topic: str, bounds: tuple[int, int]) -> int:
    """Return how far a queue was decided before the start, within its bounds."""
    low, end = bounds
    found = offsets.get(SYSTEM_GROUP, topic, 0)
    return low if found is None else min(max(found, low), end)
