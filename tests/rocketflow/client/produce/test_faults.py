"""Brokers that are avoided, by RocketMQ's tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow.client.produce.faults import BrokerFaults, not_available_ms

ROCKETMQ = [
    *[(0, 0), (49, 0), (50, 0), (549, 0), (550, 2000), (1799, 2000), (1800, 5000), (3000, 6000), (4999, 6000)],
    *[(5000, 10_000), (10_000, 10_000), (14_999, 10_000), (15_000, 30_000), (10**9, 30_000)],
]


@pytest.mark.parametrize(("latency_ms", "pause_ms"), ROCKETMQ)
def test_pauses_are_those_of_rocketmq(latency_ms: int, pause_ms: int) -> None:
    assert not_available_ms(latency_ms) == pause_ms


def test_a_slow_broker_is_avoided_for_its_pause() -> None:
    faults = BrokerFaults()
    faults.note("a", 600, 1_000)
    assert [faults.is_available("a", now) for now in (1_000, 2_999, 3_000)] == [False, False, True]
    assert faults.is_reachable("a")
    assert faults.is_available("b", 0)


def test_a_failed_send_counts_as_ten_seconds_and_a_refusal_as_unreachable_until_a_success() -> None:
    faults = BrokerFaults()
    faults.note("a", 1, 0, failed=True)
    faults.note("b", 1, 0, is_refused=True)
    assert [faults.is_available(name, 9_999) for name in "ab"] == [False, False]
    assert [faults.is_available(name, 10_000) for name in "ab"] == [True, True]
    assert [faults.is_reachable(name) for name in "ab"] == [True, False]
    faults.note("b", 1, 20_000)
    assert faults.is_reachable("b")


@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 5_000)), min_size=1, max_size=8))
def test_a_later_send_never_shortens_a_pause(sends: list[tuple[int, int]]) -> None:
    faults, now, latest = BrokerFaults(), 0, 0
    for latency_ms, after_ms in sends:
        now += after_ms
        faults.note("a", latency_ms, now)
        latest = max(latest, now + not_available_ms(latency_ms) if not_available_ms(latency_ms) else 0)
    assert faults.is_available("a", latest)
    assert latest == 0 or not faults.is_available("a", latest - 1)
