"""The window of pulls: every offset once and in order, whatever parts the answers have."""

from __future__ import annotations

import asyncio
import random

import pytest

from rocketflow.spark.source.network.pull_window import Piece, Pulled, PullWindow


async def pieces(window: PullWindow) -> list[tuple[bytes, int, int]]:
    found = []
    while (one := await window.take()) is not None:
        found.append((one.data, one.start, one.end))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_each_offset_is_given_out_once_and_in_order(seed: int) -> None:
    rng = random.Random(seed)
    start = rng.randrange(100)
    end = start + rng.randrange(1, 400)
    running = most = 0
    at_once = rng.randrange(1, 9)

    async def pull(first: int, stop: int) -> Pulled:
        nonlocal running, most
        assert start <= first < stop <= end
        running += 1
        most = max(most, running)
        await asyncio.sleep(rng.choice([0, 0, 0.001]))
        running -= 1
        last = rng.randrange(first + 1, stop + 1)
        return Pulled(bytes(at % 256 for at in range(first, last)), last)

    found = asyncio.run(pieces(PullWindow(pull, start, end, most_rows=rng.randrange(1, 64), at_once=at_once)))
    assert b"".join(data for data, _, _ in found) == bytes(at % 256 for at in range(start, end)), seed
    assert [begin for _, begin, _ in found[1:]] == [stop for _, _, stop in found[:-1]]
    assert most <= at_once


def test_rows_without_records_are_part_of_a_piece() -> None:
    async def pull(first: int, stop: int) -> Pulled:
        return Pulled(b"", stop + 5)

    assert asyncio.run(pieces(PullWindow(pull, 3, 9, most_rows=100, at_once=2))) == [(b"", 3, 9)]


def test_records_before_a_failed_pull_are_given_out_first() -> None:
    async def pull(first: int, stop: int) -> Pulled:
        if first == 4:
            raise ValueError("no")
        return Pulled(b"12", stop)

    async def main() -> None:
        window = PullWindow(pull, 0, 6, most_rows=2, at_once=3)
        assert await window.take() == Piece(b"1212", 0, 4)
        with pytest.raises(ValueError, match="no"):
            await window.take()
        await window.close()

    asyncio.run(main())


def test_a_failed_pull_is_raised_and_the_others_are_cancelled() -> None:
    cancelled: list[int] = []

    async def pull(first: int, stop: int) -> Pulled:
        if first == 0:
            raise ValueError("no")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(first)
            raise
        return Pulled(b"", stop)

    async def run() -> None:
        window = PullWindow(pull, 0, 30, most_rows=10, at_once=3)
        with pytest.raises(ValueError, match="no"):
            await window.take()
        await asyncio.sleep(0)
        await window.close()

    asyncio.run(run())
    assert cancelled == [10, 20]
