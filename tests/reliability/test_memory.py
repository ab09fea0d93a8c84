"""Row S22: no memory at a large allocation: a typed error, nothing half done, and the next append works."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from rocketflow_store import MessageStore
from rocketflow_store.model.errors import StoreError
from tests.reliability.power import Run, config
from tests.reliability.test_kills import acknowledged
from tests.support.checker import check
from tests.support.results import Tally
from tests.support.simulated_disk import SimulatedDisk
from tests.support.trials import FULL, SEED, environment, sampled, some

pytestmark = pytest.mark.slow

ALLOCATING = {
    "encode_record",
    "encode",
    "batch_records",
    "encode_properties",
    "decode_record",
    "read_at",
    "read_file",
    "map_read_only",
    "units",
    "gather_rows",
    "index_entries",
    "rows_of_records",
    "property_segments",
    "scan_records",
    "content_faults",
    "entry_table",
    "place",
    "data",
    "add_batch",
    "bodies",
}
"""Functions of the product that allocate memory in proportion to their data."""


class NoMemory:
    """Raises MemoryError in the `nth` call (from 1) of an allocating function in this thread."""

    def __init__(self, nth: int) -> None:
        self._nth = nth
        self.seen, self.hits = 0, 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name in ALLOCATING and "/rocketflow_store/" in code.co_filename:
            self.seen += 1
            if self.seen == self._nth:
                self.hits += 1
                raise MemoryError

    @contextmanager
    def anywhere(self) -> Iterator[NoMemory]:
        """Install this in the thread while the block runs."""
        sys.setprofile(self)
        try:
            yield self
        finally:
            sys.setprofile(None)


def steps_of(run: Run, memory: NoMemory) -> None:
    """Run some puts, batches, flushes and reads, each of which may end with a typed error."""
    assert run.store is not None
    for _ in range(12):
        try:
            with memory.anywhere():
                run.step()
                run.store.get_message("t", 0, 0, 4).release()
        except (StoreError, MemoryError):
            pass


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_appending_and_reading(tmp_path: Path, flush: str, tally: Callable[..., Tally]) -> None:
    counts = tally("S22", f"append, {flush}")
    for nth in range(1, 201) if FULL else random.Random(SEED).sample(range(1, 201), some(25)):
        (tmp_path / "live").mkdir()
        memory = NoMemory(nth)
        with SimulatedDisk(tmp_path / "live") as disk:
            run = Run(disk, flush, random.Random(SEED), lambda _: False)
            with MessageStore.open(disk.root, config(flush)) as run.store:
                run.store.create_topic("t", 2)
                steps_of(run, memory)
                before = len(run.acks)
                run.put_some(2)
                assert len(run.acks) == before + 2, f"allocation {nth}: does not accept messages again"
        counts.trial(run.verdict(), f"seed {SEED}, allocation {nth}, {flush}", hit=bool(memory.hits))
        shutil.rmtree(tmp_path / "live")
    assert counts.hits


def test_recovering(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts = tally("S22", "recovery")
    (tmp_path / "live").mkdir()
    with SimulatedDisk(tmp_path / "live") as disk:
        run = Run(disk, "sync", random.Random(SEED), lambda _: False)
        run.before_close = lambda _: run.instants.append(run.now())
        run.go(60)
    state = run.instants[0].state
    for nth in sampled(range(1, 61 if FULL else 13), 3):
        image = tmp_path / "image"
        state.kill(image)
        memory = NoMemory(nth)
        try:
            with memory.anywhere():
                MessageStore.open(image, config("sync")).close()
        except (StoreError, MemoryError):
            pass
        MessageStore.open(image, config("sync")).close()
        acked = {ack.number: ack.place for ack in run.acks}
        verdict = check(image, acked, run.numbers(run.attempted))
        counts.trial(verdict, f"seed {SEED}, allocation {nth}", hit=bool(memory.hits))
        shutil.rmtree(image)


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_a_limit_on_the_address_space(tmp_path: Path, flush: str, tally: Callable[..., Tally]) -> None:
    """A real process with RLIMIT_AS: large messages are refused, small ones and reads go on."""
    counts = tally("S22", f"{flush}, RLIMIT_AS")
    done = subprocess.run(
        [sys.executable, "-B", "-m", "tests.reliability.starving", str(tmp_path / "s"), flush],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    acked = acknowledged(done.stdout)
    refused = {int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("refused ")}
    assert acked
    verdict = check(tmp_path / "s", acked, set(range(1000)), refused=refused)
    counts.trial(verdict, "RLIMIT_AS", hit=bool(refused))
    assert counts.hits
