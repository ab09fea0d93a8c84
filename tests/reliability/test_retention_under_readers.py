"""Row S24: retention deletes under readers. They get the message, or that it was removed; never other bytes."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from rocketflow_store import GetMessageResult, GetMessageStatus, Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.files.mapped.mapped_file import MappedFile
from rocketflow_store.kernel import COMPILED
from rocketflow_store.log.log_view import CommitLogView
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import OffsetOutOfRangeError
from rocketflow_store.testing import Probe
from rocketflow_store.views.queues.consume_queue import ConsumeQueue
from rocketflow_store.views.queues.queue_table import FileQueueTable
from tests.support.checker import Verdict, findings
from tests.support.phases import Phase, at_call, at_method
from tests.support.results import Tally
from tests.support.trials import seeds
from tests.support.workload import SMALL, body

NOW_MS = 1_760_000_000_000
OLD_S = NOW_MS / 1000 - 400 * 3600
FIRST = 240
"""Messages before the readers start: a dozen files."""
REMOVED = (GetMessageStatus.OFFSET_TOO_SMALL, GetMessageStatus.MESSAGE_WAS_REMOVING)
Subject = MessageStore | StoreReader


class Trial:
    """A store, the messages put into it, and the wrong results of its readers."""

    def __init__(self, path: Path, seed: int, *, forcibly: bool) -> None:
        self.path, self.random = path, random.Random(seed)
        config = StoreConfig(
            **SMALL,  # type: ignore[arg-type]
            clock=ManualClock(NOW_MS),
            delete_commit_log_files_interval=0,
            delete_consume_queue_files_interval=0,
            destroy_maped_file_interval_forcibly=0 if forcibly else 1 << 30,
            redelete_hanged_file_interval=0,
        )
        self.store = MessageStore.open(path, config)
        self.places: list[int] = []
        self.wrong: list[str] = []
        self.removed = 0
        self.put(FIRST)

    def put(self, count: int) -> None:
        for number in range(len(self.places), len(self.places) + count):
            result = self.store.put_message(Message("t", number_body(number), keys=f"k{number}", queue_id=number % 2))
            self.places.append(result.physical_offset)

    def retention(self, keep: int = 2) -> None:
        """Delete all log files but the newest `keep`, and the queue and index entries that point to them."""
        self.store.flush()
        for mapped in Probe(self.store).log_files[:-keep]:
            os.utime(mapped.path, (OLD_S, OLD_S))
        while removed := self.store.clean().log_files:
            self.removed += len(removed)

    def expect(self, fine: bool, what: str) -> None:
        if not fine:
            self.wrong.append(what)

    # -- readers

    def use(self, subject: Subject) -> None:
        """Read in one of the ways."""
        self.random.choice([self.read, self.get, self.look])(subject)

    def read(self, subject: Subject) -> None:
        """Read a queue from its begin to its end."""
        queue = self.random.randrange(2)
        low, high = subject.bounds("t", queue)
        offset = low
        try:
            for batch in subject.read("t", queue, low, high, ["body"], max_batch_bytes=self.random.choice([500, 5000])):
                for found in batch.column(0).to_pylist():
                    self.expect(found == number_body(2 * offset + queue), f"read {queue}/{offset}: {found!r}")
                    offset += 1
            self.expect(offset == high, f"read {queue} to {offset}, not {high}")
        except OffsetOutOfRangeError:
            self.expect(subject.bounds("t", queue)[0] > low, f"read {queue}/{offset}: reported as removed, and exists")

    def get(self, subject: Subject) -> GetMessageResult:
        """Get some messages from a random offset of a queue."""
        queue = self.random.randrange(2)
        low, high = subject.bounds("t", queue)
        wanted = self.random.randrange(high)
        got = subject.get_message("t", queue, wanted, self.random.randrange(1, 16))
        if got.message_count == 0:
            self.expect(got.status in REMOVED, f"get {queue}/{wanted}: {got.status}")
            self.expect(
                subject.bounds("t", queue)[0] > wanted, f"get {queue}/{wanted}: reported as removed, and exists"
            )
        else:
            self.expect(wanted >= low or got.message_mapped_list[0].frame.queue_offset >= low, f"get {queue}/{wanted}")
        self.judge(got, queue)
        return got

    def judge(self, got: GetMessageResult, queue: int) -> None:
        """Check that the slices, and the file ranges for a socket, are the messages."""
        sent = b"".join(os.pread(fd, length, position) for fd, position, length in got.segments())
        self.expect(sent == b"".join(got.buffers()), "the descriptors give other bytes than the maps")
        for one in got.message_mapped_list:
            number = 2 * one.frame.queue_offset + queue
            self.expect(one.body == number_body(number), f"get {queue}/{one.frame.queue_offset}: {bytes(one.body)!r}")
            self.expect(one.start_offset == self.places[number], f"get {queue}/{one.frame.queue_offset}: another place")

    def look(self, subject: Subject) -> None:
        """Look up a message by its physical offset, and by its key."""
        number = self.random.randrange(len(self.places))
        message = subject.look_message_by_offset(self.places[number])
        if message is None:
            self.expect(subject.min_phy_offset > self.places[number], f"look {number}: reported as removed, and exists")
        else:
            self.expect(message.body == number_body(number), f"look {number}: {message.body!r}")
        for found in subject.query_message("t", f"k{number}"):
            self.expect(found.body == number_body(number), f"query {number}: {found.body!r}")

    def close(self) -> Verdict:
        """Check that all kept messages are there, where they were put, and nothing else."""
        floor = self.store.min_phy_offset
        self.store.close()
        kept = {number for number, place in enumerate(self.places) if place >= floor}
        there: set[int] = set()
        with StoreReader(self.path) as reader:
            for queue in (0, 1):
                low, high = reader.bounds("t", queue)
                for batch in reader.read("t", queue, low, high, ["queueOffset", "body"]):
                    for row in batch.to_pylist():
                        number = 2 * row["queueOffset"] + queue
                        self.expect(row["body"] == number_body(number), f"afterwards {queue}/{row['queueOffset']}")
                        there.add(number)
        self.wrong += findings(self.path)
        return Verdict(lost=sorted(kept - there), phantom=sorted(there - kept), findings=self.wrong)


def number_body(number: int) -> bytes:
    return body(number) + b"." * 400


@contextmanager
def working(actor: Callable[[], None], wrong: list[str]) -> Iterator[None]:
    """Run a thread that repeats its work until the block ends."""
    stop = threading.Event()

    def run() -> None:
        try:
            while not stop.is_set():
                actor()
        except BaseException as error:
            wrong.append(repr(error))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


class Holder:
    """Keeps the slices of some gets, and checks them again after others were taken."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._held: list[tuple[GetMessageResult, int, list[bytes]]] = []

    def take(self) -> None:
        """Get and keep some more messages, from where retention deletes next."""
        trial, queue = self._trial, self._trial.random.randrange(2)
        got = trial.store.get_message("t", queue, trial.store.min_offset("t", queue), 8)
        self._held.append((got, queue, [bytes(one) for one in got.buffers()]))
        if len(self._held) > 3:
            self._release(*self._held.pop(0))

    def end(self) -> None:
        while self._held:
            self._release(*self._held.pop())

    def _release(self, got: GetMessageResult, queue: int, before: list[bytes]) -> None:
        self._trial.judge(got, queue)
        self._trial.expect([bytes(one) for one in got.buffers()] == before, "slices changed while they were held")
        got.release()


