"""Transactions against a model: the store and the time belong to the test, and so do failures and crashes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rocketflow.access.guard import NO_SENDER, Sender
from rocketflow.aio.server import Request
from rocketflow.broker.figures.counts import Counts, MessageCounts
from rocketflow.broker.figures.stats import BrokerStats
from rocketflow.broker.groups.clients import Client, ProducerTable
from rocketflow.broker.puts.put_gatherer import PutGatherer
from rocketflow.broker.transactions.check import Broker, TransactionChecks, stored_offset
from rocketflow.broker.transactions.decisions import Decisions
from rocketflow.broker.transactions.end import TransactionEnds
from rocketflow.broker.transactions.end_puts import EndPuts
from rocketflow.broker.transactions.half_queue import HalfQueue
from rocketflow.broker.transactions.marked_puts import MarkedPuts
from rocketflow.broker.transactions.messages import (
    EXPIRED_TOPIC,
    OP_TOPIC,
    Half,
    committed_message,
    half_message,
    is_half,
    marked_offsets,
    op_mark,
    read_half,
)
from rocketflow.broker.transactions.op_marks import OpMark, OpMarks
from rocketflow.broker.transactions.recent_halves import RecentHalves
from rocketflow.broker.transactions.walk import Decision, Rules, Walk, decide, ends_too_late
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command, decode_command, encode_command, request
from rocketflow.remoting.frame import FrameReceiver
from rocketflow.remoting.headers.transaction import CheckTransactionStateRequestHeader
from rocketflow.remoting.prepared_frame import PreparedFrame
from rocketflow_store import PutMessageResult, PutMessageStatus, StoreClosedError, StoreConfig
from rocketflow_store.model.status import GetMessageStatus
from rocketflow_store.spi.broker import (
    AppendedRun,
    RawMessage,
    ReadResult,
    StoredMessage,
    decode_stored,
    encode_properties,
    encode_stored,
    open_store,
)
from rocketflow_store.spi.names import HALF_TOPIC
from tests.support.transactions import COMMIT, ROLLBACK, HalfPlace, end_header

if TYPE_CHECKING:
    from rocketflow.aio.channel import Channel
    from rocketflow.broker.groups.offsets import GroupOffsets
    from rocketflow.broker.operators.access import Access
    from rocketflow.broker.topics.topics import Topics
    from rocketflow_store.spi.broker import WritingStore

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
RULES = Rules(timeout_ms=6_000, check_max=15, reserved_ms=3_600_000, max_mark_bytes=60)
GROUP = "pg"
STATES = st.sampled_from([COMMIT, ROLLBACK])


class Store:
    """Queues of records in memory. `refuses` refuses messages of a topic, `fails` all appends."""

    def __init__(self) -> None:
        self.queues: dict[str, list[StoredMessage]] = {}
        self.now_ms = 0
        self.refuses = ""
        self.fails = False
        self._end = 0

    def try_append(self, messages: Sequence[RawMessage]) -> AppendedRun:
        if self.fails:
            raise StoreClosedError("store")
        results: list[PutMessageResult] = []
        for one in messages:
            before = results[-one.needs :] if one.needs else []
            if one.topic == self.refuses or len(before) < one.needs or not all(each.stored for each in before):
                why = PutMessageStatus.MESSAGE_ILLEGAL
                results.append(PutMessageResult(why, one.topic, -1, -1, -1, "", -1, "refused"))
                continue
            queue = self.queues.setdefault(one.topic, [])
            place = len(queue), self._end
            queue.append(StoredMessage(one, *place, self.now_ms, HOST))
            self._end += 100
            status = PutMessageStatus.PUT_OK
            results.append(PutMessageResult(status, one.topic, one.queue_id, *place, f"{self._end:032X}", self.now_ms))
        return AppendedRun(results, self._end)

    def publish(self, end: int) -> None:
        pass

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        return 0, len(self.queues.get(topic, ()))

    def read_messages(
        self, topic: str, queue_id: int, offset: int, count: int, size: int, *, nowait: bool = False
    ) -> ReadResult:
        found = self.queues.get(topic, [])[offset : offset + min(count, 3)] if offset >= 0 else []
        records = [encode_stored(one) for one in found]
        status = GetMessageStatus.FOUND if found else GetMessageStatus.OFFSET_OVERFLOW_ONE
        return ReadResult(
            *(status, offset + len(found), 0, self.bounds(topic, 0)[1], len(found), b"".join(records)),
            [one.queue_offset for one in found],
        )


class Offsets:
    """Offsets of groups; those saved survive a crash."""

    def __init__(self) -> None:
        self.now: dict[str, int] = {}
        self.saved: dict[str, int] = {}

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        return self.now.get(topic)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self.now[topic] = offset


@dataclass
class Peer:
    """A connection of a producer: answers and questions."""

    answers: list[Command] = field(default_factory=list)
    questions: list[tuple[HalfPlace, StoredMessage]] = field(default_factory=list)
    address: str = "127.0.0.1:1"
    is_open: bool = True
    is_congested: bool = False

    def __hash__(self) -> int:
        return id(self)

    def send(self, command: Command, data: memoryview | None) -> None:
        assert data is None
        (found,) = FrameReceiver().feed(encode_command(command))
        self.answers.append(decode_command(found))

    def notify_prepared(self, prepared: PreparedFrame, values: tuple[bytes, ...], body: bytes) -> None:
        (found,) = FrameReceiver().feed(prepared.frame(7, values, body))
        command = decode_command(found)
        assert (command.code, command.is_one_way) == (RequestCode.CHECK_TRANSACTION_STATE, True)
        header = command.header(CheckTransactionStateRequestHeader)
        assert (header.topic, header.bname) == (HALF_TOPIC, "b")
        assert header.msg_id == header.transaction_id
        place = HalfPlace(header.tran_state_table_offset, header.commit_log_offset)
        self.questions.append((place, decode_stored(command.body)))


class AnyTopics:
    async def ensure(self, topic: str, queues: int) -> None:
        assert (topic, queues) == (EXPIRED_TOPIC, 1)


class OpenAccess:
    """The access control of a broker without accounts."""

    def may_publish(self, sender: Sender, topic: str) -> bool:
        return (sender, topic) == (NO_SENDER, "t")

    def check_stored(self, request: Request, stored: StoredMessage) -> None:
        assert stored.message.topic == HALF_TOPIC


class World:
    """The parts of a broker that transactions need, over a store that survives its crash."""

    def __init__(self, store: Store, offsets: Offsets, peer: Peer) -> None:
        self._peer = peer
        opened = cast("WritingStore", store)
        queue, table = HalfQueue(opened), cast("GroupOffsets", offsets)
        self.gatherer = PutGatherer(opened, sync_timeout_s=None, wait_limit_s=lambda: 60)
        marks = OpMarks(stored_offset(table, OP_TOPIC, queue.op_bounds()))
        puts = MarkedPuts(self.gatherer, marks, HOST)
        producers: ProducerTable[Any] = ProducerTable()
        producers.register(GROUP, Client(peer, "c", "JAVA", 479, 0))
        self.counts = Counts()
        counts = MessageCounts(BrokerStats("c"), self.counts)
        access = cast("Access", OpenAccess())
        broker = Broker(producers, cast("Topics", AnyTopics()), "b", HOST, counts, access)
        self.recent = RecentHalves(HOST, max_bytes=4_000)  # keeps some three; the others are in the log
        self.checks = TransactionChecks(queue, table, puts, marks, broker, RULES)
        end_puts = EndPuts(puts, RULES.max_mark_bytes)
        self.ends = TransactionEnds(opened, end_puts, self.recent, RULES, counts, self.checks, access)

    async def put(self, message: RawMessage) -> PutMessageResult:
        future: asyncio.Future[PutMessageResult] = asyncio.get_running_loop().create_future()
        self.gatherer.add(message, future.set_result, future.set_exception)
        result = await future
        if result.stored and message.topic == HALF_TOPIC:
            self.recent.note(message, result)
            self.counts.half("t", 1)
        return result

    def begin_end(self, place: HalfPlace, state: int, opaque: int = 0) -> Coroutine[Any, Any, None] | None:
        """Handle an end that arrives now; return what it waits for."""
        asked = request(37, end_header(place, state, GROUP, is_checked=True), opaque=opaque)
        (frame,) = FrameReceiver().feed(encode_command(asked))
        return self.ends.end(Request(cast("Channel", self._peer), decode_command(frame)))

    async def end(self, *ends: tuple[HalfPlace, int]) -> list[Command]:
        """Return the answers to ends that arrive in one iteration of the loop, in their order."""
        known = len(self._peer.answers)
        later = [self.begin_end(*one, opaque) for opaque, one in enumerate(ends)]
        await asyncio.gather(*(one for one in later if one is not None))
        async with asyncio.timeout(60):
            while len(self._peer.answers) < known + len(ends):
                await asyncio.sleep(0)
        return sorted(self._peer.answers[known:], key=lambda one: one.opaque)


def raw(number: int, born_ms: int, **more: str) -> RawMessage:
    properties = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": f"u{number}", **more}
    return RawMessage("t", 1, b"%d" % number, encode_properties(properties), 7, 4, born_ms, HOST, 2)


@dataclass
class Known:
    """A message of the model: the places of its copies, how it ended, and how often its producer was asked."""

    places: list[HalfPlace]
    born_ms: int
    immunity_ms: int | None
    state: int | None = None
    checks: int = 0

    @property
    def ended(self) -> bool:
        return self.state is not None


def test_end_that_arrives_while_a_copy_is_being_noted_ends_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The half message is marked as replaced, and the check has not continued yet."""

    async def call() -> None:
        store, peer, now_ms = Store(), Peer(), int(time.time() * 1000)
        world, note = World(store, Offsets(), peer), OpMarks.note
        store.now_ms = now_ms
        half = await world.put(half_message(raw(1, now_ms)))
        place = HalfPlace(half.queue_offset, half.physical_offset)
        begun: list[object] = []

        def noted(self: OpMarks, half_offsets: Iterable[int]) -> None:
            note(self, half_offsets)
            if not begun:
                begun.append(world.begin_end(place, COMMIT))

        monkeypatch.setattr(OpMarks, "note", noted)
        await world.checks.check(now_ms + 7_000)
        async with asyncio.timeout(60):
            while not peer.answers:
                await asyncio.sleep(0)
        (answer,) = peer.answers
        assert (begun, answer.code) == ([None], ResponseCode.SUCCESS), answer.remark
        assert [one.message.body for one in store.queues["t"]] == [b"1"]
        await world.gatherer.finish(1)

    asyncio.run(call())


