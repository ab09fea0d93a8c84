"""The blocks of the clients' page run as printed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.client_cluster import ClientCluster
from tests.support.trials import ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
SECONDS = 100.0


def wait_for(condition: Callable[[], bool]) -> None:
    latest = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < latest, f"not within {SECONDS} s"
        time.sleep(0.02)


def test_blocks_run(cluster: ClientCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scope: dict[str, object] = {"wait_for": wait_for, "DATABASE": tmp_path / "booked.db"}
    blocks = BLOCK.findall((ROOT / "rocketflow" / "client" / "README.md").read_text("utf-8"))
    monkeypatch.setenv("NAMESRV_ADDR", cluster.names.address)
    for text in blocks:
        exec(compile(text, "rocketflow/client/README.md", "exec"), scope)
    assert len(blocks) == 5
    assert sorted(scope["paid"]) == [b"one", b"paid", b"two"]  # type: ignore[call-overload]
    assert scope["rows"] in range(1, 4)
