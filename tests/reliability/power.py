"""A store on a simulated disk, frozen at random instants, and the check of what a power loss at each one may lose."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocketflow_store import (
    FlushDiskType,
    Message,
    MessageStore,
    PutMessageResult,
    PutMessageStatus,
    StoreConfig,
    StoreReader,
)
from rocketflow_store.model.errors import StoreError
from rocketflow_store.testing import Probe
from tests.support.checker import Place, Verdict, check, numbers_in_topic
from tests.support.disk_layer import CHANGES, Call
from tests.support.independent_reader import parse_record
from tests.support.simulated_disk import SimulatedDisk, State
from tests.support.trials import sampled
from tests.support.workload import SMALL, body

NEVER_MS = 3_600_000
"""An interval so long that no flushing thread runs: the seed alone decides when data is flushed."""
POOL = {
    "transient_store_pool_enable": True,
    "transient_store_pool_size": 3,
    "commit_interval_commit_log": NEVER_MS,
    "commit_commit_log_least_pages": 1 << 20,
    "commit_commit_log_thorough_interval": 0,
}
"""Settings of a store with a TransientStorePool whose commits the seed decides."""
_EQUAL_FROM, _EQUAL_STEP = 40_000_000, 40
"""Numbers whose bodies have the same size."""


@dataclass(frozen=True)
class Ack:
    """An acknowledged message: its number, and its position according to the acknowledgement."""

    number: int
    place: Place
    phy_offset: int
    end_offset: int
    at: float = field(default_factory=time.monotonic, compare=False)


@dataclass(frozen=True)
class Instant:
    """The state of a run at one moment."""

    state: State
    acks: tuple[Ack, ...]
    attempted: int
    """Number of messages that were put or are being put."""
    confirm_offset: int
    flushed: int
    """Number of acks when the last completed flush began."""
    call: Call

    def durable(self, file_size: int) -> list[Ack]:
        """Return the acks whose records are durable on the disk."""
        found = []
        for ack in self.acks:
            start = ack.phy_offset - ack.phy_offset % file_size
            name = f"commitlog/{start:020d}"
            if self.state.is_durable(name, ack.phy_offset - start, ack.end_offset - start):
                record = parse_record(self.state.durable_bytes(name), ack.phy_offset - start)
                if record is not None and record.phy_offset == ack.phy_offset:
                    found.append(ack)
        return found


def config(flush: str, **more: Any) -> StoreConfig:
    kind = FlushDiskType.SYNC_FLUSH if flush == "sync" else FlushDiskType.ASYNC_FLUSH
    quiet = {"flush_interval_commit_log": NEVER_MS, "flush_interval_consume_queue": NEVER_MS}
    return StoreConfig(flush_disk_type=kind, **{**SMALL, **quiet, **more})


@dataclass
class Run:
    """Random puts, batches and flushes on a store; the disk is frozen before each disk call for which `freeze` is true.

    `equal` makes records of one size, so that the records after a hole begin where a new record would end.
    """

    disk: SimulatedDisk
    flush: str
    rng: random.Random
    freeze: Callable[[Call], bool]
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the store in addition to those of `config`."""
    acks: list[Ack] = field(default_factory=list)
    instants: list[Instant] = field(default_factory=list)
    attempted: int = 0
    equal: bool = False
    single: bool = False
    """Put messages by `put_message`; the disk is also frozen before each put for which `freeze` is true."""
    tolerant: bool = False
    """Go on if the store refuses or fails with a StoreError."""
    may_lose: bool = False
    """Messages of an earlier process may be missing."""
    queues: int = 2
    before_close: Callable[[MessageStore], None] = lambda _: None
    store: MessageStore | None = None
    refused: set[int] = field(default_factory=set)
    """Messages that the store refused."""
    _flushed: int = 0

    def after_kill(self, disk: SimulatedDisk, instant: Instant) -> Run:
        """Return the run of the next process, on the disk that a kill at this instant leaves."""
        return Run(
            disk,
            self.flush,
            self.rng,
            self.freeze,
            self.settings,
            acks=list(instant.acks),
            attempted=instant.attempted,
            equal=self.equal,
            queues=self.queues,
        )

    def go(self, steps: int) -> None:
        """Open the store, run `steps` random steps, close it."""
        self.disk.on_call = self._look
        tolerated = (StoreError,) if self.tolerant else ()
        with suppress(*tolerated), MessageStore.open(self.disk.root, self.config()) as self.store:
            there = [ack for ack in self.acks if ack.end_offset <= self.store.max_phy_offset]
            assert self.may_lose or there == self.acks, f"a restart lost {self.acks[len(there) :]}"
            self.acks = there
            self._flushed = len(there)  # an open makes all records that it finds durable
            with suppress(*tolerated):
                self.store.create_topic("t", self.queues)
            for _ in range(steps):
                with suppress(*tolerated):
                    self._step(self.store)
            self.before_close(self.store)
        self.disk.on_call = lambda _: None

    def config(self) -> StoreConfig:
        """Return the settings of the store."""
        return config(self.flush, **self.settings)

    def _number(self, index: int) -> int:
        return _EQUAL_FROM + _EQUAL_STEP * index if self.equal else index

    def numbers(self, count: int) -> set[int]:
        """Return the numbers of the first `count` messages."""
        return {self._number(index) for index in range(count)}

    def step(self) -> None:
        """Run one random step."""
        assert self.store is not None
        self._step(self.store)

    def put_some(self, count: int) -> None:
        """Put `count` messages one by one."""
        assert self.store is not None
        for _ in range(count):
            self._put(self.store, 1)

    def verdict(self) -> Verdict:
        """Return the checker's verdict on the closed store."""
        acked = {ack.number: ack.place for ack in self.acks}
        return check(self.disk.root, acked, self.numbers(self.attempted), refused=self.refused)

    def _step(self, store: MessageStore) -> None:
        if self.settings.get("transient_store_pool_enable") and self.rng.random() < 0.2:
            Probe(store).commit_buffers()
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
        if self.single:
            results = [self._put_one(store, one) for one in messages]
        else:
            results = store.put_messages(messages)
        for at, (number, result) in enumerate(zip(numbers, results, strict=True)):
            if result.status is PutMessageStatus.PUT_OK:
                place, end = (result.queue_id, result.queue_offset), _end(store, results[at:])
                self.acks.append(Ack(number, place, result.physical_offset, end))
            elif result.status is not PutMessageStatus.FLUSH_DISK_TIMEOUT:
                self.refused.add(number)

    def _put_one(self, store: MessageStore, message: Message) -> PutMessageResult:
        call = Call("put", None, ())  # it may store through windows, without a call
        if self.freeze(call):
            self.instants.append(self._instant(call))
        return store.put_message(message)

    def now(self) -> Instant:
        """Return the current instant."""
        return self._instant(Call("now", None, ()))

    def _look(self, call: Call) -> None:
        if call.kind in CHANGES and self.freeze(call):
            self.instants.append(self._instant(Call(call.kind, call.path, ())))  # (its data may be a pool's buffer)

    def _instant(self, call: Call) -> Instant:
        confirm = self.store.confirm_offset if self.store is not None else 0
        return Instant(self.disk.freeze(), tuple(self.acks), self.attempted, confirm, self._flushed, call)


