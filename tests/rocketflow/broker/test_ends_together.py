"""Ends of transactions that the kernel takes together: log, queues, index and figures are those of single ends."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rocketflow.broker.transactions.messages import OP_TOPIC, marked_commits, marked_offsets
from rocketflow.remoting.command import decode_command
from rocketflow.remoting.frame import FrameReceiver
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.errors import StoreFullError
from rocketflow_store.spi.broker import stored_messages
from rocketflow_store.spi.names import HALF_TOPIC
from rocketflow_store.spi.table_rows import TopicConfig
from tests.support.sender import NOW_MS, QUEUES, TOPICS, Sender, end, send, text_of
from tests.support.trials import some

pytestmark = pytest.mark.skipif(COMPILED is None, reason="this machine has no compiled kernel")

Both = tuple[Sender, Sender]
HALF: Final = {"UNIQ_KEY": "7F00A000", "TRAN_MSG": "true", "PGROUP": "producers", "WAIT": "true"}
RICH: Final = {**HALF, "KEYS": "k1 k2 é", "TAGS": "t", "own": 'ä"\\'}


@pytest.fixture(autouse=True)
def _same_times(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(time=lambda: NOW_MS / 1000 + 2)
    for module in ("end", "ends_together", "marked_puts"):
        monkeypatch.setattr(f"rocketflow.broker.transactions.{module}.time", clock)


def half(opaque: int, properties: dict[str, str] | None = None, **changed: Any) -> bytes:
    body = changed.pop("body", b"half %d" % opaque)
    return send(opaque, body, text_of({**HALF, "UNIQ_KEY": f"7F{opaque:04}", **(properties or {})}), f="4", **changed)


def places(answers: bytes) -> list[tuple[int, int]]:
    """Return half offset and log offset of half messages by their answers."""
    found = [decode_command(one).fields for one in FrameReceiver().feed(answers)]
    return [(int(one["queueOffset"]), int(one["msgId"][-16:], 16)) for one in found]


def begin(both: Both, frames: Sequence[bytes]) -> list[tuple[int, int]]:
    """Store half messages, and return their places."""
    on, off = (one.feed(b"".join(frames)) for one in both)
    assert on == off
    return places(on)


def warm(both: Both) -> None:
    for topic in TOPICS:
        for one in both:
            one.feed(*[send(queue, e=str(queue), b=topic) for queue in range(QUEUES)])


def check(both: Both, *reads: bytes) -> None:
    on, off = (one.feed(*reads) for one in both)
    assert on == off


def check_all(both: Both) -> None:
    assert both[0].files() == both[1].files()
    assert both[0].figures() == both[1].figures()
    assert [one.gatherer.runs.total for one in both] == [both[0].gatherer.runs.total] * 2


def messages(one: Sender, topic: str, queue_id: int) -> list[Any]:
    begin, end = one.store.bounds(topic, queue_id)
    found: list[Any] = []
    while begin < end:
        read = one.store.read_messages(topic, queue_id, begin, 32, 1 << 20)
        found += stored_messages(read.data)
        begin = read.offsets[-1] + 1
    return found


def outcome(one: Sender) -> tuple[Any, ...]:
    """Return what marks say of half messages, and what queues hold, without the order of messages of one append."""
    committed, rolled_back = [], []
    for mark in messages(one, OP_TOPIC, 0):
        offsets, commits = marked_offsets(mark.message), marked_commits(mark.message)
        committed += offsets[:commits]
        rolled_back += offsets[commits:]
    queues = {
        (topic, queue): sorted(found.message for found in messages(one, topic, queue))
        for topic in (*TOPICS, HALF_TOPIC)
        for queue in range(QUEUES)
    }
    return sorted(committed), sorted(rolled_back), queues, one.figures()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"enabledAppendPropCRC": "true", "peer": "2001:db8::9"},
        {"flushDiskType": "SYNC_FLUSH", "rocketflow.profile": "5.5"},
    ],
    ids=["plain", "crc and IPv6", "synced"],
)
def test_commits_and_rollbacks_of_one_read_are_stored_as_one_by_one(
    senders: Callable[..., Both], options: dict[str, Any]
) -> None:
    both = senders(**options)
    warm(both)
    kinds: list[dict[str, Any]] = [
        {},
        {"b": "t|1", "e": "3"},
        {"e": "2", "properties": RICH, "ascii": False},
        {"j": "2", "h": "-7"},
    ]
    found = begin(both, [half(one, **kinds[one % len(kinds)]) for one in range(40)])
    ends = [end(one, commits=number % 3 != 1, binary=number % 2 == 1) for number, one in enumerate(found)]
    between = [*ends[:7], send(90), *ends[7:11], half(91), *ends[11:]]
    taken = both[0].taken
    check(both, b"".join(between))
    assert (both[0].taken, both[0].both.left_over) == (taken + 1, 0)
    if both[0].store.config.sync_flush:
        assert outcome(both[0]) == outcome(both[1])
    else:
        check_all(both)
    assert len(both[0].exported.committed) == len(TOPICS)


def test_ends_of_several_connections_share_an_op_mark(senders: Callable[..., Both]) -> None:
    both = senders()
    warm(both)
    found = begin(both, [half(one) for one in range(9)])
    for one in both:
        one.feed(*[b"".join(map(end, found[begin : begin + 3])) for begin in (0, 3, 6)], pause=False)
    assert len(messages(both[0], OP_TOPIC, 0)) == 1
    check_all(both)


def test_op_marks_have_their_limits(senders: Callable[..., Both]) -> None:
    both = senders(transactionOpMsgMaxSize="60")
    warm(both)
    found = begin(both, [half(one) for one in range(30)])
    check(both, b"".join(map(end, found)))
    sizes = [len(one.message.body) for one in messages(both[0], OP_TOPIC, 0)]
    assert max(sizes) <= 60
    assert outcome(both[0]) == outcome(both[1])


def test_one_op_mark_commits_no_more_than_a_megabyte(senders: Callable[..., Both]) -> None:
    both = senders(mappedFileSizeCommitLog="4194304")
    warm(both)
    found = begin(both, [half(one, body=bytes(50_000)) for one in range(50)])
    check(both, b"".join(map(end, found)))
    counts = [len(marked_offsets(one.message)) for one in messages(both[0], OP_TOPIC, 0)]
    assert sum(counts) == 50
    assert max(counts) <= (1 << 20) // 50_000
    assert outcome(both[0]) == outcome(both[1])


ODD_ENDS: Final[list[dict[str, Any]]] = [
    {"_flag": 0},
    {"_flag": 3},
    {"_flag": None},
    {"commitOrRollback": "0"},
    {"commitOrRollback": "4"},
    {"commitOrRollback": "9"},
    {"commitOrRollback": "08"},
    {"commitOrRollback": None},
    {"producerGroup": "others"},
    {"producerGroup": "producer"},
    {"producerGroup": "producerz"},
    {"producerGroup": ""},
    {"producerGroup": "prod\\u0075cers"},
    {"producerGroup": None},
    {"commitLogOffset": "0"},
    {"commitLogOffset": "-1"},
    {"commitLogOffset": "x"},
    {"commitLogOffset": None},
    {"tranStateTableOffset": "-1"},
    {"tranStateTableOffset": "999999999999999999"},
    {"tranStateTableOffset": "9999999999999999999"},
    {"tranStateTableOffset": "+1"},
    {"tranStateTableOffset": None},
    {"fromTransactionCheck": "true"},
    {"fromTransactionCheck": "x"},
    {"fromTransactionCheck": None},
    {"nsd": "false", "oway": "true", "ns": "n", "lo": "true"},
    {"oway": "x"},
    {"lo": "x"},
    {"nsd": "x"},
    {"msgId": None},
    {"topic": None, "transactionId": None, "bname": None},
    {"topic": "others"},
    {"body": b"x"},
    {"other": "x"},
    {"_version": None, "_remark": "executeLocalTransactionBranch exception: none"},
    {"_more": [1]},
    {"separators": (", ", ": ")},
]
ODD_HALVES: Final[list[dict[str, Any]]] = [
    {"properties": {"PGROUP": "others"}},
    {"properties": {"PGROUP": ""}},
    {"properties": {"CHECK_IMMUNITY_TIME_IN_SECONDS": "60"}},
    {"properties": {"CHECK_IMMUNITY_TIME_IN_SECONDS": "1"}, "g": "1"},
    {"properties": {"CHECK_IMMUNITY_TIME_IN_SECONDS": "x"}},
    {"properties": {"KEYS": " a  b "}},
    {"properties": {"TAGS": "é"}},
    {"properties": {"__SHARDINGKEY": "s"}},
    {"properties": {"TRACE_ON": "x"}},
    {"properties": {"TRAN_MSG": "TRUE"}},
    {"g": "0"},
    {"body": b""},
]


@pytest.mark.parametrize("kernel_has_half", [True, False])
def test_each_unusual_end_is_decided_as_without_the_kernel(senders: Callable[..., Both], kernel_has_half: bool) -> None:
    both = senders()
    warm(both)
    for changes, binary in product(ODD_ENDS, (False, True)):
        odd, usual = begin(both, [half(1), half(2)])
        if not kernel_has_half:
            for one in both:
                one.halves.take_records([odd[0]])
        check(both, end(usual) + end(odd, binary=binary, **changes) + send(3))
        check(both, end(odd, binary=binary, **changes), end(odd), end(odd, commits=False))
        assert both[0].figures() == both[1].figures(), changes
    assert outcome(both[0]) == outcome(both[1])


def test_each_unusual_half_message_is_decided_as_without_the_kernel(senders: Callable[..., Both]) -> None:
    both = senders()
    warm(both)
    for changes in ODD_HALVES:
        for commits in (True, False):
            odd, usual = begin(both, [half(1, **changes), half(2)])
            check(both, end(usual) + end(odd, commits=commits) + send(3))
            assert both[0].figures() == both[1].figures(), changes
    assert outcome(both[0]) == outcome(both[1])


def test_half_message_is_decided_once(senders: Callable[..., Both]) -> None:
    both = senders()
    warm(both)
    first, second, third, fourth = begin(both, [half(one) for one in range(4)])
    check(both, end(first) + end(first, commits=False) + end(second, commits=False) + end(second) + end(third))
    check(both, end(first, commits=False) + end(second) + end(third) + end(fourth))
    check(both, *[end(one, commits=commits, _flag=0) for one in (first, second) for commits in (True, False)])
    assert both[0].exported.half_messages == {"orders": 0}
    assert outcome(both[0]) == outcome(both[1])


def test_end_of_a_half_message_that_was_asked_about_ends_its_copy(senders: Callable[..., Both]) -> None:
    both = senders()
    warm(both)
    first, second = begin(both, [half(1), half(2)])
    for one in both:
        one.clock.set(NOW_MS + 1)
        one.loop.run_until_complete(one.check_transactions(NOW_MS + 60_000))
    check(both, end(first) + end(second, commits=False) + send(3))
    assert both[0].store.bounds(HALF_TOPIC, 0)[1] == 4
    assert sorted(both[0].exported.committed.items()) == [("orders", 1)]
    assert outcome(both[0]) == outcome(both[1])


@pytest.mark.parametrize("attributes", [{}, {"queue.type": "BatchCQ"}])
def test_end_of_a_half_message_whose_topic_has_changed_is_left_over(
    senders: Callable[..., Both], attributes: dict[str, str]
) -> None:
    both = senders()
    for one in both:
        one.store.topic_table.put(TopicConfig("changed", QUEUES, QUEUES, 6))
    begin(both, [half(1, b="changed", e="3")])
    found = begin(both, [half(one, b="changed", e="3") for one in range(2)])
    for one in both:
        one.store.topic_table.put(TopicConfig("changed", 1, 1, 6, attributes=attributes))
    check(both, end(found[0]) + end(found[1], commits=False))
    assert both[0].exported.committed == {"changed": 1}
    assert both[0].store.bounds("changed", 3) == (0, 1)
    assert outcome(both[0]) == outcome(both[1])
    assert both[0].files() == both[1].files()


def test_ends_that_the_store_refuses_can_be_repeated(
    senders: Callable[..., Both], monkeypatch: pytest.MonkeyPatch
) -> None:
    both = senders()
    warm(both)
    found = begin(both, [half(one) for one in range(5)])
    ends = b"".join(end(one, commits=number > 1) for number, one in enumerate(found))

    def no_space(gate: object) -> None:
        raise StoreFullError(both[0].root, "no space")

    with monkeypatch.context() as patch:
        patch.setattr("rocketflow_store.append.write_gate.WriteGate.check", no_space)
        patch.setattr("rocketflow_store.append.write_gate.WriteGate.is_shut", True)
        check(both, ends + send(7))
    assert messages(both[0], OP_TOPIC, 0) == []
    assert both[0].figures() == both[1].figures()
    check(both, ends)
    assert outcome(both[0]) == outcome(both[1])
    assert both[0].exported.committed == {"orders": 3}


def test_ends_are_refused_while_too_many_messages_wait(
    senders: Callable[..., Both], monkeypatch: pytest.MonkeyPatch
) -> None:
    both = senders()
    warm(both)
    found = begin(both, [half(one) for one in range(3)])
    with monkeypatch.context() as patch:
        patch.setattr("rocketflow.broker.puts.put_gatherer.MAX_OPEN", 0)
        check(both, b"".join(map(end, found)))
    assert messages(both[0], OP_TOPIC, 0) == []
    check(both, b"".join(map(end, found)))
    assert outcome(both[0]) == outcome(both[1])
    assert both[0].exported.committed == {"orders": 3}


def test_ends_of_clients_that_want_an_answer_get_it(
    senders: Callable[..., Both], monkeypatch: pytest.MonkeyPatch
) -> None:
    both = senders()
    warm(both)
    found = begin(both, [half(one) for one in range(24)])
    asking: dict[str, Any] = {"_flag": 0, "_language": "GO", "topic": None}
    ends = [
        end(one, commits=number % 3 != 1, binary=number % 2 == 1, _opaque=number, **(asking if number % 4 else {}))
        for number, one in enumerate(found)
    ]

    def answers(data: bytes) -> list[tuple[int, bytes]]:
        return sorted((decode_command(one).opaque, one.header) for one in FrameReceiver().feed(data))

    def no_space(gate: object) -> None:
        raise StoreFullError(both[0].root, "no space")

    with monkeypatch.context() as patch:
        patch.setattr("rocketflow_store.append.write_gate.WriteGate.check", no_space)
        patch.setattr("rocketflow_store.append.write_gate.WriteGate.is_shut", True)
        refused, alone = (answers(one.feed(b"".join(ends[:12]))) for one in both)
        assert refused == alone
    stored, alone = (answers(one.feed(b"".join(ends[12:19]) + send(90) + b"".join(ends[19:]))) for one in both)
    assert stored == alone
    assert [opaque for opaque, _ in stored] == [*(one for one in range(12, 24) if one % 4), 90]
    assert both[0].latency.together[37] == len(ends)
    assert both[1].latency.together == {}
    assert both[0].both.left_over == 0
    repeated, alone = (answers(one.feed(b"".join(ends[:12]))) for one in both)
    assert repeated == alone
    assert both[0].figures() == both[1].figures()
    assert outcome(both[0]) == outcome(both[1])


ENDS: Final = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.booleans(),
        st.just({}) | st.just({}) | st.just({}) | st.sampled_from(ODD_ENDS),
    ),
    max_size=25,
)
HALVES: Final = st.lists(
    st.builds(
        lambda more, **changed: {"properties": more, **changed},
        st.dictionaries(st.sampled_from(["KEYS", "TAGS", "a", "UNIQ_KEY"]), st.sampled_from(["v", "k k2", "é"])),
        b=st.sampled_from(TOPICS),
        e=st.sampled_from([*map(str, range(QUEUES))]),
        body=st.binary(max_size=200),
        j=st.sampled_from(["0", "0", "2"]),
    )
    | st.sampled_from(ODD_HALVES),
    min_size=1,
    max_size=12,
)


def test_ends_that_the_kernel_takes_are_decided_as_one_by_one(senders: Callable[..., Both]) -> None:
    # in one file: where files end, the order of an append's records decides on the offsets
    both = senders(mappedFileSizeCommitLog=str(1 << 25))
    warm(both)
    found: list[tuple[int, int]] = []
    opaque = 100

    @given(HALVES, ENDS, st.booleans())
    @example([{}] * 12, [(place, True, {}) for place in range(12)], True)
    def trial(halves: list[dict[str, Any]], ends: list[tuple[int, bool, dict[str, Any]]], with_send: bool) -> None:
        nonlocal opaque
        opaque += 100
        found.extend(begin(both, [half(opaque + number, **one) for number, one in enumerate(halves)]))
        frames = [
            end(found[-1 - place % len(found)], commits=commits, binary=place % 3 == 2, **odd)
            for place, commits, odd in ends
        ]
        if with_send:
            frames.insert(len(frames) // 2, send(opaque + 99))
        check(both, b"".join(frames))

    settings(max_examples=some(200), deadline=None)(trial)()
    assert outcome(both[0]) == outcome(both[1])
    assert sum(both[0].exported.committed.values()) > 10


def test_kernel_stays_within_hostile_ends(senders: Callable[..., Both]) -> None:
    on, _ = both = senders()
    warm(both)
    place = begin(both, [half(1, properties=RICH, ascii=False)])[0]
    record = on.halves.take_records([place[0]])[0]
    assert record is not None
    take, rows = on.both.taker("127.0.0.1:1"), random.Random(7)
    assert take is not None
    usual, kinds = end(place) * 2, defaultdict[bool, int](int)
    for _ in range(some(50_000)):
        data = bytearray(usual)
        for _ in range(rows.randrange(3)):
            data[rows.randrange(len(data))] = rows.choice([*b'"\\{}:,019-', rows.randrange(256)])
        taken: Any = take(bytes(data), 0)
        if taken is None:
            continue
        torn = bytearray(record[: rows.choice([len(record), rows.randrange(len(record) + 1)])])
        for _ in range(rows.randrange(3)):
            if torn:
                torn[rows.randrange(len(torn))] = rows.choice([0, 1, 2, 255, rows.randrange(256)])
        commits, committed, rolled_back, _, _, left_over = taken.end_halves([bytes(torn), None][: taken.ending_count])
        kinds[commits is None] += 1
        assert (commits is None) == (not committed)
        assert len(left_over) < len(taken.frames()) or not (committed or rolled_back)
        if commits is not None:
            commits.begin([0] * len(commits.queues), NOW_MS)
            commits.place(0, 0, 1 << 20)
            commits.rows()
    assert min(kinds[True], kinds[False]) > some(50_000) // 100
