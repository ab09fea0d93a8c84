"""A store on a simulated disk, frozen at random instants: what each power loss there may take, and what it must not."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rocketflow_store import FlushDiskType, Message, MessageStore, PutMessageStatus, StoreConfig
from tests.reliability.checker import Place
from tests.reliability.disk_layer import CHANGES, Call
from tests.reliability.simulated_disk import SimulatedDisk, State
from tests.reliability.workload import SMALL, body

NEVER_MS = 3_600_000
"""An interval at which no flushing thread comes by: the seed alone decides when something is flushed."""
_EQUAL_FROM, _EQUAL_STEP = 40_000_000, 40
"""Numbers whose bodies have the same size."""


@dataclass(frozen=True)
class Ack:
    """An acknowledged message: its number, and where its acknowledgement said that it is."""

    number: int
    place: Place
    phy_offset: int
    end_offset: int


@dataclass(frozen=True)
class Instant:
    """What was known at a moment of a run."""

    state: State
    acks: tuple[Ack, ...]
    attempted: int
    """So many messages were put, or are being put."""
    confirm_offset: int
    flushed: int
    """So many of the acks were there when the last completed flush began."""
    call: Call

    def durable(self, file_size: int) -> list[Ack]:
        """The acks whose bytes are on the disk."""
        found = []
        for ack in self.acks:
            start = ack.phy_offset - ack.phy_offset % file_size
            name = f"commitlog/{start:020d}"
            if self.state.is_durable(name, ack.phy_offset - start, ack.end_offset - start):
                found.append(ack)
        return found


def config(flush: str, **more: Any) -> StoreConfig:
    kind = FlushDiskType.SYNC_FLUSH if flush == "sync" else FlushDiskType.ASYNC_FLUSH
    quiet = {"flush_interval_commit_log": NEVER_MS, "flush_interval_consume_queue": NEVER_MS}
    return StoreConfig(flush_disk_type=kind, **{**SMALL, **quiet, **more})


@dataclass
class Run:
    """Random puts, batches and flushes on a store; `freeze` is asked before each disk call, and kept where it is true.

    `equal` makes records of one size, so that what lies behind a hole begins where a new record would end.
    """

    disk: SimulatedDisk
    flush: str
    rng: random.Random
    freeze: Callable[[Call], bool]
    acks: list[Ack] = field(default_factory=list)
    instants: list[Instant] = field(default_factory=list)
    attempted: int = 0
    equal: bool = False
    store: MessageStore | None = None
    _flushed: int = 0

    def after_kill(self, disk: SimulatedDisk, instant: Instant) -> Run:
        """The run of the next process, on what a kill at that instant leaves."""
        return Run(
            disk, self.flush, self.rng, self.freeze, list(instant.acks), attempted=instant.attempted, equal=self.equal
        )

    def go(self, steps: int) -> None:
        """Open, do so many things, close."""
        self.disk.on_call = self._look
        with MessageStore.open(self.disk.root, config(self.flush)) as self.store:
            self._flushed = len(self.acks)  # an open makes durable what it finds
            self.store.create_topic("t", 2)
            for _ in range(steps):
                self._step(self.store)
        self.disk.on_call = lambda _: None

    def _number(self, index: int) -> int:
        return _EQUAL_FROM + _EQUAL_STEP * index if self.equal else index

    def numbers(self, count: int) -> set[int]:
        """The numbers of the first `count` messages."""
        return {self._number(index) for index in range(count)}

    def _step(self, store: MessageStore) -> None:
        kind = self.rng.random()
        if kind < 0.06:
            began = len(self.acks)
            store.flush()
            self._flushed = began
        elif kind < 0.09:
            store.config_files.consumer_offsets.commit("readers", "t", {0: store.max_offset("t", 0)})
        else:
            self._put(store, 1 if kind < 0.85 else self.rng.randrange(2, 9))

    def _put(self, store: MessageStore, count: int) -> None:
        numbers = [self._number(self.attempted + index) for index in range(count)]
        self.attempted += count
        messages = [Message("t", body(one), keys=[f"k{one}"], tags="w") for one in numbers]
        for number, result in zip(numbers, store.put_messages(messages), strict=True):
            if result.status is PutMessageStatus.PUT_OK:
                size = store.look_message_by_offset(result.physical_offset).store_size  # type: ignore[union-attr]
                self.acks.append(
                    Ack(
                        number,
                        (result.queue_id, result.queue_offset),
                        result.physical_offset,
                        result.physical_offset + size,
                    )
                )

    def _look(self, call: Call) -> None:
        if call.kind in CHANGES and self.freeze(call):
            confirm = self.store.confirm_offset if self.store is not None else 0
            self.instants.append(
                Instant(self.disk.freeze(), tuple(self.acks), self.attempted, confirm, self._flushed, call)
            )
