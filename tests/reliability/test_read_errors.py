"""Row S19: the disk cannot read (EIO): a typed error while it lasts, no wrong body, and no message is lost."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import MessageStore, StoreReader
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.errors import StoreError
from tests.reliability.power import Run, config
from tests.support.disk_layer import READS, Call, Failing, Layer
from tests.support.results import Tally
from tests.support.simulated_disk import SimulatedDisk
from tests.support.trials import FULL, SEED, some
from tests.support.workload import number_of

pytestmark = pytest.mark.slow


@pytest.fixture
def killed_run(tmp_path: Path) -> tuple[Path, Run]:
    """Return the image of a killed writer, and its run."""
    (tmp_path / "live").mkdir()
    with SimulatedDisk(tmp_path / "live") as disk:
        run = Run(disk, "sync", random.Random(SEED), lambda _: False)
        run.before_close = lambda _: run.instants.append(run.now())
        run.go(120)
    run.instants[0].state.kill(tmp_path / "image")
    return tmp_path / "image", run


def below(directory: Path) -> Callable[[Call], bool]:
    return lambda call: call.path is not None and call.path.is_relative_to(directory)


def points(directory: Path, do: Callable[[], object], fast: int) -> list[int]:
    """Return the numbers of the read calls that are to fail: each one, or a sample."""
    with Failing(READS, 0, where=below(directory)) as probe:
        do()
    assert probe.seen > 5
    every = range(1, probe.seen + 1)
    return list(every) if FULL else sorted(random.Random(SEED).sample(every, min(some(fast), len(every))))


def read_everything(store: Path) -> tuple[set[int], list[StoreError]]:
    """Return the numbers of all readable messages, queue by queue, and the errors of the others."""
    numbers: set[int] = set()
    errors: list[StoreError] = []
    try:
        with StoreReader(store) as reader:
            for queue in reader.queues("t"):
                try:
                    low, high = reader.bounds("t", queue)
                    for batch in reader.read("t", queue, low, high, columns=["body"]):
                        numbers |= {number_of(body) for body in batch.column(0).to_pylist()}
                except StoreError as error:
                    errors.append(error)
    except StoreError as error:
        errors.append(error)
    return numbers, errors


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
def test_reading(killed_run: tuple[Path, Run], lasting: bool, tally: Callable[..., Tally]) -> None:
    image, run = killed_run
    MessageStore.open(image, config("sync")).close()
    counts = tally("S19", f"read, {'from then on' if lasting else 'once'}")
    acked = {ack.number for ack in run.acks}
    for nth in points(image, lambda: read_everything(image), 20):
        with Failing(READS, nth, on=lasting, where=below(image)) as failing:
            numbers, errors = read_everything(image)
            context = f"seed {SEED}, read {nth}: {failing.hits[:1]}"
            assert numbers <= acked, context
            assert numbers == acked or errors, (
                f"{context}: {len(acked - numbers)} messages are missing without an error"
            )
            failing.lift()
            assert read_everything(image) == (acked, []), context
        counts.trial(None, context, hit=bool(failing.hits))


def test_getting_from_the_writing_store(killed_run: tuple[Path, Run], tally: Callable[..., Tally]) -> None:
    image, run = killed_run
    counts = tally("S19", "get")
    with Layer(), MessageStore.open(image, config("sync")) as store:

        def get_all() -> list[bool]:
            found = []
            for ack in run.acks:
                try:
                    with store.get_message("t", *ack.place, 1) as result:
                        bodies = [message.body for message in result.messages]
                    assert [number_of(body) for body in bodies] in ([], [ack.number])
                    found.append(bool(bodies))
                except StoreError:
                    found.append(False)
            return found

        for nth in points(image, get_all, 10):
            with Failing(READS, nth, where=below(image)) as failing:
                assert get_all().count(False) <= 1, f"read {nth}: {failing.hits}"
            assert all(get_all())
            counts.trial(None, f"read {nth}", hit=bool(failing.hits))


@pytest.mark.parametrize("what", ["recovery", "scrub"])
def test_recovery_and_scrub(
    tmp_path: Path, killed_run: tuple[Path, Run], what: str, tally: Callable[..., Tally]
) -> None:
    """It fails with a typed error, or reports findings; the next time, without the fault, everything is correct."""
    image, run = killed_run
    counts = tally("S19", what)
    acked = {ack.number for ack in run.acks}
    shutil.copytree(image, tmp_path / "probe")
    if what == "scrub":
        MessageStore.open(image, config("sync")).close()
    copy = tmp_path / "copy"

    def do() -> object:
        target = copy if copy.exists() else tmp_path / "probe"
        return verify_store(target).findings if what == "scrub" else MessageStore.open(target, config("sync")).close()

    for nth in points(tmp_path, do, 15):
        shutil.copytree(image, copy)
        with Failing(READS, nth, on=what == "scrub", where=below(copy)) as failing:
            outcome = outcome_of(do)
        context = f"seed {SEED}, read {nth}: {failing.hits[:1]}, {outcome!r}"
        assert what != "scrub" or not failing.hits or outcome, f"{context}: the fault is not reported"
        MessageStore.open(copy, config("sync")).close()
        assert read_everything(copy) == (acked, []), context
        assert not verify_store(copy).findings, context
        counts.trial(None, context, hit=bool(failing.hits))
        shutil.rmtree(copy)


def outcome_of(do: Callable[[], object]) -> object:
    """Return the result, or the typed error that was raised."""
    try:
        return do()
    except StoreError as error:
        return error
