"""The queues of a client, and the loop that computes them again."""

from __future__ import annotations

import asyncio

from rocketflow.aio.loop import run
from rocketflow.client.consume.allocation import Averagely
from rocketflow.client.consume.rebalance import RebalanceLoop, assigned_queues, changes
from rocketflow.remoting.bodies import MessageQueue

QUEUES = [MessageQueue("T", "b", k) for k in (10, 9, 1, 0)]


def test_queues_and_clients_are_sorted_before_they_are_divided() -> None:
    clients = ["c2", "c10", "c1", "c2"]
    assert assigned_queues(Averagely(), "c1", QUEUES, clients) == [QUEUES[3], QUEUES[2]]
    assert assigned_queues(Averagely(), "c2", QUEUES, clients) == [QUEUES[0]]
    assert assigned_queues(Averagely(), "c2", QUEUES, []) == []
    assert assigned_queues(Averagely(), "c2", [], clients) == []


def test_changes_name_the_queues_to_add_and_to_remove() -> None:
    assert changes(QUEUES[:2], QUEUES[1:]) == ([QUEUES[3], QUEUES[2]], [QUEUES[0]])
    assert changes(QUEUES, QUEUES) == ([], [])


def test_loop_runs_again_after_a_wake_and_until_a_round_is_complete() -> None:
    async def look() -> None:
        rounds: list[int] = []

        async def work() -> bool:
            rounds.append(len(rounds))
            reached.set()
            return len(rounds) != 1

        async def next_round() -> None:
            await asyncio.wait_for(reached.wait(), 15)
            reached.clear()

        reached = asyncio.Event()
        loop = RebalanceLoop(work)
        task = asyncio.create_task(loop.run())
        await next_round()
        await next_round()  # the first one was not complete
        loop.wake()
        await next_round()
        assert rounds == [0, 1, 2]
        task.cancel()

    run(look())