def _end(store: MessageStore, results: Sequence[PutMessageResult]) -> int:
    """Return the end of the record of the first result; `results` are of the last messages that were put."""
    message = store.look_message_by_offset(results[0].physical_offset)
    if message is not None:
        return results[0].physical_offset + message.store_size
    return results[1].physical_offset if len(results) > 1 else Probe(store).wrote_offset  # not committed yet


def after_power_loss(
    image: Path, instant: Instant, run: Run, context: str, *, recovered: bool = False, keys: bool = True
) -> tuple[list[int], int]:
    """Recover the image; return the missing acknowledged messages, and how many messages had to be there.

    `recovered`: an earlier recovery has reported the loss. `keys`: query every message by its key.
    """
    sync = run.flush == "sync"
    promised = instant.acks if sync else instant.durable(run.config().mapped_file_size_commit_log)
    with MessageStore.open(image, run.config()) as store:
        recovery, end = store.recovery, store.max_phy_offset
    assert end >= instant.confirm_offset or not sync, f"{context}: readers had seen more (C1)"
    missing = [ack for ack in instant.acks if ack.end_offset > end]
    assert not {*promised} & {*missing}, f"{context}: lost although it was on the disk"
    assert not {*instant.acks[: instant.flushed]} & {*missing}, f"{context}: lost although a flush was completed"
    assert recovery.abort_found or recovered or not missing, f"{context}: lost, and not reported"
    verdict = check(
        image,
        {ack.number: ack.place for ack in instant.acks if ack.end_offset <= end},
        run.numbers(instant.attempted),
        refused=run.refused,
    )
    assert verdict.clean, f"{context}: {verdict}"  # so the missing messages are a suffix
    if keys:
        assert not (unknown := keys_missing(image)), f"{context}: keys {unknown} find no message"
    return [ack.number for ack in missing], len(promised)


def keys_missing(image: Path) -> list[int]:
    """Return the numbers of stored messages that their keys do not find; a sample asks for some."""
    there = set(numbers_in_topic(image, "t").values())
    with StoreReader(image) as reader:
        return [number for number in sampled(sorted(there), 7) if len(reader.query_message("t", f"k{number}")) != 1]