class TransactionMachine(RuleBasedStateMachine):
    """Ends, checks, refusals and crashes in any order.

    Consumers see what was committed, once; a producer is asked about each undecided message, and about no other.
    """

    @initialize()
    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.store, self.offsets, self.peer = Store(), Offsets(), Peer()
        self.now = int(time.time() * 1000)
        self.known: dict[int, Known] = {}
        self.expired: set[int] = set()
        self.counts_all = True
        self.run(self._open())

    async def _open(self) -> None:
        self.world = World(self.store, self.offsets, self.peer)

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        self.store.refuses, self.store.fails = "", False
        self.now += 7_000
        self.check()  # what a failure held up
        open_ones = {number for number, one in self.known.items() if not one.ended} - self.expired
        before = len(self.peer.questions)
        self.now += RULES.reserved_ms // 2
        self.check()
        asked = {int(one.message.body) for _, one in self.peer.questions[before:]}
        assert asked == open_ones - self.expired
        self.run(self.world.gatherer.finish(1))
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    @rule(immunity_s=st.one_of(st.none(), st.none(), st.integers(1, 60)), skew=st.sampled_from([0, 0, -9_000, 9_000]))
    def send(self, immunity_s: int | None, skew: int) -> None:
        number = len(self.known)
        more = {} if immunity_s is None else {"CHECK_IMMUNITY_TIME_IN_SECONDS": str(immunity_s)}
        self.store.now_ms = self.now
        message = raw(number, self.now + skew, **more)
        assert is_half(message)
        fails, self.store.fails = self.store.fails, False
        result = self.run(self.world.put(half_message(message)))
        self.store.fails = fails
        place = HalfPlace(result.queue_offset, result.physical_offset)
        self.known[number] = Known([place], self.now + skew, None if immunity_s is None else immunity_s * 1000)

    @rule(which=st.integers(0, 30), ends=st.lists(st.tuples(st.integers(0, 9), STATES), min_size=1, max_size=3))
    def end(self, which: int, ends: list[tuple[int, int]]) -> None:
        """End a transaction by any of its copies, once or several times in one iteration of the loop."""
        if not self.known:
            return
        number = which % len(self.known)
        self.store.now_ms = self.now
        asked = self._asked(number, ends)
        self._answered(number, asked, self.run(self.world.end(*asked)))

    def _asked(self, number: int, ends: list[tuple[int, int]]) -> list[tuple[HalfPlace, int]]:
        places = self.known[number].places
        return [(places[place % len(places)], state) for place, state in ends]

    def _answered(self, number: int, asked: list[tuple[HalfPlace, int]], answers: list[Command]) -> None:
        one = self.known[number]
        for (_, state), answer in zip(asked, answers, strict=True):
            if one.state == state:
                assert answer.code == ResponseCode.SUCCESS, answer.remark
            elif one.state is not None or number in self.expired:
                assert answer.code == ResponseCode.SYSTEM_ERROR
            elif self.store.fails:
                assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
            elif self.store.refuses == "t" and state == COMMIT:
                assert answer.code == ResponseCode.MESSAGE_ILLEGAL
            else:
                assert answer.code == ResponseCode.SUCCESS, answer.remark
                one.state = state

    @rule(
        which=st.integers(0, 30),
        ends=st.lists(st.tuples(st.integers(0, 9), STATES), min_size=1, max_size=2),
        turns=st.integers(0, 30),
    )
    def end_beside_a_check(self, which: int, ends: list[tuple[int, int]], turns: int) -> None:
        """End a transaction while a round of checks runs: before its producer is asked again, meanwhile, or later."""
        if not self.known or self.store.fails or self.store.refuses:
            return
        number = which % len(self.known)
        asked = self._asked(number, ends)

        async def end_later() -> list[Command]:
            for _ in range(turns):
                await asyncio.sleep(0)
            return await self.world.end(*asked)

        async def both() -> list[Command]:
            ending = asyncio.ensure_future(end_later())
            await self.world.checks.check(self.now)
            return await ending

        self.store.now_ms = self.now
        before = len(self.peer.questions)
        answers = self.run(both())
        self._note_expired()
        self._answered(number, asked, answers)
        for place, stored in self.peer.questions[before:]:
            one = self.known[int(stored.message.body)]
            assert not one.ended or one is self.known[number]
            one.places.append(place)
            one.checks += 1
        self.counts_all = True

    @rule(seconds=st.sampled_from([0.01, 3, 7, 30]))
    def pass_time(self, seconds: float) -> None:
        self.now += int(seconds * 1000)

    @rule()
    def check(self) -> None:
        self.store.now_ms = self.now
        before = len(self.peer.questions)
        try:
            self.run(self.world.checks.check(self.now))
            self.counts_all = True
        except Exception:
            assert self.store.fails
        for place, stored in self.peer.questions[before:]:
            one = self.known[int(stored.message.body)]
            assert not one.ended, "a producer is asked about what it has decided"
            assert (stored.message.topic, stored.message.queue_id, stored.message.flag) == ("t", 1, 7)
            age = self.now - one.born_ms
            if one.immunity_ms is not None:
                assert age > one.immunity_ms
            else:
                assert age < 0 or age > RULES.timeout_ms
            one.places.append(place)
            one.checks += 1
            assert f"TRANSACTION_CHECK_TIMES\x01{one.checks}\x02".encode() in stored.message.properties
        self._note_expired()

    def _note_expired(self) -> None:
        expired = [int(one.message.body) for one in self.store.queues.get(EXPIRED_TOPIC, ())]
        assert len(expired) == len(set(expired))
        for number in set(expired) - self.expired:
            one = self.known[number]
            assert one.checks == RULES.check_max or self.now - one.born_ms > RULES.reserved_ms
            assert not one.ended
        self.expired = set(expired)

    @rule(refuses=st.booleans())
    def refuse(self, refuses: bool) -> None:
        self.store.refuses = "t" if refuses else ""

    @rule(fails=st.booleans())
    def fail(self, fails: bool) -> None:
        self.store.fails = fails

    @rule()
    def save(self) -> None:
        self.offsets.saved = dict(self.offsets.now)

    @rule()
    def crash(self) -> None:
        self.run(self.world.gatherer.finish(1))
        self.offsets.now = dict(self.offsets.saved)
        self.run(self._open())
        self.counts_all = False

    @invariant()
    def half_messages_are_counted(self) -> None:
        if hasattr(self, "store") and self.counts_all:
            open_ones = {number for number, one in self.known.items() if not one.ended} - self.expired
            assert self.world.counts.half_messages.get("t", 0) == len(open_ones)

    @invariant()
    def consumers_see_what_was_committed(self) -> None:
        if not hasattr(self, "store"):
            return
        seen = [int(one.message.body) for one in self.store.queues.get("t", ())]
        assert sorted(seen) == sorted(number for number, one in self.known.items() if one.state == COMMIT)
        for one in self.store.queues.get("t", ()):
            assert (one.message.queue_id, one.message.sys_flag, one.message.flag) == (1, COMMIT, 7)
            assert one.message.reconsume_times == 2

    @invariant()
    def nothing_undecided_is_passed(self) -> None:
        if not hasattr(self, "store"):
            return
        first = self.offsets.now.get(HALF_TOPIC, 0)
        for number, one in self.known.items():
            if not one.ended and number not in self.expired:
                assert one.places[-1].half_offset >= first