def test_readers_run_while_retention_deletes(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counter = tally("S24", "race")
    for seed in seeds(15, 160):
        trial = Trial(tmp_path / str(seed), seed, forcibly=seed % 2 == 0)
        holder = Holder(trial)
        with (
            StoreReader(trial.path) as reader,
            working(partial(trial.use, trial.store), trial.wrong),
            working(partial(trial.use, reader), trial.wrong),
            working(holder.take, trial.wrong),
        ):
            for _ in range(3):
                trial.put(30)
                trial.retention()
        holder.end()
        trial.retention()
        removed = trial.removed
        counter.trial(trial.close(), f"seed {seed}", hit=removed > 3)


COLUMNS = "columns" if COMPILED is None else "checked_columns"
READ_POINTS = [
    pytest.param(FileQueueTable, "low", False, "read", id="read-end"),
    pytest.param(FileQueueTable, "low", True, "read", id="read-bounds"),
    pytest.param(ConsumeQueue, "units", True, "read", id="read-units"),
    pytest.param(CommitLogView, COLUMNS, False, "read", id="read-columns"),
    pytest.param(CommitLogView, COLUMNS, True, "read", id="read-columns-left"),
    pytest.param(ConsumeQueue, "units", True, "get", id="get-units"),
    pytest.param(CommitLogView, "hold", False, "get", id="get-hold"),
    pytest.param(MappedFile, "hold", True, "get", id="get-held"),
    pytest.param(CommitLogView, "frame_in", False, "get", id="get-frame"),
    pytest.param(CommitLogView, "message_at", False, "look", id="look"),
]


@pytest.mark.parametrize("beside", [False, True], ids=["writer", "reader"])
@pytest.mark.parametrize(("owner", "name", "leaving", "work"), READ_POINTS)
def test_retention_deletes_while_a_reader_waits(
    tmp_path: Path, tally: Callable[..., Tally], owner: type, name: str, leaving: bool, work: str, beside: bool
) -> None:
    """All that the reader could have read is deleted before its next step; afterwards it reads once more."""
    counter = tally("S24", "reader held")
    for seed in seeds(2, 15):
        trial = Trial(tmp_path / str(seed), seed, forcibly=True)
        with StoreReader(trial.path) as reader, ThreadPoolExecutor() as threads:
            subject: Subject = reader if beside else trial.store
            for queue in (0, 1):
                subject.bounds("t", queue)
            trial.random = FromTheBegin(seed)
            with at_method(owner, name, leaving=leaving) as gate:
                at_work = threads.submit(getattr(trial, work), subject)
                gate.wait()
                trial.put(100)
                trial.retention()
                gate.go()
                at_work.result(60)
            getattr(trial, work)(subject)
        removed = trial.removed
        counter.trial(trial.close(), f"seed {seed}", hit=removed > 3)


class FromTheBegin(random.Random):
    """Chooses the oldest message wherever a reader chooses."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return 0 if stop is None else start


@pytest.mark.parametrize("nth", [1, 2, 4])
def test_readers_run_while_retention_waits(tmp_path: Path, tally: Callable[..., Tally], nth: int) -> None:
    """A file is retired, and still exists: no new reader opens it, and answers are the same as after its deletion."""
    counter = tally("S24", "retention held")
    for seed in seeds(3, 30):
        trial = Trial(tmp_path / str(seed), seed, forcibly=seed % 2 == 0)
        with StoreReader(trial.path) as reader, ThreadPoolExecutor() as threads, Phase("retention", nth) as phase:
            deleting = threads.submit(trial.retention)
            phase.wait()
            for _ in range(30):
                for subject in (trial.store, reader):
                    trial.use(subject)
            phase.go()
            deleting.result(60)
        removed = trial.removed
        counter.trial(trial.close(), f"seed {seed}", hit=removed >= nth)


@pytest.mark.parametrize("nth", [1, 5, 6, 7])
def test_queue_begin_is_searched_while_its_files_are_deleted(
    tmp_path: Path, tally: Callable[..., Tally], nth: int
) -> None:
    """Log files are deleted, queue files follow between two reads of the search: the answer is the one afterwards."""
    counter = tally("S24", "begin looked for")
    for seed in seeds(2, 15):
        trial = Trial(tmp_path / str(seed), seed, forcibly=True)
        before = trial.store.bounds("t", 0)
        with ThreadPoolExecutor() as threads, Phase(at_call("unlink", "consumequeue")) as phase:
            deleting = threads.submit(trial.retention)
            phase.wait()
            with at_method(ConsumeQueue, "units", nth=nth) as gate:
                looking = threads.submit(trial.store.bounds, "t", 0)
                gate.wait()
                phase.go()
                deleting.result(60)
                gate.go()
                answer = looking.result(60)
        now = trial.store.bounds("t", 0)
        trial.expect(answer == now, f"begin {answer[0]} during the deletion, {now[0]} afterwards")
        counter.trial(trial.close(), f"seed {seed}", hit=now[0] > before[0])
