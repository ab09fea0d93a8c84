"""The gatherer of puts with a store that the test controls: each message is answered or refused once."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from typing import TYPE_CHECKING, cast

import pytest

from rocketflow.broker.puts.put_gatherer import (
    MAX_OPEN,
    PC_SYNCHRONIZED,
    PCBUSY_CLEAN_QUEUE,
    SLOW_SECONDS,
    TIMEOUT_CLEAN_QUEUE,
    PutGatherer,
)
from rocketflow.remoting.codes import ResponseCode
from rocketflow_store import PutMessageResult, PutMessageStatus, StoreClosedError, StoreFencedError
from rocketflow_store.model.broker_requests import PutState
from rocketflow_store.spi.broker import AppendedRun, RawMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocketflow_store.spi.broker import WritingStore


class Store:
    """Counts offsets; `busy` makes the put lock look taken, and `wait` waits for it.

    `failure` is raised by each append, `sync_failure` by each sync, `publish_failure` by each `publish`;
    without `is_synced` a sync is late.
    `state` is how long the put that is being appended has held the lock (ms), and whether that is too long.
    """

    def __init__(self) -> None:
        self.busy = False
        self.failure: Exception | None = None
        self.sync_failure: Exception | None = None
        self.publish_failure: Exception | None = None
        self.is_synced = True
        self.runs: list[int] = []
        self.end = 0
        self.published = 0
        self.wait: Callable[[], object] = lambda: None
        self.state = (0, False)

    def put_state(self) -> PutState:
        return PutState(False, False, False, *self.state, "")

    def try_append(self, messages: Sequence[RawMessage]) -> AppendedRun | None:
        return None if self.busy else self.append(messages)

    def append(self, messages: Sequence[RawMessage]) -> AppendedRun:
        self.wait()
        if self.failure is not None:
            raise self.failure
        self.runs.append(len(messages))
        results = []
        for one in messages:
            results.append(
                PutMessageResult(PutMessageStatus.PUT_OK, one.topic, one.queue_id, self.end, self.end, "", 0)
            )
            self.end += 1
        return AppendedRun(results, self.end)

    def publish(self, end: int) -> None:
        if self.publish_failure is not None:
            raise self.publish_failure
        self.published = end

    def flush_to(self, end: int, timeout_s: float) -> bool:
        if self.sync_failure is not None:
            raise self.sync_failure
        return self.is_synced


class Outcomes:
    """The answers and refusals that the gatherer has given."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.statuses: list[PutMessageStatus] = []
        self.refused: list[tuple[int, str]] = []

    def put(self, gatherer: PutGatherer, body: bytes = b"x") -> None:
        message = RawMessage("t", 0, body, b"", 0, 0, 0, bytes(8))
        gatherer.add(
            message,
            self._answered,
            lambda error: self.refused.append((error.code, error.remark)),
        )

    def _answered(self, result: PutMessageResult) -> None:
        self.offsets.append(result.queue_offset)
        self.statuses.append(result.status)


def gatherer_of(store: Store, wait_limit_s: float | None = 5.0, sync_timeout_s: float | None = None) -> PutGatherer:
    return PutGatherer(cast("WritingStore", store), sync_timeout_s=sync_timeout_s, wait_limit_s=lambda: wait_limit_s)


async def settled(gatherer: PutGatherer) -> None:
    async with asyncio.timeout(20):
        while not gatherer.is_idle:
            await asyncio.sleep(0)


@pytest.mark.parametrize("busy", [False, True])
def test_messages_of_one_iteration_are_one_run_and_answered_in_order(busy: bool) -> None:
    async def trial() -> None:
        store, outcomes = Store(), Outcomes()
        store.busy = busy
        gatherer = gatherer_of(store)
        for _ in range(50):
            outcomes.put(gatherer)
        await settled(gatherer)
        assert store.runs == [50]
        assert outcomes.offsets == list(range(50))
        assert store.published == 50
        await gatherer.finish(1)

    asyncio.run(trial())