TestTransactionMachine = TransactionMachine.TestCase
TestTransactionMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def half(number: int = 0, born_ms: int = 0, store_ms: int = 0, **more: str) -> Half:
    found = read_half(StoredMessage(half_message(raw(number, born_ms, **more)), 5, 500, store_ms, HOST))
    assert found is not None
    return found


def test_half_message_keeps_what_the_client_sent_but_not_what_is_the_broker_s() -> None:
    message = raw(1, 5, REAL_TOPIC="forged", REAL_QID="9", TRANSACTION_CHECK_TIMES="14", TRAN_PREPARED_QUEUE_OFFSET="3")
    found = half_message(message)
    assert (found.topic, found.queue_id, found.sys_flag, found.is_internal) == (HALF_TOPIC, 0, 0, True)
    assert found.properties.count(b"REAL_TOPIC\x01") == 1
    said = read_half(StoredMessage(found, 0, 0, 0, HOST))
    assert said is not None
    assert (said.real_topic, said.real_queue_id, said.checks, said.first_offset) == ("t", 1, 0, None)
    assert (said.group, said.uniq_key) == (GROUP, "u1")
    assert b"__transactionId__\x01u1\x02" in found.properties


@pytest.mark.parametrize(
    ("properties", "times", "expected"),
    [
        (b"TRAN_MSG\x01true\x02", 0, True),
        (b"a\x01b\x02TRAN_MSG\x01TRUE\x02", 0, True),
        (b"TRAN_MSG\x01false\x02", 0, False),
        (b"XTRAN_MSG\x01true\x02", 0, False),
        (b"TRAN_MSG\x01true\x02DELAY\x013\x02", 1, False),
        (b"TRAN_MSG\x01true\x02DELAY\x013\x02", 0, True),
        (b"TRAN_MSG\x01true\x02", 1, True),
    ],
)
def test_half_message_is_recognised_by_its_property(properties: bytes, times: int, expected: bool) -> None:
    assert is_half(RawMessage("t", 0, b"", properties, 0, 0, 0, HOST, times)) is expected


