"""Source and sink on a Spark standalone cluster of two workers that share a directory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rocketflow_store import StoreReader
from rocketflow_store.fsck.verify import verify_store
from tests.support.spark_cluster import standalone_cluster
from tests.support.spark_stores import append, numbered
from tests.support.trials import LEVEL

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(LEVEL == "sample", reason="starts a cluster of its own: RF_FAULTS=1"),
]
ROOT = Path(__file__).parents[3]
HOSTS = ["127.0.0.2", "127.0.0.3"]
COUNT = 2000


class Worked:
    """The results of one driver on a cluster, and the stores that it used."""

    def __init__(self, home: Path) -> None:
        self.store, self.target, self.lost = home / "s", home / "t", home / "lost"
        append(self.store, numbered("orders", range(COUNT)))
        shutil.copytree(self.store, self.lost)
        self.queues = files_of(self.lost / "consumequeue")
        shutil.rmtree(self.lost / "consumequeue")
        with standalone_cluster(home) as url:
            done = subprocess.run(
                [
                    *(sys.executable, str(Path(__file__).with_name("cluster_work.py")), url),
                    *map(str, (self.store, self.target, self.lost, home)),
                ],
                capture_output=True,
                text=True,
                timeout=300,
                env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'store'}"},
                check=False,
            )
        self._error = done.stderr[-4000:]
        self._results: dict[str, Any] = {}
        for line in done.stdout.splitlines():
            self._results |= json.loads(line)

    def result(self, name: str) -> dict[str, Any]:
        """Return the driver's result of one of its jobs."""
        assert name in self._results, self._error
        found: dict[str, Any] = self._results[name]
        return found


def files_of(room: Path) -> dict[Path, bytes]:
    return {one.relative_to(room): one.read_bytes() for one in room.rglob("*") if one.is_file()}


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Worked:
    return Worked(tmp_path_factory.mktemp("cluster"))


def test_two_workers_read_one_store(worked: Worked) -> None:
    result = worked.result("read")
    assert result["batch"] == [COUNT, sum(range(COUNT))]
    assert result["stream"] == [COUNT, sum(range(COUNT))]
    assert result["hosts"] == HOSTS


def test_two_workers_write_one_store(worked: Worked) -> None:
    result, target = worked.result("write"), worked.target
    assert sum(result["first"]) == COUNT
    assert len(result["first"]) > 1
    assert result["again"] == []
    with StoreReader(target) as reader:
        rows = [
            row
            for queue in reader.queues("copied")
            for batch in reader.read("copied", queue, *reader.bounds("copied", queue), columns=["body", "tags"])
            for row in batch.to_pylist()
        ]
    assert sorted(int(row["body"]) for row in rows) == list(range(COUNT))
    assert sorted({row["tags"] for row in rows}) == HOSTS
    assert verify_store(target).findings == []
    staged = (target / "rocketflow" / "staging").rglob("p*")
    assert [one for one in staged if one.is_file()] == []


def test_two_workers_rebuild_one_store(worked: Worked) -> None:
    result = worked.result("rebuild")
    assert (result["records"], result["units"], result["swapped"]) == (COUNT, COUNT, True)
    assert result["hosts"] == HOSTS
    assert files_of(worked.lost / "consumequeue") == worked.queues
    assert verify_store(worked.lost).findings == []