@pytest.mark.parametrize("busy", [False, True])
def test_a_failure_of_the_store_refuses_the_run_with_14_and_the_next_run_is_tried(busy: bool) -> None:
    async def trial() -> None:
        store, outcomes = Store(), Outcomes()
        store.busy, store.failure = busy, StoreClosedError("s")
        gatherer = gatherer_of(store)
        outcomes.put(gatherer)
        outcomes.put(gatherer)
        await settled(gatherer)
        assert [code for code, _ in outcomes.refused] == [ResponseCode.SERVICE_NOT_AVAILABLE] * 2
        store.failure = None
        outcomes.put(gatherer)
        await settled(gatherer)
        assert outcomes.offsets == [0]
        await gatherer.finish(1)

    asyncio.run(trial())


@pytest.mark.parametrize("failure", [None, StoreFencedError("s", "sync")])
def test_messages_in_the_log_whose_sync_fails_or_is_late_are_not_refused(failure: Exception | None) -> None:
    async def trial() -> None:
        store, outcomes = Store(), Outcomes()
        store.sync_failure, store.is_synced = failure, False
        gatherer = gatherer_of(store, sync_timeout_s=1.0)
        outcomes.put(gatherer)
        outcomes.put(gatherer)
        await settled(gatherer)
        assert outcomes.refused == []
        assert outcomes.offsets == [0, 1]
        assert outcomes.statuses == [PutMessageStatus.FLUSH_DISK_TIMEOUT] * 2
        await gatherer.finish(1)

    asyncio.run(trial())


def test_messages_in_the_log_that_readers_do_not_see_are_neither_acknowledged_nor_refused() -> None:
    async def main() -> None:
        store, outcomes = Store(), Outcomes()
        store.publish_failure = StoreFencedError("store", "a sync failed")
        gatherer = gatherer_of(store)
        outcomes.put(gatherer)
        await settled(gatherer)
        assert outcomes.statuses == [PutMessageStatus.FLUSH_DISK_TIMEOUT]
        assert not outcomes.refused

    asyncio.run(main())


def test_messages_above_the_limit_are_refused_with_2() -> None:
    async def trial() -> None:
        store, outcomes = Store(), Outcomes()
        gatherer = gatherer_of(store)
        for _ in range(MAX_OPEN + 3):
            outcomes.put(gatherer)
        assert [code for code, _ in outcomes.refused] == [ResponseCode.SYSTEM_BUSY] * 3
        await settled(gatherer)
        assert outcomes.offsets == list(range(MAX_OPEN))
        await gatherer.finish(1)

    asyncio.run(trial())


def test_messages_that_have_waited_too_long_are_refused_with_2() -> None:
    async def trial() -> None:
        store, outcomes = Store(), Outcomes()
        gatherer = gatherer_of(store, wait_limit_s=-1)
        outcomes.put(gatherer)
        await settled(gatherer)
        assert [code for code, _ in outcomes.refused] == [ResponseCode.SYSTEM_BUSY]
        assert store.runs == []
        await gatherer.finish(1)

    asyncio.run(trial())


def test_messages_that_waited_for_the_put_lock_of_a_commit_are_not_refused() -> None:
    async def trial() -> None:
        store, outcomes, free = Store(), Outcomes(), threading.Event()
        store.busy, store.wait = True, lambda: free.wait(30)
        gatherer = gatherer_of(store, wait_limit_s=0.1)
        outcomes.put(gatherer)
        await asyncio.sleep(0.05)
        outcomes.put(gatherer)
        await asyncio.sleep(0.4)
        assert outcomes.refused == []
        store.busy = False
        free.set()
        await settled(gatherer)
        assert (outcomes.offsets, outcomes.refused) == ([0, 1], [])
        await gatherer.finish(1)

    asyncio.run(trial())


