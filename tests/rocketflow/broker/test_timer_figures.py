"""Figures of timer messages, of a service that a test runs over its own store."""

from __future__ import annotations

import time
from pathlib import Path

from rocketflow.broker.figures.timer_figures import TimerFigures, TimerReading
from rocketflow_store import Message, StoreConfig
from rocketflow_store.spi.broker import WritingStore, open_store
from rocketflow_store.spi.delivery import SOON_S, TimerMessageService
from rocketflow_store.spi.names import TIMER_TOPIC

CONFIG = StoreConfig(mapped_file_size_commit_log=1 << 20, max_hash_slot_num=500, max_index_num=4_000)


def put(store: WritingStore, seconds: int) -> int:
    """Put a message that is due so many seconds from now; return its place in the timer topic."""
    result = store.put_message(Message("t", b"x", properties={"TIMER_DELAY_SEC": str(seconds)}))
    assert result.stored, result
    return result.queue_offset


def wait_until_taken_in(service: TimerMessageService, count: int) -> None:
    for _ in range(3_000):
        if service.counts.taken == count:
            return
        service.wake()
        time.sleep(0.01)
    raise AssertionError(service.error)


def test_messages_that_a_service_has_not_taken_in_lag_and_those_on_its_wheel_wait(tmp_path: Path) -> None:
    with open_store(tmp_path / "s", CONFIG, store_host="127.0.0.1:1") as store:
        deliveries: dict[str, object] = {}
        figures = TimerFigures(store, deliveries)
        assert (figures.read(0), figures.rates()) == (TimerReading(), (0.0, 0.0))
        with TimerMessageService(store) as service:
            deliveries["timer"] = service
            figures.sample(100.0)
            for _ in range(4):
                put(store, 600)
            wait_until_taken_in(service, 4)
        figures.sample(102.0)
        assert figures.rates() == (2.0, 0.0)
        offset = put(store, 600)  # the service has stopped
        stored_ms = store.stored_times(TIMER_TOPIC, {0: offset})[0]
        read_ms = service.state().read_ms
        found = figures.read(max(stored_ms, read_ms) + 5_000)
        assert (found.enqueue_lag, found.waiting) == (1, 4)
        assert found.enqueue_latency_ms == max(stored_ms, read_ms) + 5_000 - stored_ms
        assert found.dequeue_latency_ms == max(stored_ms, read_ms) + 5_000 - read_ms
        assert dict(zip(SOON_S, found.soon, strict=True)) == {one: 4 if one == 900 else 0 for one in SOON_S}
        for second in range(20):
            figures.sample(200.0 + second)
        assert figures.rates() == (0.0, 0.0)
