"""Producers whose transactions go on while their broker is killed, and what consumers see of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from rocketflow.aio.channel import ChannelClosedError
from rocketflow.aio.loop import run
from rocketflow.remoting.codes import ResponseCode
from rocketflow.remoting.command import Command
from rocketflow_store import StoreReader
from rocketflow_store.fsck.verify import verify_store
from tests.support.checker import Verdict
from tests.support.transactions import COMMIT, ROLLBACK, UNKNOWN, HalfPlace, Question, TransactionClient
from tests.support.workload import body, number_of

TOPIC: Final = "t"
NEVER_DECIDED: Final = (8, 13)
"""Transactions whose producer does not know their end, each time that it is asked."""
QUICK_CHECKS: Final = (
    *("transactionTimeOut=300", "transactionCheckInterval=150", "transactionCheckMax=100000"),
    "waitTimeMillsInSendQueue=20000",  # the machine is shared with other tests
)
"""Settings of the broker: it asks early and often."""

_PAUSE_SECONDS: Final = 0.05
_JOIN_SECONDS: Final = 60.0


def decision(number: int) -> int:
    """Return how a transaction ends."""
    if number in NEVER_DECIDED:
        return UNKNOWN
    return ROLLBACK if number % 3 == 0 else COMMIT


def is_left_open(number: int) -> bool:
    """Return whether a producer ends a transaction only when it is asked."""
    return number % 5 == 4 or number in NEVER_DECIDED


def is_one_way(number: int) -> bool:
    """Return whether a producer ends a transaction without an answer, and once: as RocketMQ's clients do."""
    return number % 2 == 1


class TransactionLoad:
    """Producers that repeat half messages until they are answered, and answer the broker's questions.

    They repeat half of the ends, too; those of the others that are lost come again as answers to questions.
    """

    def __init__(self, address: str, senders: int, count: int | None = None) -> None:
        """Begin nothing yet. Transactions are begun up to `count`, or until `end`."""
        self.begun = 0
        self.answered: set[int] = set()
        """Transactions whose end was answered."""
        self.commits: Counter[int] = Counter()
        """How many requests were to commit each message: it may be stored as often."""
        self.asked: Counter[int] = Counter()
        """How often the producers were asked about each transaction."""
        self.repeats = 0
        self._address = address
        self._senders = senders
        self._count = count
        self._ends = False

    def end(self) -> None:
        """Let each producer end after its current transaction."""
        self._ends = True

    @property
    def is_begun(self) -> bool:
        """Return whether all `count` transactions are begun, and the ends are answered that are repeated."""
        ended = (one for one in range(self._count or 0) if not is_left_open(one) and not is_one_way(one))
        return self.begun == self._count and self.answered.issuperset(ended)

    def committed(self) -> set[int]:
        """Return the begun transactions that are to be committed."""
        return {number for number in range(self.begun) if decision(number) == COMMIT}

    async def run(self) -> None:
        """Produce, and answer questions, until the end."""
        await asyncio.gather(*(self._producer(number) for number in range(self._senders)))

    async def _producer(self, sender: int) -> None:
        async with TransactionClient(self._address, client_id=f"c{sender}") as client:
            answering = asyncio.ensure_future(self._answer(client))
            while not self._ends:
                if answering.done():
                    await answering  # raises why it has ended
                if self.begun == self._count:
                    await asyncio.sleep(_PAUSE_SECONDS)
                    continue
                number, self.begun = self.begun, self.begun + 1
                place = await self._repeated(lambda: client.half(body(number), UNIQ_KEY=f"U{number}"))  # noqa: B023
                if is_left_open(number):
                    continue
                if is_one_way(number):
                    await self._end_once(client, place, number)
                else:
                    await self._repeated(lambda: self._ended(client, place, number))  # noqa: B023
            answering.cancel()

    async def _end_once(self, client: TransactionClient, place: HalfPlace, number: int) -> None:
        self.commits[number] += decision(number) == COMMIT
        with suppress(ChannelClosedError, OSError):
            await client.end_unanswered(place, decision(number))

    async def _ended(self, client: TransactionClient, place: HalfPlace, number: int) -> HalfPlace:
        answer = await self._end_answer(client, place, number, is_checked=False)
        if answer.code in (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE):
            raise OSError(answer.remark)
        assert answer.code == ResponseCode.SUCCESS, (answer.code, answer.remark)
        return place

    async def _end_answer(
        self, client: TransactionClient, place: HalfPlace, number: int, *, is_checked: bool
    ) -> Command:
        commits = decision(number) == COMMIT
        self.commits[number] += commits
        try:
            answer = await client.end(place, decision(number), is_checked=is_checked)
        except ConnectionRefusedError:
            self.commits[number] -= commits  # no request was sent
            raise
        if answer.code == ResponseCode.SUCCESS:
            self.answered.add(number)
        return answer

    async def _repeated(self, call: Callable[[], Coroutine[Any, Any, HalfPlace]]) -> HalfPlace:
        while True:
            try:
                return await call()
            except (ChannelClosedError, OSError):
                if self._ends:
                    raise
                self.repeats += 1
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _answer(self, client: TransactionClient) -> None:
        """Answer the broker's questions, and let it know this producer again and again."""
        while True:
            questions, client.questions = client.questions, []
            try:
                await client.introduction()
                for one in questions:
                    await self._answer_one(client, one)
            except (ChannelClosedError, OSError):
                self.repeats += 1
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _answer_one(self, client: TransactionClient, question: Question) -> None:
        number = number_of(question.stored.message.body)
        self.asked[number] += 1
        if decision(number) == UNKNOWN:
            await client.end_unanswered(question.place, UNKNOWN)
            return
        await self._end_answer(client, question.place, number, is_checked=True)


@contextmanager
def producing(load: TransactionLoad) -> Iterator[Callable[[], None]]:
    """Run a load in a thread; yield what ends it and waits for that: so does the end of the block.

    An error of the load is raised there.
    """
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(lambda: run(load.run()))

        def stop() -> None:
            load.end()
            done.result(_JOIN_SECONDS)

        try:
            yield stop
        finally:
            stop()


def seen(store: Path) -> Counter[int]:
    """Return how often consumers get each message; AssertionError for one that is not committed."""
    found: Counter[int] = Counter()
    with StoreReader(store) as reader:
        for queue in reader.queues(TOPIC) if TOPIC in reader.topics() else []:
            for rows in reader.read(TOPIC, queue, *reader.bounds(TOPIC, queue), columns=["body", "sysFlag"]):
                assert set(rows["sysFlag"].to_pylist()) <= {COMMIT}
                found.update(number_of(one) for one in rows["body"].to_pylist())
    return found


def judged(store: Path, load: TransactionLoad, last: int) -> tuple[Verdict, int]:
    """Return the verdict about a stopped broker's store, and the number of messages that consumers get once too often.

    Lost is what was answered, or is to be committed and was begun before `last`, and is not there; phantom what was
    not committed; doubled what is stored more often than requests committed it.
    """
    found = seen(store)
    promised = {one for one in load.committed() if one < last or one in load.answered}
    verdict = Verdict(
        lost=sorted(promised - found.keys()),
        phantom=sorted(number for number in found if decision(number) != COMMIT),
        doubled=sorted(number for number, times in found.items() if times > load.commits[number]),
        findings=[str(one) for one in verify_store(store).findings],
    )
    return verdict, sum(times - 1 for times in found.values())
