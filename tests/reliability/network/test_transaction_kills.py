"""Row N13 with transactions: the broker is killed while producers repeat what was not answered."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow.aio.channel import ChannelClosedError
from rocketflow.aio.loop import run
from rocketflow.remoting.codes import ResponseCode
from rocketflow_store import StoreReader
from rocketflow_store.fsck.verify import verify_store
from tests.reliability.network.wire import no_traceback, until
from tests.support.checker import Verdict
from tests.support.ports import free_port
from tests.support.results import Tally, measured
from tests.support.servers import running_broker
from tests.support.transactions import COMMIT, ROLLBACK, HalfPlace, TransactionClient
from tests.support.trials import seeds
from tests.support.workload import body, number_of

pytestmark = pytest.mark.slow

SENDERS = 8
QUICK = (
    *("transactionTimeOut=300", "transactionCheckInterval=150", "transactionCheckMax=100000"),
    "waitTimeMillsInSendQueue=20000",  # the machine is shared with other tests
)


def decision(number: int) -> int:
    """Return how a transaction ends."""
    return ROLLBACK if number % 3 == 0 else COMMIT


def is_left_open(number: int) -> bool:
    """Return whether a producer ends a transaction only when it is asked."""
    return number % 10 == 9


class Transactions:
    """Producers that repeat half messages and ends until they are answered, and answer the broker's questions."""

    def __init__(self, address: str) -> None:
        self.begun = 0
        self.answered: set[int] = set()
        self.repeats = 0
        self.checks = 0
        self.ends = False
        self._address = address

    async def run(self) -> None:
        """Produce, and answer questions, until `ends` is set."""
        await asyncio.gather(*(self._producer(number) for number in range(SENDERS)))

    async def _producer(self, sender: int) -> None:
        async with TransactionClient(self._address, client_id=f"c{sender}") as client:
            answering = asyncio.ensure_future(self._answer(client))
            while not self.ends:
                number, self.begun = self.begun, self.begun + 1
                place = await self._repeated(lambda: client.half(body(number), UNIQ_KEY=f"U{number}"))  # noqa: B023
                if not is_left_open(number):
                    await self._repeated(lambda: self._end(client, place, number))  # noqa: B023
                    self.answered.add(number)
            answering.cancel()

    async def _end(self, client: TransactionClient, place: HalfPlace, number: int) -> None:
        answer = await client.end(place, decision(number))
        if answer.code in (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE):
            raise OSError(answer.remark)
        assert answer.code == ResponseCode.SUCCESS, (answer.code, answer.remark)

    async def _repeated(self, call: Callable[[], object]) -> HalfPlace:
        while True:
            try:
                return await call()  # type: ignore[misc,no-any-return]
            except (ChannelClosedError, OSError):
                self.repeats += 1
                await asyncio.sleep(0.05)

    async def _answer(self, client: TransactionClient) -> None:
        """Answer the broker's questions, and let it know this producer again and again."""
        while True:
            questions, client.questions = client.questions, []
            try:
                await client.heartbeat()
                for one in questions:
                    self.checks += 1
                    await client.end(one.place, decision(number_of(one.stored.message.body)), is_checked=True)
            except (ChannelClosedError, OSError):
                self.repeats += 1
            await asyncio.sleep(0.05)


def seen(store: Path) -> Counter[int]:
    """Return how often consumers get each message."""
    found: Counter[int] = Counter()
    with StoreReader(store) as reader:
        for queue in reader.queues("t") if "t" in reader.topics() else []:
            for rows in reader.read("t", queue, *reader.bounds("t", queue), columns=["body", "sysFlag"]):
                assert set(rows["sysFlag"].to_pylist()) <= {COMMIT}
                found.update(number_of(one) for one in rows["body"].to_pylist())
    return found


def test_no_half_message_is_visible_and_no_answered_end_is_lost_when_the_broker_is_killed(
    tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    counts = tally("N13", "transactions, SIGKILL")
    port, store = free_port((-2, 1)), tmp_path / "store"
    load = Transactions(f"127.0.0.1:{port}")
    producing = threading.Thread(target=lambda: run(load.run()))
    kills = seeds(12, 100, least=2)
    for seed in kills:
        with running_broker(tmp_path, *QUICK, port=port) as broker:
            if not producing.is_alive():
                producing.start()
            answered, chance = len(load.answered), random.Random(seed)
            assert until(lambda: len(load.answered) > answered + chance.randrange(400))  # noqa: B023
            broker.process.send_signal(signal.SIGKILL)
            broker.process.wait(30)
            no_traceback(broker)
    with running_broker(tmp_path, *QUICK, port=port) as broker:
        committed = lambda: {number for number in range(load.begun) if decision(number) == COMMIT}  # noqa: E731
        answered = len(load.answered)
        assert until(lambda: len(load.answered) > answered + 50)
        assert until(lambda: any(is_left_open(one) for one in seen(store)))
        last = load.begun
        assert until(lambda: {one for one in committed() if one < last} <= seen(store).keys())
        load.ends = True
        producing.join(60)
        broker.stop_in_order()
    found = seen(store)
    expected = {number for number in load.answered if decision(number) == COMMIT}
    verdict = Verdict(
        lost=sorted({*expected, *(one for one in committed() if one < last)} - found.keys()),
        phantom=sorted(number for number in found if decision(number) != COMMIT),
        findings=[str(one) for one in verify_store(store).findings],
    )
    doubles = sum(times - 1 for times in found.values())
    facts = {"kills": len(kills), "messages": len(found), "doubles": doubles, "repeats": load.repeats}
    measured("transactionKills", **facts, checks=load.checks)
    counts.trial(verdict, f"seeds {kills}: {facts}", hit=load.repeats > 0)
    assert load.checks
