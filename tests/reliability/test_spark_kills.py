"""Rows P01, P02, P03 and P07: driver or worker killed around the commit of a batch; every row exactly once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, StoreReader
from rocketflow_store.verify import verify_store

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
ROWS = 150


def drive(store: Path, checkpoint: Path, partitions: int, kill: str, marker: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "store")]),
        "RF_KILL": kill,
        "RF_MARKER": str(marker),
    }
    return subprocess.run(
        [sys.executable, "-m", "tests.reliability.spark_driver", str(store), str(checkpoint), str(partitions)],
        capture_output=True,
        text=True,
        timeout=150,
        env=environment,
        check=False,
    )


@pytest.mark.parametrize("kill", ["before@1", "after@1", "worker@0"])
def test_every_row_once_whatever_is_killed(tmp_path: Path, kill: str) -> None:
    store, checkpoint, marker = tmp_path / "s", tmp_path / "c", tmp_path / "killed"
    with MessageStore.open(store) as opened:
        opened.put_messages([Message("in", b"row %d" % number) for number in range(ROWS)])
    first = drive(store, checkpoint, 3, kill, marker)
    assert marker.exists(), (first.stdout, first.stderr[-2000:])
    if kill.startswith("worker"):  # Spark tries the task again by itself
        assert "finished" in first.stdout, first.stderr[-2000:]
    else:
        assert "finished" not in first.stdout
    second = drive(store, checkpoint, 7, kill, marker)
    assert "finished" in second.stdout, second.stderr[-2000:]
    with StoreReader(store) as reader:
        found = Counter(
            body
            for queue in reader.queues("out")
            for batch in reader.read("out", queue, *reader.bounds("out", queue), columns=["body"])
            for body in batch.column(0).to_pylist()
        )
    assert found == Counter(b"row %d" % number for number in range(ROWS))
    assert verify_store(store).findings == []
    assert not [one for one in (store / "rocketflow" / "staging").rglob("p*-a*") if one.is_file()]