class Stall:
    """A gatherer whose appends run in the thread, and an append there that does not end before `release` is set."""

    def __init__(self, wait_limit_s: float | None) -> None:
        self.store, self.outcomes, self.release = Store(), Outcomes(), threading.Event()
        self.gatherer = gatherer_of(self.store, wait_limit_s)

    async def begin(self) -> None:
        """Put a message whose append is slow, and one whose append hangs."""
        self.store.wait = lambda: time.sleep(SLOW_SECONDS + 0.01)
        self.outcomes.put(self.gatherer)
        await settled(self.gatherer)
        self.store.wait = lambda: self.release.wait(30)
        self.outcomes.put(self.gatherer)
        await asyncio.sleep(0.05)

    async def refused(self, count: int) -> list[tuple[int, str]]:
        async with asyncio.timeout(20):
            while len(self.outcomes.refused) < count:
                await asyncio.sleep(0.005)
        return self.outcomes.refused

    async def end(self) -> list[int]:
        """Let the append end; return the offsets of all messages that were stored."""
        self.release.set()
        await settled(self.gatherer)
        await self.gatherer.finish(1)
        return self.outcomes.offsets


def test_messages_that_wait_for_an_append_that_hangs_are_refused_before_it_ends() -> None:
    async def trial() -> None:
        stall = Stall(wait_limit_s=0.1)
        await stall.begin()
        for _ in range(3):
            stall.outcomes.put(stall.gatherer)
        for code, remark in await stall.refused(3):
            assert code == ResponseCode.SYSTEM_BUSY
            assert re.fullmatch(
                re.escape(TIMEOUT_CLEAN_QUEUE) + r", period in queue: \d{3,}ms, size of queue: 0", remark
            )
        assert stall.gatherer.waiting_count == 0
        assert await stall.end() == [0, 1]

    asyncio.run(trial())


def test_messages_are_refused_while_a_put_holds_the_lock_for_too_long() -> None:
    async def trial() -> None:
        stall = Stall(wait_limit_s=5.0)
        await stall.begin()
        stall.outcomes.put(stall.gatherer)
        stall.store.state = (1001, True)
        assert (await stall.refused(1))[0][1].startswith(PCBUSY_CLEAN_QUEUE)
        stall.outcomes.put(stall.gatherer)
        assert stall.outcomes.refused[1:] == [(ResponseCode.SYSTEM_BUSY, PC_SYNCHRONIZED)]
        stall.release.set()
        await settled(stall.gatherer)
        stall.store.state = (0, False)
        stall.outcomes.put(stall.gatherer)
        assert await stall.end() == [0, 1, 2]

    asyncio.run(trial())


def test_without_fast_failure_messages_wait_and_new_ones_are_refused_while_the_lock_is_held_for_too_long() -> None:
    async def trial() -> None:
        stall = Stall(wait_limit_s=None)
        await stall.begin()
        stall.outcomes.put(stall.gatherer)
        stall.store.state = (1001, True)
        await asyncio.sleep(0.1)
        stall.outcomes.put(stall.gatherer)
        assert stall.outcomes.refused == [(ResponseCode.SYSTEM_BUSY, PC_SYNCHRONIZED)]
        assert await stall.end() == [0, 1, 2]

    asyncio.run(trial())


def test_the_time_of_an_append_that_hangs_after_a_commit_counts() -> None:
    async def trial() -> None:
        store, outcomes, free = Store(), Outcomes(), threading.Event()
        store.busy, store.wait = True, lambda: free.wait(30)
        gatherer = gatherer_of(store, wait_limit_s=0.1)
        outcomes.put(gatherer)
        await asyncio.sleep(0.05)
        outcomes.put(gatherer)
        await asyncio.sleep(0.2)
        assert outcomes.refused == []
        began = time.monotonic()
        async with asyncio.timeout(20):
            while not outcomes.refused:
                store.state = (int((time.monotonic() - began) * 1000), False)
                await asyncio.sleep(0.005)
        assert time.monotonic() - began >= 0.1
        free.set()
        await settled(gatherer)
        assert outcomes.offsets == [0]
        await gatherer.finish(1)

    asyncio.run(trial())


def test_a_stopped_gatherer_answers_what_waits_and_refuses_the_rest_with_14() -> None:
    async def trial() -> None:
        store, outcomes = Store(), Outcomes()
        gatherer = gatherer_of(store)
        outcomes.put(gatherer)
        await gatherer.finish(5)
        outcomes.put(gatherer)
        assert outcomes.offsets == [0]
        assert [code for code, _ in outcomes.refused] == [ResponseCode.SERVICE_NOT_AVAILABLE]

    asyncio.run(trial())