def test_op_mark_names_half_offsets_and_those_of_rocketmq_are_read() -> None:
    mark = op_mark([3, 1, 20], 7, HOST, needs=2)
    assert (mark.body, mark.topic, mark.needs) == (b"3,1,20,", OP_TOPIC, 2)
    assert marked_offsets(mark) == [3, 1, 20]
    assert marked_offsets(mark._replace(body=b"17")) == [17]  # RocketMQ before 5.1 writes one, without a comma
    assert marked_offsets(mark._replace(body=b"4,x,,-1,\xff," + b"9" * 30)) == [4]
    assert marked_offsets(mark._replace(properties=b"TAGS\x01e\x02")) == []


@pytest.mark.parametrize(
    ("given", "now_ms", "expected"),
    [
        (half(), 6_000, Decision.STOP),
        (half(), 6_001, Decision.CHECK),
        (half(born_ms=9_000), 6_000, Decision.CHECK),
        (half(store_ms=7_000), 7_000, Decision.STOP),
        (half(TRAN_MSG="true", CHECK_IMMUNITY_TIME_IN_SECONDS="9"), 9_000, Decision.WAIT),
        (half(TRAN_MSG="true", CHECK_IMMUNITY_TIME_IN_SECONDS="9"), 9_001, Decision.CHECK),
        (half(TRAN_MSG="true", CHECK_IMMUNITY_TIME_IN_SECONDS="x"), 6_000, Decision.STOP),
        (half(), 3_600_001, Decision.EXPIRE),
    ],
)
def test_decision_follows_from_age_and_immunity(given: Half, now_ms: int, expected: Decision) -> None:
    assert decide(given, RULES, now_ms, now_ms) is expected
    assert decide(given._replace(checks=15), RULES, now_ms, now_ms) is Decision.EXPIRE


