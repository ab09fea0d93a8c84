"""Row S23: a second writer is refused and the holder named; dead holders, stale locks and reused pids block none."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import MessageStore
from rocketflow_store.model.errors import StoreLockedError
from tests.support.checker import Place, check
from tests.support.results import Tally
from tests.support.trials import environment, seeds


def test_a_holder_excludes_others_until_it_is_dead(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts = tally("S23")
    store = tmp_path / "s"
    acked: dict[int, Place] = {}
    for number, seed in enumerate(seeds(20, 20)):
        rng = random.Random(seed)
        if number:  # what another program, or an earlier boot, may have left: no lock, whatever pid it names
            stale = rng.choice([b"", b"lock", b"%d" % os.getpid(), b"1", rng.randbytes(40)])
            (store / "lock").write_bytes(stale)
            (store / "abort").write_bytes(b"%d" % os.getpid())
        holder = subprocess.Popen(
            [sys.executable, "-m", "tests.reliability.lock_holder", str(store), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        assert holder.stdin is not None
        assert holder.stdout is not None
        _, queue_id, queue_offset, orphan = map(int, holder.stdout.readline().split())
        acked[number] = (queue_id, queue_offset)
        with pytest.raises(StoreLockedError, match=f"pid {holder.pid} ") as caught:
            MessageStore.open(store)
        assert caught.value.exit_code == 75
        if rng.random() < 0.75:
            holder.kill()
        else:
            holder.stdin.close()
        holder.wait()
        holder.stdout.close()
        os.kill(orphan, 0)  # its child still lives
        with MessageStore.open(store), pytest.raises(StoreLockedError, match="this process"):
            MessageStore.open(store)
        counts.trial(check(store, acked, set(acked)), f"seed {seed}")
        holder.stdin.close()
