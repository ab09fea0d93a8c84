"""Messages that Apache's broker passes over in silence: consumers of RocketFlow notice the gap."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rocketflow.cli.app import run
from rocketflow_store import Message, MessageStore
from tests.apache.judge import VERSIONS_5, versions
from tests.apache.test_apache_opens_rocketflow_stores import SIZES
from tests.support.real_broker import RealBroker
from tests.support.servers import wait_for_a_broker

pytestmark = [pytest.mark.apache, pytest.mark.slow]
COUNT = 40


@pytest.mark.parametrize("version", versions("5.3.3", of=VERSIONS_5))
def test_missing_log_file_is_a_gap_that_consume_reports(
    version: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store"
    size = SIZES.mapped_file_size_commit_log // 15
    with MessageStore.open(path, SIZES) as store:
        for number in range(COUNT):
            assert store.put_message(Message("orders", b"%d" % number + b"x" * size, tags="a", queue_id=0)).stored
    (_, second, *_, _) = sorted((path / "commitlog").iterdir())
    second.unlink()
    with RealBroker(version, path, SIZES, tmp_path / "home", last=True) as broker:
        names = f"127.0.0.1:{broker.names_port}"
        wait_for_a_broker(names)
        assert run(["consume", "-n", names, "--topic", "orders", "--json"]) == 3
        found = capfd.readouterr()
        (gap,) = caplog.messages
        caplog.clear()
        assert run(["consume", "-n", names, "--topic", "orders", "--tags", "a", "--json"]) == 0
    first, lost = map(int, re.findall(r"RF-SKIP broker \S+ offset ([0-9]+) count ([0-9]+): ", gap)[0])
    assert 0 < first < first + lost < COUNT
    assert found.out.count('"queueOffset"') == COUNT - lost
    assert f"error: {lost} messages could not be read" in found.err
    assert caplog.messages == []