def test_only_messages_with_their_own_immunity_time_end_too_late() -> None:
    assert not ends_too_late(half(), RULES, 10_000_000)
    assert not ends_too_late(half(CHECK_IMMUNITY_TIME_IN_SECONDS="9"), RULES, 9_000)
    assert ends_too_late(half(CHECK_IMMUNITY_TIME_IN_SECONDS="9"), RULES, 9_001)
    assert not ends_too_late(half(CHECK_IMMUNITY_TIME_IN_SECONDS="2"), RULES, 6_000)


def test_first_undecided_half_message_is_one_that_waits() -> None:
    walk = Walk(9)
    assert walk.first_undecided == 9
    walk.wait(half(), 100)
    assert walk.first_undecided == 5
    walk.decided(walk.due(100))
    assert walk.first_undecided == 9


def test_marks_are_kept_until_no_half_message_can_need_them() -> None:
    marks = OpMarks(0)
    marks.add([OpMark(0, [1, 2]), OpMark(1, []), OpMark(2, [9])], 3, 10)
    assert all(one in marks for one in (1, 2, 9))
    marks.forget(9)
    assert 1 in marks  # a copy that names it as its first offset may still come
    marks.forget(10)
    assert 1 not in marks
    assert marks.first_needed(2) == 0
    assert marks.first_needed(3) == 2
    assert marks.first_needed(10) == 3


