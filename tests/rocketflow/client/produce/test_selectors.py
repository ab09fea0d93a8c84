"""Selectors of queues; hashes are compared with those that Java has printed."""

from __future__ import annotations

import pytest

from rocketflow.client.produce.errors import BadMessageError
from rocketflow.client.produce.selectors import at_random, by_sharding_key, java_remainder
from rocketflow.remoting.bodies import MessageQueue
from rocketflow_store.spi.ids import string_hash
from rocketflow_store.spi.messages import Message

QUEUES = [MessageQueue("t", "a", number) for number in range(5)]
JAVA = {"": 0, "TagA": 2598919, "polygenelubricants": -(2**31), "日本": 835047, "😀": 1772899, "order-42": 1234255197}


@pytest.mark.parametrize("text", JAVA)
def test_hashes_are_those_of_java(text: str) -> None:
    assert string_hash(text) == JAVA[text]


def test_a_remainder_has_no_sign() -> None:
    assert [java_remainder(number, 5) for number in (7, -7, -(2**31))] == [2, 2, 3]


def test_a_sharding_key_has_one_queue() -> None:
    keys = [f"key-{number}" for number in range(100)]
    chosen = [by_sharding_key(QUEUES, Message("t", b"b", sharding_key=one)) for one in keys]
    assert chosen == [by_sharding_key(QUEUES, Message("t", b"other", sharding_key=one)) for one in keys]
    assert set(chosen) == set(QUEUES)
    with pytest.raises(BadMessageError, match="sharding_key"):
        by_sharding_key(QUEUES, Message("t", b"b"))


def test_random_queues_are_all_of_them() -> None:
    assert {at_random(QUEUES, Message("t", b"b")) for _ in range(500)} == set(QUEUES)
