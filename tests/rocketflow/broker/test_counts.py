"""Counts of messages by topic and group, and their limits."""

from __future__ import annotations

import pytest

from rocketflow.broker.figures.counts import MAX_DEAD, MAX_DELAYED, MAX_PULLED, MAX_SENT, OTHER, Counts, message_type


def test_messages_and_bytes_of_requests_are_added_up() -> None:
    counts = Counts()
    counts.send("t", b"", 32, 6400)
    counts.send("t", b"KEYS\x01k\x02", 1, 5000)
    sent = counts.sent["t", "normal"]
    assert (sent.messages, sent.bytes, sent.sizes.counts) == (33, 11_400, [1, 0, 1, 0, 0, 0, 0])
    counts.pull("g", "t", 3, 900)
    counts.pull("g", "t", 1, 300)
    assert (counts.pulled["g", "t"].messages, counts.pulled["g", "t"].bytes) == (4, 1200)


def test_tables_end_at_their_limits_and_later_names_count_together() -> None:
    counts = Counts()
    for number in range(MAX_PULLED + 50):
        counts.send(f"t{number}", b"", 1, 10)
        counts.pull(f"g{number}", "t", 2, 20)
        counts.dead_letter(f"g{number}")
        counts.delay(f"t{number}", 90.0)
    assert len(counts.sent) == MAX_SENT + 1
    assert len(counts.pulled) == MAX_PULLED + 1
    assert len(counts.dead) == MAX_DEAD + 1
    assert len(counts.delays) == MAX_DELAYED + 1
    assert counts.delays[OTHER].counts == [0, MAX_PULLED + 50 - MAX_DELAYED, 0, 0, 0, 0, 0]
    assert sum(one.messages for one in counts.sent.values()) == MAX_PULLED + 50
    assert counts.pulled[OTHER, OTHER].messages == 100
    assert counts.dead[OTHER] == MAX_PULLED + 50 - MAX_DEAD
    counts.send("t0", b"", 1, 10)
    assert counts.sent["t0", "normal"].messages == 2


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        (b"", "normal"),
        (b"KEYS\x01DELAY\x02TAGS\x01__SHARDINGKEY\x02", "normal"),
        (b"XDELAY\x011\x02", "normal"),
        (b"DELAY\x013\x02", "delay"),
        (b"TAGS\x01a\x02TIMER_DELAY_MS\x0110\x02", "delay"),
        (b"DELAY\x013\x02__SHARDINGKEY\x01k\x02", "fifo"),
    ],
)
def test_the_type_of_a_message_is_that_of_rocketmq(properties: bytes, kind: str) -> None:
    assert message_type(properties) == kind
