"""Source and sink on a Spark standalone cluster of two workers that share a directory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketflow_store import StoreReader
from rocketflow_store.fsck.verify import verify_store
from tests.rocketflow.spark.cluster import standalone_cluster
from tests.rocketflow.spark.stores import append, numbered

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parents[3]
HOSTS = ["127.0.0.2", "127.0.0.3"]
COUNT = 2000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as url:
        yield url


def run(script: str, *arguments: object) -> dict[str, Any]:
    """What the script prints, run as a driver of its own."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(script)), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'store'}"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def test_two_workers_read_one_store(cluster: str, tmp_path: Path) -> None:
    append(tmp_path / "s", numbered("orders", range(COUNT)))
    result = run("cluster_read.py", cluster, tmp_path / "s", tmp_path)
    assert result["batch"] == [COUNT, sum(range(COUNT))]
    assert result["stream"] == [COUNT, sum(range(COUNT))]
    assert result["hosts"] == HOSTS


def test_two_workers_write_one_store(cluster: str, tmp_path: Path) -> None:
    source, target = tmp_path / "s", tmp_path / "t"
    append(source, numbered("orders", range(COUNT)))
    result = run("cluster_write.py", cluster, source, target, tmp_path)
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


def test_two_workers_rebuild_one_store(cluster: str, tmp_path: Path) -> None:
    append(tmp_path / "s", numbered("orders", range(COUNT)))
    room = tmp_path / "s" / "consumequeue"
    wanted = {one.relative_to(room): one.read_bytes() for one in room.rglob("*") if one.is_file()}
    shutil.rmtree(room)
    result = run("cluster_rebuild.py", cluster, tmp_path / "s")
    assert (result["records"], result["units"], result["swapped"]) == (COUNT, COUNT, True)
    assert result["hosts"] == HOSTS
    assert {one.relative_to(room): one.read_bytes() for one in room.rglob("*") if one.is_file()} == wanted
    assert verify_store(tmp_path / "s").findings == []
