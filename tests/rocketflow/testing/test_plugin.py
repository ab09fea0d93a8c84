"""pytest with the fixtures: the page's examples, alone and with pytest-xdist."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.support.trials import LEVEL, ROOT, environment

PAGE = ROOT / "rocketflow" / "testing" / "README.md"
EACH_WORKER = """
import os
import pathlib


def note(rocketmq):
    path = pathlib.Path(os.environ["NOTES"]) / os.environ["PYTEST_XDIST_WORKER"]
    path.write_text(rocketmq.broker_address)


def test_first(rocketmq, rocketmq_topic):
    note(rocketmq)


def test_second(rocketmq, rocketmq_topic):
    note(rocketmq)
"""


def examples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)


def pytest_in(home: Path, *options: str) -> str:
    """Run pytest in a directory as a user does; it loads the plugin by its entry point where that is installed."""
    installed = any(one.value == "rocketflow.testing.plugin" for one in entry_points(group="pytest11"))
    plugin = () if installed else ("-p", "rocketflow.testing.plugin")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *plugin, *options],
        cwd=home,
        env=environment(NOTES=str(home)),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_examples_of_the_page_pass(tmp_path: Path) -> None:
    tests, settings, script = examples()
    (tmp_path / "test_shop.py").write_text(tests)
    (tmp_path / "conftest.py").write_text(settings)
    assert "2 passed" in pytest_in(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert re.fullmatch(r"the NameServer 127\.0\.0\.1:\d+ has the route of topic-\w+\n", done.stdout), done.stderr


@pytest.mark.skipif(LEVEL == "sample", reason="three processes of pytest and four servers: RF_FAULTS=1 runs it")
def test_each_worker_of_xdist_has_its_own_servers(tmp_path: Path) -> None:
    (tmp_path / "test_workers.py").write_text(EACH_WORKER)
    assert "2 passed" in pytest_in(tmp_path, "-n", "2")
    addresses = [(tmp_path / name).read_text() for name in ("gw0", "gw1")]
    assert len(set(addresses)) == 2
