"""Rows S17 and S18: a sync fails, once or from then on; the store is fenced, and later syncs do not count (A2, R6)."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, PutMessageStatus
from tests.reliability.power import Run, after_power_loss
from tests.support.disk_layer import Call
from tests.support.results import Tally
from tests.support.simulated_disk import Flavour, SimulatedDisk
from tests.support.trials import FULL, SEED, sweep

pytestmark = pytest.mark.slow

STEPS = 30


class FailingSync:
    """Makes the `nth` sync fail, or (`on`) every one from there on."""

    def __init__(self, nth: int, flavour: Flavour, *, on: bool) -> None:
        self._nth, self.flavour, self._on = nth, flavour, on
        self.seen = 0
        self.failed: list[Call] = []

    def __call__(self, call: Call) -> Flavour | None:
        self.seen += 1
        if self.seen == self._nth or (self._on and self.seen > self._nth):
            self.failed.append(call)
            return self.flavour
        return None

    @property
    def harmless(self) -> bool:
        """Return whether only syncs of unused files failed: those files are recreated, or never needed."""
        return all(_is_recreated(str(call.path)) for call in self.failed)


def _is_recreated(path: str) -> bool:
    return "/rocketflow/tmp/" in path or "/config/" in path or path.endswith(("/config", ".tmp"))


def run_on(disk: SimulatedDisk, flush: str, failing: FailingSync, context: str) -> Run:
    """Run with this failing sync; at the end the store must be fenced."""
    disk.fail_sync = failing
    run = Run(disk, flush, random.Random(SEED), lambda _: False, tolerant=True)
    run.before_close = lambda store: check_fence(store, failing, run, context)
    run.go(STEPS)
    return run


def check_fence(store: MessageStore, failing: FailingSync, run: Run, context: str) -> None:
    """Check that the fenced store acknowledges no put and still serves reads."""
    if not failing.failed or failing.harmless:
        return
    assert store.statistics()["fenced"], f"{context}: not fenced after {failing.failed[0]}"
    answer = store.put_message(Message("t", b"x"))
    assert answer.status is PutMessageStatus.SERVICE_NOT_AVAILABLE, f"{context}: {answer}"
    readable = run.acks if failing.flavour is not Flavour.CLEAN_OLD or run.flush == "sync" else []
    for ack in readable:
        assert store.look_message_by_offset(ack.phy_offset) is not None, f"{context}: {ack} cannot be read"


@pytest.mark.parametrize("flush", ["sync", "async"])
@pytest.mark.parametrize("row", ["S17", "S18"])
def test_a_sync_fails(tmp_path: Path, row: str, flush: str, tally: Callable[..., Tally]) -> None:
    """Make each sync of a run fail; then restart on the same disk, go on, and lose power."""
    counts = tally(row, flush)
    probe = FailingSync(0, Flavour.DIRTY, on=False)
    (tmp_path / "probe").mkdir()
    with SimulatedDisk(tmp_path / "probe") as disk:
        run_on(disk, flush, probe, "probe")
    assert probe.seen > STEPS
    flavours = list(Flavour)
    for nth in sweep(probe.seen, 11):
        for flavour in flavours if FULL else [flavours[nth % 3]]:
            trial(tmp_path / "trial", flush, nth, flavour, row == "S18", counts)
            shutil.rmtree(tmp_path / "trial")
    assert counts.hits > counts.trials * 3 // 4


def trial(directory: Path, flush: str, nth: int, flavour: Flavour, on: bool, counts: Tally) -> None:
    failing = FailingSync(nth, flavour, on=on)
    context = f"seed {SEED}, sync {nth}, {flavour.name}"
    (directory / "live").mkdir(parents=True)
    with SimulatedDisk(directory / "live") as disk:
        run = run_on(disk, flush, failing, context)
        stopped = run.now()
    stopped.state.crash(directory / "image", SEED + nth, 0.5)
    after_power_loss(directory / "image", stopped, run, f"{context}, power loss")
    with stopped.state.kill(directory / "next") as disk:
        following = run.after_kill(disk, stopped)
        following.may_lose = flush == "async" and flavour is Flavour.CLEAN_OLD
        following.go(6)
        instant = following.now()
    instant.state.crash(directory / "image2", SEED + nth, 0.5)
    after_power_loss(directory / "image2", instant, following, f"{context}, restart, power loss")
    counts.trial(None, context, hit=bool(failing.failed))
