"""One NameServer and one broker for the tests of push consumers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.pushing import small_cluster
from tests.support.servers import RunningServer


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, RunningServer]]:
    """Provide a NameServer and its broker."""
    with small_cluster(tmp_path_factory.mktemp("push")) as both:
        yield both


@pytest.fixture(scope="package")
def names(servers: tuple[RunningServer, RunningServer]) -> str:
    """Provide the address of the NameServer."""
    return servers[0].address