def test_copy_that_apache_made_is_ended_by_the_mark_of_its_first_offset() -> None:
    async def checked() -> list[tuple[HalfPlace, StoredMessage]]:
        store, offsets, peer = Store(), Offsets(), Peer()
        first, other = half_message(raw(1, 0)), half_message(raw(2, 0))
        copy = first._replace(properties=first.properties + b"TRAN_PREPARED_QUEUE_OFFSET\x010\x02")
        store.try_append([first, copy, other, op_mark([0], 0, HOST, needs=0)])
        offsets.now[HALF_TOPIC] = 1
        await World(store, offsets, peer).checks.check(20_000)
        assert offsets.now == {HALF_TOPIC: 3, OP_TOPIC: 1}
        return peer.questions

    assert [int(one.message.body) for _, one in asyncio.run(checked())] == [2]


def test_producers_of_a_group_are_asked_in_turn() -> None:
    table: ProducerTable[str] = ProducerTable()
    assert table.next_channel("g", lambda _: True) is None
    for one in ("x", "y", "z"):
        table.register("g", Client(one, one, "JAVA", 479, 0))
    assert sorted(str(table.next_channel("g", lambda _: True)) for _ in range(3)) == ["x", "y", "z"]
    assert {table.next_channel("g", lambda one: one == "y") for _ in range(3)} == {"y"}


HOSTS = st.sampled_from([HOST, bytes(15) + b"\x01" + (9_999).to_bytes(4, "big")])
TEXTS = st.text(
    st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00\x01\x02"), min_size=1, max_size=20
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.binary(max_size=50), TEXTS, st.integers(0, 2**31 - 1), HOSTS), min_size=1, max_size=5))
def test_a_kept_half_message_is_committed_as_the_one_of_the_log(
    tmp_path_factory: pytest.TempPathFactory, sent: list[tuple[bytes, str, int, bytes]]
) -> None:
    home = tmp_path_factory.mktemp("store")
    config = StoreConfig(mapped_file_size_commit_log=1 << 18, max_hash_slot_num=100, max_index_num=400)
    recent = RecentHalves(HOST)
    with open_store(home, config, store_host="127.0.0.1:10911") as store:
        for number, (body, text, born_ms, host) in enumerate(sent):
            properties = {"TRAN_MSG": "true", "PGROUP": text or "p", "UNIQ_KEY": f"u{number}", "KEYS": text}
            client = RawMessage("t", 1, body, encode_properties(properties), number, 4, born_ms, host, number)
            half = half_message(client)
            run = store.append([half])
            store.publish(run.end)
            recent.note(half, run.results[0])
        for number in range(len(sent)):
            kept = recent.take(number)
            stored = read_half(decode_stored(store.read_messages(HALF_TOPIC, 0, number, 1, 1).data))
            assert kept is not None
            assert stored is not None
            assert _without_hosts_flag(committed_message(kept)) == _without_hosts_flag(committed_message(stored))
            assert (kept.stored.phy_offset, kept[1:]) == (stored.stored.phy_offset, stored[1:])
            assert recent.take(number) is None


