"""The example of the README is run; and its tools work as it describes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rocketflow_store import Message, MessageStore, StoreReader
from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
from tests.reliability.audit import audited
from tests.reliability.power import Run, after_power_loss, config
from tests.support.phases import POINTS, Phase, at_method
from tests.support.results import Tally
from tests.support.simulated_disk import SimulatedDisk
from tests.support.trials import seeds


def test_the_example(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    text = Path(__file__).with_name("README.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(def test_.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {
        "POINTS": POINTS,
        "Run": Run,
        "SimulatedDisk": SimulatedDisk,
        "after_power_loss": after_power_loss,
        "random": random,
        "seeds": seeds,
    }
    exec(example, names)
    names[re.findall(r"def (\w+)", example)[0]](tmp_path, tally)


def test_a_phase_lock_holds_a_roll_while_readers_pass(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", config("async")) as store, ThreadPoolExecutor(1) as pool:
        store.put_message(Message("t", b"first", queue_id=0))
        with Phase("roll") as phase:
            rolling = pool.submit(store.put_messages, [Message("t", bytes(1000), queue_id=0) for _ in range(20)])
            phase.wait()
            with StoreReader(tmp_path / "s") as reader:
                assert reader.bounds("t", 0) == (0, 1)
            phase.go()
            assert all(one.stored for one in rolling.result(60))
        with at_method(MappedFileQueue, "create") as gate:
            rolling = pool.submit(store.put_messages, [Message("t", bytes(1000), queue_id=0) for _ in range(20)])
            gate.wait()
            assert store.max_offset("t", 0) == 21
            gate.go()
            rolling.result(60)


def test_audit_hook_reports_forbidden_operations(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with audited(tmp_path / "in") as seen:
        (tmp_path / "in" / "file").write_bytes(b"x")
        assert seen == []
        (tmp_path / "out").write_bytes(b"x")
        compile("1 + 1", "<made up>", "eval")
    assert len(seen) == 2
