"""Messages and the op mark that depends on them, put as one run.

RocketMQ's source: broker/transaction/queue/TransactionalMessageServiceImpl.java (deletePrepareMessage).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from rocketflow.broker.transactions.messages import op_mark

if TYPE_CHECKING:
    from rocketflow.aio.server import RefusedError
    from rocketflow.broker.transactions.op_marks import OpMarks
    from rocketflow_store import PutMessageResult
    from rocketflow_store.spi.broker import RawMessage, SentRun

Results = list["PutMessageResult"]
Answer = Callable[["PutMessageResult"], None]
Refuse = Callable[["RefusedError"], None]


class Gatherer(Protocol):
    """Appends messages that arrive together: `answer` or `refuse` is called for each."""

    def add(self, message: RawMessage, answer: Answer, refuse: Refuse) -> None: ...

    def add_together(self, messages: Sequence[RawMessage | SentRun], answer: Answer, refuse: Refuse) -> None: ...


class MarkedPuts:
    """Puts messages in the place of half messages, and marks these. `host` is the broker's address in a record."""

    def __init__(self, gatherer: Gatherer, marks: OpMarks, host: bytes) -> None:
        self._gatherer = gatherer
        self._marks = marks
        self._host = host

    def put(
        self,
        messages: Sequence[RawMessage | SentRun],
        marked: Sequence[Sequence[int]],
        done: Callable[[Results], None],
        refuse: Refuse,
        commits: int | None = None,
    ) -> None:
        """Put `messages`, one for each of the first half messages, and mark all that are `marked`, in one write.

        A half message is marked by its offsets; a run of messages counts as one, with the offsets of all. With
        `commits` the mark says that the first ones are committed, and the others rolled back. `done` gets a result for
        each half message, that of the mark where it has no message. A message that the store refuses leaves its half
        message unmarked. `refuse` is called instead if nothing can be put now.
        """
        half_offsets = [offset for one in marked for offset in one]

        def stored(results: Results) -> None:
            mark = results.pop()
            found = [*results, *[mark] * (len(marked) - len(messages))]
            if mark.stored:
                self._marks.note(half_offsets)
                done(found)
                return
            kept = [one for one, result in zip(marked, results) if result.stored]
            others = marked[len(messages) :]
            if not messages or not (kept or others):
                done(found)
                return
            ended = None if commits is None else len(kept)
            self.put([], [*kept, *others], lambda alone: done([*results, *alone[len(kept) :]]), refuse, ended)

        ended = None if commits is None else sum(map(len, marked[:commits]))
        mark = op_mark(half_offsets, int(time.time() * 1000), self._host, needs=len(messages), commits=ended)
        _Together([*messages, mark], stored, refuse).add_to(self._gatherer)

    async def stored(self, messages: Sequence[RawMessage], marked: Sequence[Sequence[int]]) -> Results:
        """Put as `put` does, and return the results. Raises RefusedError."""
        future: asyncio.Future[Results] = asyncio.get_running_loop().create_future()

        def refuse(error: RefusedError) -> None:
            if not future.done():
                future.set_exception(error)

        def done(results: Results) -> None:
            if not future.done():
                future.set_result(results)

        self.put(messages, marked, done, refuse)
        return await future


class _Together:
    """Messages that are added together: one call answers or refuses all of them."""

    def __init__(
        self, messages: Sequence[RawMessage | SentRun], answer: Callable[[Results], None], refuse: Refuse
    ) -> None:
        self._messages = messages
        self._answer = answer
        self._refuse = refuse
        self._results: Results = []
        self._error: RefusedError | None = None
        self._open = len(messages)

    def add_to(self, gatherer: Gatherer) -> None:
        gatherer.add_together(self._messages, self._answered, self._refused)

    def _answered(self, result: PutMessageResult) -> None:
        self._results.append(result)
        self._close()

    def _refused(self, error: RefusedError) -> None:
        self._error = error
        self._close()

    def _close(self) -> None:
        self._open -= 1
        if self._open:
            return
        if self._error is None:
            self._answer(self._results)
        else:
            self._refuse(self._error)