def _without_hosts_flag(message: RawMessage) -> RawMessage:
    """Return a message without what its record says of the length of its host, and of who wrote it."""
    return message._replace(sys_flag=message.sys_flag & ~0x30, is_internal=False)


def test_the_oldest_half_messages_are_not_kept() -> None:
    recent = RecentHalves(HOST, max_bytes=10_000)
    for number in range(100):
        result = PutMessageResult(PutMessageStatus.PUT_OK, HALF_TOPIC, 0, number, number, "", 1)
        recent.note(half_message(raw(number, 0)), result)
    kept = [number for number in range(100) if recent.take(number) is not None]
    assert 5 <= len(kept) <= 10
    assert kept == list(range(kept[0], 100))


def test_decisions_remember_the_newest_copies_and_the_last_ends() -> None:
    decisions = Decisions(max_copies=2, max_ended=2)
    one, other, apaches = half()._replace(chain=1), half()._replace(chain=2), half()._replace(chain="u0")
    decisions.copied(1, 10)
    decisions.copied("u0", 11)
    decisions.copied(1, 12)
    assert (decisions.newest(one, by_key=False), decisions.newest(apaches, by_key=False)) == (12, 11)
    assert (decisions.newest(other, by_key=False), decisions.newest(other, by_key=True)) == (None, 11)
    decisions.copied(2, 13)  # the oldest is forgotten
    assert (decisions.newest(one, by_key=False), decisions.newest(apaches, by_key=False)) == (12, None)
    for chain, is_commit in ((1, True), (2, False), (3, True)):
        decisions.end(chain, is_commit=is_commit)
    assert (decisions.ended(one), decisions.ended(other)) == (None, False)


def test_requests_about_a_half_message_wait_until_it_is_released() -> None:
    decisions, called = Decisions(), []
    decisions.hold(1)
    decisions.when_released(1, lambda: called.append(decisions.is_held(1)))
    decisions.when_released(1, lambda: called.append("then"))
    assert decisions.is_held(1)
    assert not called
    decisions.release(1)
    assert called == [False, "then"]


async def asked_half(store: Store, offsets: Offsets, peer: Peer) -> tuple[World, HalfPlace]:
    """Return a world with a half message whose producer was asked about it once, and the place of its first copy."""
    world = World(store, offsets, peer)
    result = await world.put(half_message(raw(1, 0)))
    await world.checks.check(7_000)
    assert len(peer.questions) == 1
    return world, HalfPlace(result.queue_offset, result.physical_offset)


def test_end_that_names_an_older_copy_ends_the_newest_also_after_a_restart() -> None:
    async def ended(*, restarts: bool) -> tuple[int, int, list[int]]:
        store, offsets, peer = Store(), Offsets(), Peer()
        world, first = await asked_half(store, offsets, peer)
        if restarts:
            offsets.now = dict(offsets.saved)
            world = World(store, offsets, peer)
        codes = [one.code for one in await world.end((first, COMMIT))]
        if restarts:
            world = World(store, offsets, peer)
        newest = peer.questions[0][0]
        codes += [one.code for one in await world.end((newest, COMMIT), (first, ROLLBACK))]
        await world.checks.check(14_000)
        return len(store.queues["t"]), len(peer.questions), codes

    for restarts in (False, True):
        found = asyncio.run(ended(restarts=restarts))
        assert found == (1, 1, [ResponseCode.SUCCESS, ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR])


def test_half_message_that_is_ended_beside_a_check_is_decided_once() -> None:
    """At whichever moment of the round the end arrives: the producer is not asked again in the next one."""

    async def ended(turns: int) -> tuple[int, int, int]:
        store, offsets, peer = Store(), Offsets(), Peer()
        world, first = await asked_half(store, offsets, peer)

        async def end_later() -> Command:
            for _ in range(turns):
                await asyncio.sleep(0)
            return (await world.end((first, COMMIT)))[0]

        ending = asyncio.ensure_future(end_later())
        await world.checks.check(14_000)
        answer = await ending
        asked = len(peer.questions)
        await world.checks.check(21_000)
        return answer.code, len(store.queues["t"]), len(peer.questions) - asked

    for turns in range(200):
        assert asyncio.run(ended(turns)) == (ResponseCode.SUCCESS, 1, 0), turns
