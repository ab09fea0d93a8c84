"""The source on a Spark standalone cluster of two workers that share a directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rocketflow.spark.cluster import standalone_cluster
from tests.rocketflow.spark.stores import append, numbered

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parents[3]


def test_two_workers_read_one_store(tmp_path: Path) -> None:
    count = 2000
    append(tmp_path / "s", numbered("orders", range(count)))
    with standalone_cluster(tmp_path) as url:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'store'}"}
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("cluster_read.py")), url, str(tmp_path / "s"), str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=200,
            env=environment,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    result = json.loads(done.stdout.strip().splitlines()[-1])
    assert result["batch"] == [count, sum(range(count))]
    assert result["stream"] == [count, sum(range(count))]
    assert result["hosts"] == ["127.0.0.2", "127.0.0.3"]
