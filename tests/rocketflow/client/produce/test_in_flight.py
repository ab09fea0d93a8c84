"""Limits on what waits for answers."""

from __future__ import annotations

import asyncio
import random

import pytest

from rocketflow.aio.loop import run
from rocketflow.client.errors import NoRoomError
from rocketflow.client.produce.in_flight import InFlight
from tests.support.trials import SEED


def test_neither_count_nor_bytes_exceed_their_limits_and_all_get_their_turn() -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    most = [0, 0]
    now = [0, 0]

    async def send(limits: InFlight, count: int, size: int) -> None:
        if not limits.take(count, size):
            await limits.wait(count, size, 60)
        now[0] += count
        now[1] += size
        most[0], most[1] = max(most[0], now[0]), max(most[1], now[1])
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
        now[0] -= count
        now[1] -= size
        limits.release(count, size)

    async def main() -> None:
        limits = InFlight(10, 1000)
        sends = [asyncio.ensure_future(send(limits, rng.randrange(1, 4), rng.randrange(400))) for _ in range(300)]
        for _ in range(40):
            await asyncio.sleep(0)
            rng.choice(sends).cancel()
        found = await asyncio.gather(*sends, return_exceptions=True)
        assert sum(one is None for one in found) >= 200
        assert limits.take(10, 1000)

    run(main())
    assert most[0] <= 10
    assert most[1] <= 1000


def test_waiting_ends_with_its_time_and_those_after_it_go_on() -> None:
    async def main() -> None:
        limits = InFlight(2, 100)
        assert limits.take(2, 10)
        large = asyncio.ensure_future(limits.wait(2, 10, 0.02))
        small = asyncio.ensure_future(limits.wait(1, 10, 60))
        await asyncio.sleep(0)
        assert not limits.take(0, 1)  # others came before
        limits.release(1, 5)
        with pytest.raises(NoRoomError, match="raise max_in_flight"):
            await large
        await small
        limits.release(1, 5)
        limits.release(1, 10)
        assert limits.take(2, 100)

    run(main())


def test_a_message_above_all_bytes_goes_alone() -> None:
    limits = InFlight(2, 100)
    assert limits.take(1, 500)
    assert not limits.take(1, 1)
    limits.release(1, 500)
    assert limits.take(1, 1)


def test_draining_waits_for_the_last_answer() -> None:
    async def main() -> None:
        limits = InFlight(2, 100)
        assert limits.take(1, 1)
        drained = asyncio.ensure_future(limits.drain(60))
        await asyncio.sleep(0)
        assert not drained.done()
        limits.release(1, 1)
        await drained
        await limits.drain(60)

    run(main())
