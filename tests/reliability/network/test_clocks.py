"""Row S21 on a broker: the machine's clock jumps while clients send messages, delayed ones and transactions."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow.aio.channel import Channel
from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.remoting.codes import ResponseCode
from rocketflow.remoting.headers.offset import GetMaxOffsetRequestHeader
from tests.reliability.network.wire import CODE, asked
from tests.support.checker import check, numbers_in_topic
from tests.support.request_headers import send_header, topic_header
from tests.support.results import Tally
from tests.support.servers import RunningServer, no_traceback, running_broker
from tests.support.shifted_clock import SITE, store_timestamps
from tests.support.transactions import COMMIT, ROLLBACK, HalfPlace, TransactionClient
from tests.support.trials import seeds
from tests.support.workload import body

pytestmark = pytest.mark.slow

HOUR_S = 3_600
JUMPS_S = (-HOUR_S, 24 * HOUR_S, -24 * HOUR_S, 0)
LEVEL_1 = "DELAY\x011\x02"
"""The property of a message that is delivered one second later."""

DELAYED_SECONDS = 120.0


class Clock:
    """The clock of the servers that a test starts: the machine's and an offset that the test changes."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        site = home / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(SITE)
        self._offset = home / "clock"
        self.jump(0)
        monkeypatch.setenv("RF_CLOCK", str(self._offset))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]))

    def jump(self, seconds: float) -> None:
        """Set the clock to the machine's time and an offset."""
        new = self._offset.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._offset)


class Sent:
    """Numbered messages to a topic, and what came of them: at once, delayed, or by transactions."""

    def __init__(self) -> None:
        self.numbers: dict[str, list[int]] = {"t": [], "delayed": [], "committed": [], "rolled back": []}
        self._halves: list[tuple[int, HalfPlace]] = []
        self._next = 0

    def number(self) -> int:
        self._next += 1
        return self._next

    async def some(self, channel: Channel, client: TransactionClient) -> None:
        """Send ten messages, five delayed ones, and two halves of transactions."""
        for kind, count, properties in (("t", 10, ""), ("delayed", 5, LEVEL_1)):
            for _ in range(count):
                number = self.number()
                header = send_header(kind, number % 2, properties=f"KEYS\x01k{number}\x02{properties}")
                answer = await asked(channel, CODE.SEND_MESSAGE, header, body(number))
                assert answer.code == ResponseCode.SUCCESS, answer.remark
                self.numbers[kind].append(number)
        for _ in range(2):
            number = self.number()
            self._halves.append((number, await client.half(body(number), "transactions")))

    async def end(self, client: TransactionClient) -> None:
        """Commit and roll back the transactions in turn."""
        for number, place in self._halves:
            kind, state = ("committed", COMMIT) if number % 2 else ("rolled back", ROLLBACK)
            answer = await client.end(place, state)
            assert answer.code == ResponseCode.SUCCESS, (number, answer.remark)
            self.numbers[kind].append(number)


async def ends(channel: Channel, topic: str) -> int:
    """Return the number of messages of a topic's two queues."""
    headers = [GetMaxOffsetRequestHeader(topic=topic, queue_id=queue_id) for queue_id in (0, 1)]
    return sum([int((await asked(channel, CODE.GET_MAX_OFFSET, one)).fields["offset"]) for one in headers])


async def jumping(broker: RunningServer, clock: Clock, sent: Sent, rng: random.Random) -> None:
    """Send between jumps, back to the right time at the end; wait until the delayed messages are there."""
    peers = Peers()
    channel = await peers.channel(broker.address)
    for topic in ("t", "delayed", "transactions"):
        await asked(channel, CODE.UPDATE_AND_CREATE_TOPIC, topic_header(topic, 2))
    async with TransactionClient(broker.address) as client:
        await sent.some(channel, client)
        for _ in range(4):
            clock.jump(rng.choice(JUMPS_S))
            await sent.some(channel, client)
        clock.jump(2 * 24 * HOUR_S)  # every delay is over, whatever the time was when the message came
        await sent.end(client)
        async with asyncio.timeout(DELAYED_SECONDS):
            while await ends(channel, "delayed") < len(sent.numbers["delayed"]):
                await asyncio.sleep(0.1)
    await peers.close()


def test_a_broker_whose_clock_jumps_loses_nothing_and_delivers_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Callable[..., Tally]
) -> None:
    counts = tally("S21", "broker")
    clock = Clock(tmp_path, monkeypatch)
    for seed in seeds(4, 20):
        clock.jump(0)
        home, sent = tmp_path / str(seed), Sent()
        home.mkdir()
        with running_broker(home, "transactionTimeOut=600000") as broker:
            run(jumping(broker, clock, sent, random.Random(seed)))
            broker.stop_in_order()
            no_traceback(broker)
        times = store_timestamps(home / "store")
        assert times == sorted(times), f"seed {seed}: store times fall"
        assert times[-1] > (time.time() + 24 * HOUR_S) * 1000, "the broker's clock did not jump"
        for topic, kind in (("delayed", "delayed"), ("transactions", "committed")):
            found = sorted(numbers_in_topic(home / "store", topic).values())
            assert found == sorted(sent.numbers[kind]), (seed, topic)
        numbers = set(sent.numbers["t"])
        stored = {number: place for place, number in numbers_in_topic(home / "store", "t").items()}
        assert stored.keys() == numbers, seed
        counts.trial(check(home / "store", stored, numbers), f"seed {seed}")
