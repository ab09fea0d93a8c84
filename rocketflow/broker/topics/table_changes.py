"""Changes of a table of topics or groups: those that arrive together are one write of its file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from rocketflow.aio.server import RefusedError
from rocketflow.remoting.codes import ResponseCode
from rocketflow_store import DescriptorLimitError, StoreError, StoreFencedError

C = TypeVar("C")


class Table(Protocol[C]):
    """A table of the store: its calls that write block."""

    def get(self, name: str, /) -> C | None: ...

    def items(self) -> dict[str, C]: ...

    def put(self, *configs: C) -> None: ...


class State(Generic[C]):
    """A table with the changes that are planned before it is written."""

    def __init__(self, table: Table[C]) -> None:
        self._table = table
        self._known = len(table.items())
        self._new = 0
        self.planned: dict[str, C] = {}

    def get(self, name: str) -> C | None:
        """Return the settings of a name, None if there is none."""
        return self.planned.get(name) or self._table.get(name)

    @property
    def count(self) -> int:
        """Return the number of names."""
        return self._known + self._new

    def add(self, changes: dict[str, C]) -> None:
        """Plan changes, by name."""
        self._new += sum(self.get(name) is None for name in changes)
        self.planned |= changes


Plan = Callable[[State[C]], dict[str, C]]
"""Returns what a request changes, by name; raises RefusedError, with nothing planned."""


class _Waiting(NamedTuple, Generic[C]):
    plan: Plan[C]
    written: asyncio.Future[dict[str, C]]


class TableChanges(Generic[C]):
    """Plans the changes of the requests that wait, and writes them in a thread; `on_written` is called then.

    Requests that arrive during a write wait for the next one, which has all of them.
    """

    def __init__(self, table: Table[C], on_written: Callable[[], None]) -> None:
        self._table = table
        self._on_written = on_written
        self._waiting: list[_Waiting[C]] = []
        self._writing = asyncio.Lock()
        self._writer: asyncio.Task[None] | None = None

    async def apply(self, plan: Plan[C]) -> dict[str, C]:
        """Change what a plan says, and return it once it is durable.

        Raises RefusedError: what the plan raises, or that the changes cannot be kept.
        """
        one = _Waiting(plan, asyncio.get_running_loop().create_future())
        self._waiting.append(one)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())
        return await one.written

    async def alone(self, call: Callable[..., object], *arguments: object) -> None:
        """Make another change of the table in a thread, while nothing else is written. Raises RefusedError."""
        async with self._writing:
            await _kept(call, *arguments)
        self._on_written()

    async def _write(self) -> None:
        while self._waiting:
            async with self._writing:
                taken, self._waiting = self._waiting, []
                try:
                    await self._write_together(taken)
                finally:
                    for one in taken:
                        if not one.written.done():
                            one.written.set_exception(RefusedError(ResponseCode.SYSTEM_ERROR, "the change failed"))

    async def _write_together(self, taken: Sequence[_Waiting[C]]) -> None:
        state = State(self._table)
        planned: list[tuple[_Waiting[C], dict[str, C]]] = []
        for one in taken:
            try:
                changes = one.plan(state)
            except RefusedError as refusal:
                _fail(one, refusal)
                continue
            state.add(changes)
            planned.append((one, changes))
        try:
            if state.planned:
                await _kept(self._table.put, *state.planned.values())
                self._on_written()
        except RefusedError as refusal:
            if len(planned) > 1:  # one of them is to blame: the others are written without it
                for one, _ in planned:
                    await self._write_together([one])
                return
            _fail(planned[0][0], refusal)
        for one, changes in planned:
            if not one.written.done():
                one.written.set_result(changes)


def _fail(one: _Waiting[C], refusal: RefusedError) -> None:
    if not one.written.done():
        one.written.set_exception(refusal)


async def _kept(call: Callable[..., object], *arguments: object) -> None:
    try:
        await asyncio.to_thread(call, *arguments)
    except StoreFencedError as error:  # as a send to a topic that exists
        raise RefusedError(ResponseCode.SERVICE_NOT_AVAILABLE, str(error)) from None
    except DescriptorLimitError as error:
        raise RefusedError(ResponseCode.TOPIC_NOT_EXIST, str(error)) from None
    except StoreError as error:
        raise RefusedError(ResponseCode.SYSTEM_ERROR, str(error)) from None
