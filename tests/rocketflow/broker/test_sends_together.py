"""Sends that the kernel takes together: log, queues, index, answers and figures are those of sends taken one by one."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketflow.remoting.codes import ResponseCode
from rocketflow.remoting.command import Command, decode_command
from rocketflow.remoting.frame import FrameReceiver
from rocketflow_store import FlushDiskType, PutMessageResult, PutMessageStatus
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.errors import StoreFullError
from rocketflow_store.spi.table_rows import TopicConfig
from tests.support.sender import NOW_MS, QUEUES, TOPICS, USUAL, Sender, send, text_of
from tests.support.trials import some

pytestmark = pytest.mark.skipif(COMPILED is None, reason="this machine has no compiled kernel")


ODD_NAMES: Final = (
    "KEYS",
    "TAGS",
    "a",
    "__SHARDINGKEY",
    "é",
    "TRACE_ON",
    "CLUSTER",
    "XTRAN_MSG",
    "TRAN_MSG",
    "REPLY_TO_CLIENT",
    "__CRC32#",
    "INNER_NUM",
    "__RMQ.TRANSIENT.x",
    "DELAY",
    "__STARTDELIVERTIME",
    "TIMER_DELAY_MS",
    "POP_CK",
    "MSG_REGION",
    "INNER_BASE",
)
NAMES: Final = st.sampled_from(ODD_NAMES)
VALUES: Final = st.sampled_from(["v", "k1 k2", " a  b ", "a b", "1", "", "é", "\x00", '"\\/', "\n", "true", "%d"])
PROPERTIES: Final = st.one_of(
    st.just(text_of(USUAL)),
    st.just(text_of(USUAL)[:-1]),
    st.builds(
        lambda more, key: text_of({"UNIQ_KEY": key, **more}),
        st.dictionaries(NAMES | st.sampled_from(["KEYS", "TAGS", "a"]), VALUES, max_size=3),
        st.sampled_from(["7F01", "7F01", "7F01", "a\x00", 'q"q', "é", "\x7f"]),
    ),
    st.sampled_from(["", "a\x01b\x02", "UNIQ_KEY\x01\x02"]),
    st.sampled_from([f"{text_of(USUAL)}UNIQ_KEY\x01again\x02", "UNIQ_KEY\x01k\x02a", "UNIQ_KEY\x01k\x02\x01v\x02"])
    | st.sampled_from(["UNIQ_KEY\x01k\x02a\x01b\x01c\x02", "UNIQ_KEY\x01k\x02a\x02", "UNIQ_KEY\x01k\x02\x02"]),
)
NUMBERS: Final = st.sampled_from(
    ["0", "1", "-1", "7", "2147483647", "-2147483648", "2147483648", "01", "+1", "1.0", ""]
)
CHANGES: Final = st.dictionaries(st.integers(0, 21), st.integers(0, 9), max_size=2)
USUAL_SENDS: Final = st.builds(
    lambda opaque, body, **more: send(opaque, body, **more),
    st.integers(-5, 1 << 31),
    st.binary(max_size=300),
    properties=PROPERTIES,
    b=st.sampled_from([*TOPICS, "orders", "orders"]),
    e=st.sampled_from([*map(str, range(QUEUES))]),
    f=st.sampled_from(["0", "0", "0", "1", "8", "16", "32", "48"]),
    ascii=st.booleans(),
    _code=st.sampled_from([310, 310, 310, 10]),
    _flag=st.sampled_from([0, 0, 0, 2, 4]),
    _remark=st.sampled_from([None, None, ""]),
    binary=st.booleans(),
)
OF_HALVES: Final = (
    *("REAL_TOPIC", "REAL_QID", "__transactionId__", "TRANSACTION_CHECK_TIMES"),
    *("TRAN_PREPARED_QUEUE_OFFSET", "TRAN_FIRST_QUEUE_OFFSET"),
)
HALF: Final = {"UNIQ_KEY": "7F00A000", "TRAN_MSG": "true", "PGROUP": "producers", "WAIT": "true"}
HALVES: Final = st.builds(
    lambda opaque, body, more, value, **changed: send(
        opaque, body, text_of({**HALF, "TRAN_MSG": value, **more}), **changed
    ),
    st.integers(0, 1 << 30),
    st.binary(max_size=300),
    st.dictionaries(NAMES | st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "a", *OF_HALVES]), VALUES, max_size=2),
    st.sampled_from(["true", "true", "true", "TRUE", "false", "x", ""]),
    b=st.sampled_from([*TOPICS, "orders"]),
    e=st.sampled_from([*map(str, range(QUEUES))]),
    f=st.sampled_from(["4", "4", "4", "4", "0", "5", "8", "12", "132", "20"]),
    j=st.sampled_from(["0", "0", "0", "2"]),
    _code=st.sampled_from([310, 310, 10]),
    binary=st.booleans(),
)
LEVELS: Final = 18
DELAYED: Final = st.builds(
    lambda opaque, body, level, more, **changed: send(
        opaque, body, text_of({"UNIQ_KEY": "7F00C000", "DELAY": level, **more}), **changed
    ),
    st.integers(0, 1 << 30),
    st.binary(max_size=300),
    st.integers(1, LEVELS).map(str) | st.sampled_from(["0", "-1", "01", "+1", str(LEVELS + 1), "x", ""]),
    st.dictionaries(NAMES | st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "a", *OF_HALVES]), VALUES, max_size=2),
    b=st.sampled_from([*TOPICS, "orders"]),
    e=st.sampled_from([*map(str, range(QUEUES))]),
    f=st.sampled_from(["0", "0", "0", "4", "8", "12", "16", "128"]),
    _flag=st.sampled_from([0, 0, 0, 2]),
    _code=st.sampled_from([310, 310, 10]),
    binary=st.booleans(),
)
BATCH: Final = text_of({"UNIQ_KEY": "7F00B000", "WAIT": "true"})


def batch(opaque: int, entries: Sequence[tuple[int, bytes, bytes]], properties: str = BATCH, **changed: Any) -> bytes:
    """Return the request of a batch: flag, body and property string of each message."""
    body = b"".join(
        (22 + len(own) + len(more)).to_bytes(4, "big")
        + bytes(8)
        + flag.to_bytes(4, "big", signed=True)
        + len(own).to_bytes(4, "big", signed=True)
        + own
        + len(more).to_bytes(2, "big")
        + more
        for flag, own, more in entries
    )
    return send(opaque, changed.pop("body", body), properties, **{"m": "true", "_code": 320, **changed})


ENTRIES: Final = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 7, -1]),
        st.binary(max_size=90),
        PROPERTIES.map(lambda text: text.encode("utf-8")),
    ),
    min_size=1,
    max_size=5,
)
BATCHES: Final = st.builds(
    batch,
    st.integers(0, 1 << 30),
    ENTRIES
    | st.lists(st.tuples(st.just(0), st.binary(max_size=9), st.just(text_of(USUAL).encode())), min_size=1, max_size=40),
    st.sampled_from([BATCH, BATCH, BATCH, BATCH[:-1], text_of(USUAL), "WAIT\x01true\x02", f"{BATCH}a\x01b\x02", ""]),
    b=st.sampled_from([*TOPICS, "orders"]),
    e=st.sampled_from([*map(str, range(QUEUES))]),
    f=st.sampled_from(["0", "0", "0", "1", "8", "16"]),
    binary=st.booleans(),
)
ODD_CHANGES: Final[list[dict[str, Any]]] = [
    {"h": "2147483648"},
    {"d": "-2147483649"},
    {"j": "2147483648"},
    {"e": "2147483648"},
    {"f": "4"},
    {"f": "128"},
    {"f": "12"},
    {"m": "true"},
    {"e": "-1"},
    {"e": "4"},
    {"e": 1},
    {"k": True},
    {"k": "TRUE"},
    {"k": "x"},
    {"x": "1"},
    {"lo": "true"},
    {"a": 'q"'},
    {"n": "é", "ascii": False},
    {"_flag": 2},
    {"_flag": 3},
    {"_flag": None},
    {"_code": 10},
    {"_code": 10, "h": "x"},
    {"_code": 10, "a": None, "producerGroups": "p"},
    {"_code": 10, "producerGroup": "p", "a": None, "lo": "true"},
    {"_code": 320},
    {"_version": -1},
    {"_version": None},
    {"_remark": "r"},
    {"_language": "GO"},
    {"_language": 9},
    {"_more": [1]},
    {"_more": b"\0\1b\0\0\0\3t|1"},
    {"_more": b"\0\1e\0\0\0\1x"},
    {"_more": b"\0\1l\0\0\0\0"},
    {"_more": b"\0\1l\0\0\0\1"},
    {"_more": b"\0\1l\xff\xff\xff\xff"},
    {"_more": b"\0\1l\0\0\0"},
    {"_more": b"\0\0\0\0\0\0"},
    {"_more": b"\xff\xffl\0\0\0\0"},
    {"_more": b"\0"},
    {"_size": 0},
    {"_size": 400},
    {"a": "\x00\n"},
    {"n": "\ud800", "ascii": False},
    {"separators": (", ", ": ")},
    {"l": "16"},
    {"b": "bad name"},
    {"b": "SCHEDULE_TOPIC_XXXX"},
]
ODD_SENDS: Final = st.builds(
    lambda opaque, properties, binary, changes: send(opaque, b"odd", properties, binary=binary, **changes),
    st.integers(0, 99),
    PROPERTIES,
    st.booleans(),
    st.one_of(
        st.dictionaries(st.sampled_from([*"defghjl"]), NUMBERS, min_size=1, max_size=2),
        st.dictionaries(st.sampled_from([*"abcdefghjkmn"]), st.none(), min_size=1, max_size=1),
        st.sampled_from(ODD_CHANGES),
    ),
)


def chunks(data: bytes, cuts: Sequence[float]) -> list[bytes]:
    places = [0, *sorted(int(one * len(data)) for one in cuts), len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(places) if begin < end]


def sorted_frames(data: bytes) -> tuple[int, list[tuple[bytes, bytes]]]:
    """Return how often the connection was closed, and the frames."""
    frames = FrameReceiver().feed(data.replace(b"closed", b""))
    return data.count(b"closed"), sorted((one.header, one.body) for one in frames)


def check(both: tuple[Sender, Sender], reads: Sequence[bytes], *, pause: bool = True) -> None:
    """Let both receive some reads; their answers are the same, in the same order.

    While a sync runs in its thread, refusals of later reads overtake the answers that wait for it: the order is its.
    """
    on, off = (one.feed(*reads, pause=pause) for one in both)
    if pause and both[0].store.config.sync_flush:
        assert sorted_frames(on) == sorted_frames(off)
    else:
        assert on == off


def warm(both: tuple[Sender, Sender]) -> None:
    """Let each queue have a message: the kernel is taught those."""
    for topic in TOPICS:
        check(both, [send(queue, e=str(queue), b=topic) for queue in range(QUEUES)])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"enabledAppendPropCRC": "true", "peer": "2001:db8::9"},
        {"flushDiskType": "SYNC_FLUSH"},
    ],
    ids=["plain", "crc and IPv6", "synced"],
)
def test_sends_that_the_kernel_takes_are_stored_and_answered_as_one_by_one(
    senders: Callable[..., tuple[Sender, Sender]], options: dict[str, Any]
) -> None:
    both = senders(**options)
    warm(both)
    count = some(250)

    @given(
        st.lists(USUAL_SENDS | HALVES | DELAYED | BATCHES | ODD_SENDS, min_size=1, max_size=30),
        st.lists(st.floats(0, 1, exclude_max=True), max_size=3),
        st.booleans(),
    )
    def trial(frames: list[bytes], cuts: list[float], pause: bool) -> None:
        check(both, chunks(b"".join(frames), cuts), pause=pause)

    settings(max_examples=count, deadline=None)(trial)()
    on, off = both
    assert on.taken > 10
    assert on.take_halves() == off.take_halves()
    assert on.files() == off.files()
    assert on.figures() == off.figures()
    assert on.gatherer.runs.total == off.gatherer.runs.total


def test_each_property_that_a_broker_acts_on_is_left_over(senders: Callable[..., tuple[Sender, Sender]]) -> None:
    both = senders()
    warm(both)
    for name in ODD_NAMES:
        for value in ("1", "true"):
            check(both, [send(1, properties=text_of({**USUAL, name: value})) + send(2)])
    assert both[0].files() == both[1].files()
    assert both[0].figures() == both[1].figures()


def test_half_messages_are_taken_and_kept_for_their_ends(senders: Callable[..., tuple[Sender, Sender]]) -> None:
    both = senders()
    check(both, [send(1, b"half", text_of(HALF), f="4", e="2")])  # teaches the queue
    halves = [send(one, bytes(one), text_of({**HALF, "UNIQ_KEY": f"7F{one}"}), f="4", e="2") for one in range(5)]
    check(both, [b"".join([*halves, send(7, e="2"), *halves])])
    on, off = both
    assert on.taken == 1
    assert on.exported.half_messages == off.exported.half_messages == {"orders": 11}
    taken = on.take_halves()
    assert (len(taken), taken) == (11, off.take_halves())
    assert on.files() == off.files()
    assert on.figures() == off.figures()


def test_half_messages_are_refused_one_by_one_if_the_broker_rejects_them(
    senders: Callable[..., tuple[Sender, Sender]],
) -> None:
    both = senders()
    warm(both)
    for one in both:
        one.settings.reject_transaction_message = True
    check(both, [send(1, b"half", text_of(HALF), f="4") + send(2)])
    assert both[0].files() == both[1].files()
    assert b"forbidden" in both[0].wire.sent


def test_each_unusual_half_message_is_left_over(senders: Callable[..., tuple[Sender, Sender]]) -> None:
    both = senders()
    warm(both)
    for more in (*({name: "1"} for name in (*OF_HALVES, *ODD_NAMES)), {"TRAN_MSG": "TRUE"}):
        for flag in ("0", "4", "8", "12", "132", "5", "-252"):
            check(both, [send(1, b"", text_of({**HALF, **more}), f=flag) + send(2)])
    check(both, [send(1, b"", f"{text_of(HALF)}TRAN_MSG\x01false\x02", f="4") + send(2)])
    check(both, [batch(1, [(0, b"x", text_of(HALF).encode())]) + send(2)])
    assert both[0].take_halves() == both[1].take_halves()
    assert both[0].files() == both[1].files()
    assert both[0].figures() == both[1].figures()


def test_half_message_whose_key_ends_like_a_crc_is_left_over(senders: Callable[..., tuple[Sender, Sender]]) -> None:
    both = senders(enabledAppendPropCRC="false")
    warm(both)
    check(both, [send(1, b"", text_of({**HALF, "UNIQ_KEY": "ab__CRC32#x1234567890"}), f="4") + send(2)])
    assert both[0].take_halves() == both[1].take_halves()
    assert both[0].files() == both[1].files()


def delayed(opaque: int, level: object, more: str = "", **changed: Any) -> bytes:
    return send(opaque, b"later", f"{text_of(USUAL)}DELAY\x01{level}\x02{more}", **changed)


def test_delayed_messages_wait_under_their_level(senders: Callable[..., tuple[Sender, Sender]]) -> None:
    both = senders(messageDelayLevel="1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
    check(both, [delayed(1, 1, e="3")])  # teaches the queue
    more = "KEYS\x01k1 k2\x02TAGS\x01t\x02", "__SHARDINGKEY\x01s\x02", "__transactionId__\x01x\x02"
    reads = [[delayed(one, level, more[one], e="3") for one in range(3)] for level in range(1, LEVELS + 1)]
    for number, read in enumerate(reads):
        for one in both:
            one.clock.set(NOW_MS + 1_000 * number)
        check(both, [b"".join([*read, send(7, e="3"), *read])])
    on, off = both
    assert (on.taken, on.both.left_over) == (LEVELS, 0)
    assert {kind for _, kind in on.exported.sent} == {"normal", "delay", "fifo"}
    assert on.store.bounds("SCHEDULE_TOPIC_XXXX", LEVELS - 1) == (0, 6)
    assert on.files() == off.files()
    assert on.figures() == off.figures()


def test_each_unusual_delayed_message_is_left_over(senders: Callable[..., tuple[Sender, Sender]]) -> None:
    both = senders(enabledAppendPropCRC="false")
    warm(both)
    for level in ("0", "-1", "01", "+1", str(LEVELS + 1), "2147483648", "1 ", "", "x", "1\x02DELAY\x012"):
        check(both, [delayed(1, level) + send(2)])
    twice = ("REAL_TOPIC\x01orders\x02", "REAL_QID\x010\x02", "a\x01b\x02c\x01d\x02a\x01e\x02", "a\x01\x02")
    for more in (*twice, "ab\x01c\x02a\x01c\x02", *(text_of({name: "1"}) for name in ODD_NAMES)):
        for flag in ("0", "4", "8", "12", "128"):
            check(both, [delayed(1, 3, more, f=flag) + send(2)])
    check(both, [batch(1, [(0, b"x", OWN + b"DELAY\x013\x02")]) + send(2)])
    check(both, [batch(1, [(0, b"x", OWN)], text_of({**USUAL, "DELAY": "3"})) + send(2)])
    assert both[0].files() == both[1].files()
    assert both[0].figures() == both[1].figures()


def test_sends_that_want_no_answer_get_none(senders: Callable[..., tuple[Sender, Sender]]) -> None:
    both = senders()
    warm(both)
    one_way = [send(9, _flag=2), batch(9, [(0, b"x", OWN)], _flag=2), send(9, _flag=2, binary=True)]
    check(both, [one_way[0] * 3, one_way[1], one_way[0] + send(1) + one_way[2] + send(2) + one_way[0]])
    assert [one.opaque for one in answered(bytes(both[0].wire.sent))] == [1, 2]
    assert (both[0].taken, both[0].both.left_over) == (3, 0)
    for one in both:
        one.settings.broker_permission = 4
    check(both, [one_way[0] + send(1) + one_way[0]])
    assert len(answered(bytes(both[0].wire.sent))) == 1
    assert both[0].files() == both[1].files()
    assert both[0].figures() == both[1].figures()


def test_batches_of_older_clients_have_no_key_of_their_own(senders: Callable[..., tuple[Sender, Sender]]) -> None:
    both = senders()
    warm(both)
    old = [(0, b"one", OWN[:-1]), (0, b"two", OWN[:-1])]
    given: list[dict[str, Any]] = [{"properties": "WAIT\x01true"}, {"properties": "WAIT\x01true", "binary": True}, {}]
    check(both, [batch(number, old, **more) for number, more in enumerate(given)])
    check(both, [b"".join(batch(number, old, **more) for number, more in enumerate(given))])
    assert [one.fields.get("transactionId") for one in answered(bytes(both[0].wire.sent))] == [None, None, "7F00B000"]
    assert (both[0].taken, both[0].both.left_over) == (4, 0)
    check(both, [send(1, properties="WAIT\x01true\x02") + send(2)])
    assert both[0].files().keys() == both[1].files().keys()
    assert both[0].figures() == both[1].figures()


def test_each_unusual_send_is_left_over(senders: Callable[..., tuple[Sender, Sender]]) -> None:
    both = senders()
    warm(both)
    for changes, binary in itertools.product(ODD_CHANGES, (False, True)):
        check(both, [send(1, binary=binary, **changes) + send(2)])
    check(both, [send(3, properties=text_of({**USUAL, "KEYS": " k1  k2 k3 "})) + send(4, _flag=2)])
    assert both[0].files() == both[1].files()
    assert both[0].figures() == both[1].figures()


def test_requests_are_answered_in_the_header_type_of_each(senders: Callable[..., tuple[Sender, Sender]]) -> None:
    both = senders()
    warm(both)
    sent = [send(number, binary=number % 2 == 1) for number in range(10)]
    sent += [batch(9, [(0, b"x", OWN), (1, b"", OWN)], binary=True), send(-1, binary=True)]
    for _ in range(2):
        check(both, [b"".join(sent[:10]), sent[10], sent[11]])
    check(both, [b"".join(sent[::2])])
    assert [one.header_type for one in answered(bytes(both[0].wire.sent))] == [0] * 5 + [1]
    assert both[0].taken == 2 * 3 + 2
    assert both[0].both.left_over == 0
    assert both[0].figures() == both[1].figures()


def test_sizes_of_sends_are_counted_by_their_bounds(senders: Callable[..., tuple[Sender, Sender]]) -> None:
    both = senders()
    warm(both)
    sent = both[0].exported.sent["orders", "normal"]
    fixed = sent.bytes // sent.messages - len(b"body")
    check(both, [b"".join(send(one, bytes(1024 - fixed + one)) for one in (-1, 0, 1))])
    assert both[0].figures() == both[1].figures()
    assert both[0].taken == 1


OWN: Final = text_of(USUAL).encode()
LARGE: Final = [b"a\x01" + b"v" * (32_767 - size) + b"\x02" for size in range(60, 300, 20)]
"""Properties around the most that a message may have."""
ODD_BATCHES: Final[list[dict[str, Any]]] = [
    {"entries": [(0, b"x", b"")]},
    {"entries": [(0, b"x", b"a\x01b\x02")]},
    {"entries": [(0, b"x", OWN[:-1]), (1, b"", OWN)]},
    {"entries": [(0, b"x", OWN + b"a\x01\xff\x02")]},
    {"entries": [(0, b"x", OWN + b"KEYS\x01k\xc3\x02")]},
    {"entries": [(0, b"x", OWN + b"TAGS\x01\xc3\xa9\x02")]},
    {"entries": [(0, b"x", OWN + b"DELAY\x013\x02")]},
    {"entries": [(0, b"x", OWN + b"INNER_NUM\x012\x02")]},
    {"entries": [(0, b"INNER_BASE", OWN)]},
    {"entries": [(0, b"__CRC32#\x01", OWN)]},
    *({"entries": [(0, b"x", OWN + one)]} for one in LARGE),
    {"entries": [(0, b"x", OWN)], "properties": text_of(USUAL) + "KEYS\x01k\x02"},
    {"entries": [(0, b"x", OWN)], "properties": "WAIT\x01true\x02"},
    {"entries": [(0, b"x", OWN)], "properties": None},
    {"entries": [(0, b"x", OWN)], "properties": "UNIQ_KEY\x01\x7f\x02"},
    {"entries": [(0, b"x", OWN)], "m": "false"},
    {"entries": [(0, b"x", OWN)], "m": None},
    {"entries": [(0, b"x", OWN)], "m": "x"},
    {"entries": [(0, b"x", OWN)], "f": "8"},
    {"entries": [(0, b"x", OWN)], "f": "16"},
    {"entries": [(0, b"x", OWN)], "f": "32"},
    {"entries": [(0, b"x", OWN)], "f": "128"},
    {"entries": [(0, b"x", OWN)], "e": "-1"},
    {"entries": [(0, b"x", OWN)], "_flag": 2},
    {"entries": [], "body": b""},
    {"entries": [], "body": b"\0" * 21},
    {"entries": [], "body": (22).to_bytes(4, "big") + bytes(12) + b"\xff" * 4 + bytes(2)},
    {"entries": [], "body": (23).to_bytes(4, "big") + bytes(18)},
    {"entries": [], "body": (23 + len(OWN)).to_bytes(4, "big") + bytes(16) + len(OWN).to_bytes(2, "big") + OWN + b"\0"},
    {"entries": [], "body": (22).to_bytes(4, "big") + bytes(16) + b"\0\x05"},
    {"entries": [(0, b"x" * 60_000, OWN), (0, b"y" * 70_000, OWN)]},
]


def test_each_unusual_batch_is_stored_and_answered_as_without_the_kernel(
    senders: Callable[..., tuple[Sender, Sender]],
) -> None:
    both = senders()
    warm(both)
    for changes in ODD_BATCHES:
        check(both, [batch(1, **changes) + send(2)])
    assert both[0].files() == both[1].files()
    assert both[0].figures() == both[1].figures()


def test_batches_of_one_read_are_taken_together_and_go_on_in_the_next_file(
    senders: Callable[..., tuple[Sender, Sender]],
) -> None:
    both = senders()
    warm(both)
    large = 0, bytes(9000), OWN + b"KEYS\x01a b\x02TAGS\x01t\x02"  # where a file ends
    check(both, [b"".join(batch(one, [(one, bytes(one), OWN), large], e=str(one % 3)) for one in range(60))])
    assert both[0].taken == 1
    assert both[0].files() == both[1].files()
    assert both[0].figures() == both[1].figures()
    assert len(list((both[0].root / "commitlog").iterdir())) > 1


@pytest.mark.parametrize(
    ("attributes", "is_taken"),
    [
        ({"message.type": "NORMAL"}, True),
        ({"queue.type": "BatchCQ"}, False),
        ({"cleanup.policy": "COMPACTION"}, False),
    ],
)
def test_topic_with_attributes_is_left_over_if_they_concern_sends(
    senders: Callable[..., tuple[Sender, Sender]], attributes: dict[str, str], is_taken: bool
) -> None:
    both = senders()
    for one in both:
        one.store.topic_table.put(TopicConfig("typed", QUEUES, QUEUES, 6, attributes=attributes))
    keyed = text_of({**USUAL, "KEYS": "k"})
    for _ in range(3):
        check(both, [send(1, b="typed", properties=keyed) + send(2, b="typed") + batch(3, [(0, b"x", OWN)], b="typed")])
    assert (both[0].taken > 0) is is_taken
    assert both[0].files() == both[1].files()


def test_records_of_one_read_go_on_in_the_next_file(senders: Callable[..., tuple[Sender, Sender]]) -> None:
    both = senders()
    warm(both)
    check(both, [b"".join(send(one, bytes(4000 + one)) for one in range(80))])
    assert both[0].taken == 1
    assert both[0].files() == both[1].files()
    assert len(list((both[0].root / "commitlog").iterdir())) > 2


def test_mutated_frames_are_answered_as_without_the_kernel(senders: Callable[..., tuple[Sender, Sender]]) -> None:
    both = senders()
    warm(both)
    rows, keyed = random.Random(5), text_of({**USUAL, "KEYS": "k é", "TAGS": "t"})
    entries = [(0, b"x", keyed.encode()), (1, b"", OWN)]
    good = (
        *(send(1, properties=keyed, ascii=False), batch(1, entries)),
        *(send(1, properties=keyed, binary=True), batch(1, entries, binary=True)),
    )
    for number in range(some(20_000)):
        data = bytearray(good[number % 4])
        for _ in range(rows.randrange(1, 3)):
            data[rows.randrange(8, len(data))] = rows.choice([*b'"\\{}:,0123456789-\x01\x02u', rows.randrange(256)])
        check(both, [bytes(data)])  # alone: one that makes a topic waits for a thread
    assert both[0].files() == both[1].files()


def test_kernel_stays_within_hostile_bytes(senders: Callable[..., tuple[Sender, Sender]]) -> None:
    on, _ = senders()
    on.feed(send(1))
    take, rows = on.both.taker("127.0.0.1:1"), random.Random(6)
    assert take is not None
    entries = [(0, b"x", OWN), (1, b"", OWN)]
    usual = send(1), batch(1, entries), send(1, binary=True), batch(1, entries, binary=True)
    for number in range(some(100_000)):
        good = usual[number % 4]
        data = bytearray(
            good[: rows.choice([len(good), rows.randrange(len(good) + 1)])] + rows.randbytes(rows.choice([0, 8]))
        )
        for _ in range(rows.randrange(4)):
            if data:
                data[rows.randrange(len(data))] = rows.randrange(256)
        found = take(bytes(data), rows.randrange(-2, len(data) + 3))
        assert found is None or found.end <= len(data)


def answered(data: bytes) -> list[Command]:
    return [decode_command(one) for one in FrameReceiver().feed(data)]


def test_queue_is_taken_once_it_has_a_message_and_until_its_topic_changes(
    senders: Callable[..., tuple[Sender, Sender]],
) -> None:
    on, _ = senders()
    on.feed(send(1))
    assert on.taken == 0
    on.feed(send(2) + send(3))
    assert on.taken == 1
    on.store.topic_table.put(TopicConfig("orders", 1, 1, 6))
    refused = answered(on.feed(send(4)))
    assert [one.code for one in refused] == [ResponseCode.INVALID_PARAMETER]
    assert on.taken == 1


def test_sends_are_refused_by_the_permission_of_the_broker(senders: Callable[..., tuple[Sender, Sender]]) -> None:
    on, _ = senders()
    on.feed(send(1))
    on.settings.broker_permission = 4
    assert [one.code for one in answered(on.feed(send(2) + send(3)))] == [ResponseCode.NO_PERMISSION] * 2
    assert on.taken == 0


def no_space(gate: object) -> None:
    """Refuse a put as a store on a full disk does."""
    raise StoreFullError(Path("store"), "no space")


@pytest.mark.parametrize("status", [PutMessageStatus.FLUSH_DISK_TIMEOUT, PutMessageStatus.SERVICE_NOT_AVAILABLE])
def test_each_of_several_sends_is_answered_if_they_are_late_or_refused(
    senders: Callable[..., tuple[Sender, Sender]], monkeypatch: pytest.MonkeyPatch, status: PutMessageStatus
) -> None:
    both = senders(flushDiskType="SYNC_FLUSH")
    warm(both)
    for one in both:
        if status is PutMessageStatus.FLUSH_DISK_TIMEOUT:
            monkeypatch.setattr(one.store, "flush_to", lambda end, timeout_s: False)
        else:
            monkeypatch.setattr("rocketflow_store.append.write_gate.WriteGate.check", no_space)
            monkeypatch.setattr("rocketflow_store.append.write_gate.WriteGate.is_shut", True)
    reads = [b"".join(send(one, e=str(one % 2)) for one in range(5))]
    on, off = ([(one.opaque, one.code, one.fields) for one in answered(sender.feed(*reads))] for sender in both)
    assert both[0].taken == 1
    assert on == off
    assert [code for _, code, _ in on] == [ResponseCode[status.name]] * 5


def test_no_more_sends_are_taken_together_than_may_wait(
    senders: Callable[..., tuple[Sender, Sender]], monkeypatch: pytest.MonkeyPatch
) -> None:
    both = senders()
    warm(both)
    monkeypatch.setattr("rocketflow.broker.puts.put_gatherer.MAX_OPEN", 5)
    reads = [b"".join(send(one) for one in range(first, first + 5)) for first in (0, 5)]
    on, off = ([(one.opaque, one.code) for one in answered(sender.feed(*reads, pause=False))] for sender in both)
    assert sorted(on) == sorted(off)
    assert {opaque for opaque, code in on if code == ResponseCode.SYSTEM_BUSY} == {5, 6, 7, 8, 9}
    assert both[0].gatherer.is_idle
    assert both[0].gatherer.has_room


def test_no_run_has_more_sends_than_an_append(senders: Callable[..., tuple[Sender, Sender]]) -> None:
    both = senders()
    warm(both)
    check(both, [b"".join(send(one, b"") for one in range(1_500))])
    check(both, [b"".join(send(one, bytes(1 << 16)) for one in range(70))])
    assert both[0].taken == 4
    assert both[0].files() == both[1].files()


def test_sends_that_wait_too_long_are_refused_one_by_one(
    senders: Callable[..., tuple[Sender, Sender]], monkeypatch: pytest.MonkeyPatch
) -> None:
    on, _ = senders()
    on.feed(send(1))
    on.wait_limit_s = -1.0
    refused = answered(on.feed(send(2) + send(3)))
    assert [(one.opaque, one.code) for one in refused] == [(2, ResponseCode.SYSTEM_BUSY), (3, ResponseCode.SYSTEM_BUSY)]
    assert all("TIMEOUT_CLEAN_QUEUE" in str(one.remark) for one in refused)


def test_result_of_several_sends_is_that_of_all(senders: Callable[..., tuple[Sender, Sender]]) -> None:
    on, _ = senders()
    on.feed(send(1))
    results: list[PutMessageResult] = []
    add = on.gatherer.add_run

    def noting(run: Any, answer: Any, refuse: Any) -> None:
        def answer_noted(result: PutMessageResult) -> None:
            results.append(result)
            answer(result)

        add(run, answer_noted, refuse)

    on.gatherer.add_run = noting  # type: ignore[method-assign]
    on.feed(send(2) + send(3))
    (found,) = results
    assert (found.status, found.message_count) == (PutMessageStatus.PUT_OK, 2)
    assert on.store.config.flush_disk_type is FlushDiskType.ASYNC_FLUSH
