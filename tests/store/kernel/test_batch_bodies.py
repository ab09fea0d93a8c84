"""Clients' batches have the same body, keys and refusals with the kernel and without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocketflow_store import Message
from rocketflow_store.format import batch_body as bodies
from rocketflow_store.format.batch_body import batch_body, decode_batch_body, usual_batch
from rocketflow_store.format.properties import MAX_PROPERTIES_SIZE
from rocketflow_store.kernel import COMPILED
from tests.support.kernel_switch import without_kernel

pytestmark = pytest.mark.skipif(COMPILED is None, reason="this machine has no compiled kernel")

PREFIX: Final = "7F0000010001" + "A" * 8
TICK: Final = 0x0123456789AB
MOST: Final = 4096
PLAIN: Final = st.sampled_from(["", "a", "k1 k2", " k  l ", "键", "😀", "order-17"])
USUAL: Final = st.builds(
    Message,
    topic=st.just("t"),
    body=st.binary(min_size=1, max_size=300),
    tags=PLAIN,
    keys=PLAIN | st.lists(PLAIN, max_size=3),
    properties=st.dictionaries(st.sampled_from(["a", "zone", "名", "WAIT"]), PLAIN, max_size=2),
    flag=st.integers(-(1 << 31), (1 << 31) - 1),
    uniq_key=st.sampled_from(["", "", "id-1", "键"]),
)


def by_python(messages: Sequence[Message]) -> tuple[bytes, str]:
    """Return body and joined keys as Python makes them."""
    for number, one in enumerate(messages):
        if not one.uniq_key:
            one.uniq_key = f"{PREFIX}{TICK + number:012X}"
    return batch_body(messages), ",".join(one.uniq_key for one in messages)


def copy(message: Message, **changed: Any) -> Message:
    """Return a message with the same attributes but those that are given."""
    made = Message(message.topic, message.body)
    for name in Message.__slots__:
        setattr(made, name, changed.get(name, getattr(message, name)))
    return made


@given(st.lists(USUAL, min_size=1, max_size=8))
@example([Message("t", b"b" * 2000), Message("t", b"c" * 1000, tags="x" * 1100)])
def test_body_and_keys_of_usual_messages_are_those_of_python(messages: list[Message]) -> None:
    ours, theirs = messages, [copy(one) for one in messages]
    found = usual_batch(ours, "t", MOST, (PREFIX, TICK))
    expected = by_python(theirs)
    assert found == (expected if len(expected[0]) <= MOST else None)
    if found is not None:
        assert ours == theirs
        assert len(decode_batch_body(found[0])) == len(messages)


def test_message_that_is_there_twice_has_one_key() -> None:
    one = Message("t", b"b")
    expected = by_python([copy(one)])
    found = usual_batch([one, one], "t", MOST, (PREFIX, TICK))
    assert found == (expected[0] * 2, f"{expected[1]},{expected[1]}")


@pytest.mark.parametrize(
    "odd",
    [
        {"topic": "u"},
        {"topic": None},
        {"body": b""},
        {"body": b"x" * (MOST + 1)},
        {"body": bytearray(b"b")},
        {"body": None},
        {"queue_id": 0},
        {"born_timestamp": 1},
        {"born_host": "1.2.3.4:5"},
        {"sharding_key": "s"},
        {"sys_flag": 1},
        {"reconsume_times": 1},
        {"prepared_transaction_offset": 1},
        {"delay_level": 1},
        {"delay_s": 1},
        {"delay_ms": 1},
        {"deliver_at_ms": 1},
        {"flag": 1 << 31},
        {"flag": 1.0},
        {"properties": {"UNIQ_KEY": "mine"}},
        {"properties": {"KEYS": "k"}},
        {"properties": {"TAGS": "t"}},
        {"properties": {"": "v"}},
        {"properties": {"a": "\x01"}},
        {"properties": {"a": "\ud800"}},
        {"properties": {"a": None}},
        {"properties": {"a": "x" * MAX_PROPERTIES_SIZE}},
        {"keys": ("a",)},
        {"keys": ["a\x02"]},
        {"keys": [None]},
        {"tags": "\x02"},
        {"tags": None},
        {"uniq_key": "\x01"},
        {"uniq_key": None},
    ],
)
def test_unusual_message_leaves_its_batch_over_and_changes_nothing(odd: dict[str, Any]) -> None:
    messages = [Message("t", b"first"), copy(Message("t", b"second"), **odd)]
    before = [copy(one) for one in messages]
    most = MOST if "properties" not in odd else 1 << 20
    assert usual_batch(messages, "t", most, (PREFIX, TICK)) is None
    assert messages == before


def test_what_is_no_list_of_messages_is_left_over() -> None:
    class Own(Message):
        pass

    one = Message("t", b"b")
    assert usual_batch([Own("t", b"b")], "t", MOST, (PREFIX, TICK)) is None
    assert usual_batch({one.topic: one}.values(), "t", MOST, (PREFIX, TICK)) is None  # type: ignore[arg-type]
    assert usual_batch([one], "t", MOST, (PREFIX, 1 << 48)) is None
    with without_kernel(bodies):
        assert usual_batch([one], "t", MOST, (PREFIX, TICK)) is None
    assert not one.uniq_key
