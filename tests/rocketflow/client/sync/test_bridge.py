"""The bridge between callers in threads and clients in the event loop."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rocketflow.client.errors import ClientStateError
from rocketflow.client.sync.bridge import LOOP, SyncClient, in_thread


class Doubler:
    """An asyncio client that records where it runs."""

    def __init__(self) -> None:
        self.made_in = asyncio.get_running_loop()
        self.calls: list[str] = []

    async def start(self) -> None:
        self.calls.append("start")

    async def close(self) -> None:
        self.calls.append("close")

    async def double(self, number: int) -> int:
        await asyncio.sleep(0.01)
        assert asyncio.get_running_loop() is self.made_in
        if number < 0:
            raise ValueError("negative")
        return 2 * number


class SyncDoubler(SyncClient[Doubler]):
    def __init__(self) -> None:
        super().__init__(Doubler)

    @property
    def calls(self) -> list[str]:
        return self._client.calls

    def double(self, number: int) -> int:
        return self._wait(self._client.double(number))


def test_threads_share_the_loop_and_a_block_starts_and_closes() -> None:
    with SyncDoubler() as one, SyncDoubler() as other, ThreadPoolExecutor(16) as pool:
        assert list(pool.map(one.double, range(100))) == [2 * number for number in range(100)]
        assert other.double(4) == 8
        assert one.calls == ["start"]
    assert one.calls == ["start", "close"]
    assert [one.name for one in threading.enumerate()].count("rocketflow-clients") == 1


def test_errors_reach_the_caller() -> None:
    with SyncDoubler() as one, pytest.raises(ValueError, match="negative"):
        one.double(-1)


def test_call_from_the_loop_is_refused_where_it_would_wait_for_ever() -> None:
    with SyncDoubler() as one:

        async def call() -> int:
            return one.double(1)

        with pytest.raises(ClientStateError, match="call it in a thread"):
            LOOP.wait(call())


def test_listener_in_a_thread_may_call_a_synchronous_client() -> None:
    with SyncDoubler() as one:

        async def call() -> int:
            return await in_thread(one.double)(21)

        assert LOOP.wait(call()) == 42


def forked() -> None:
    with SyncDoubler() as one:
        raise SystemExit(one.double(3))


def test_forked_process_has_a_loop_of_its_own() -> None:
    with SyncDoubler() as one:
        assert one.double(1) == 2
        child = multiprocessing.get_context("fork").Process(target=forked)
        child.start()
        child.join(30)
        assert child.exitcode == 6
