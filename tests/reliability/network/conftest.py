"""One broker and one NameServer for all tests that leave them alive."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers import RunningServer, no_traceback, running, running_broker


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Run a broker with SQL92 filters and recalls; at the end it stops in order and its log has no traceback."""
    settings = "enablePropertyFilter=true", "recallMessageEnable=true", "rocketflow.maxConnections=11000"
    with running_broker(tmp_path_factory.mktemp("broker"), *settings) as found:
        yield found
        assert found.stop() == 0
        no_traceback(found)


@pytest.fixture(scope="package")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Run a NameServer; at the end it stops in order and its log has no traceback."""
    home = tmp_path_factory.mktemp("names")
    with running("namesrv", home, "--set", f"kvConfigPath={home}/kv.json") as found:
        yield found
        assert found.stop() == 0
        no_traceback(found)
