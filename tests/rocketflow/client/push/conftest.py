"""The servers of the tests of push consumers."""

from __future__ import annotations

import pytest

from tests.support.client_cluster import ClientCluster
from tests.support.servers import RunningServer


@pytest.fixture(scope="session")
def servers(cluster: ClientCluster) -> tuple[RunningServer, RunningServer]:
    """Provide a NameServer and its broker."""
    return cluster.names, cluster.broker


@pytest.fixture(scope="session")
def names(cluster: ClientCluster) -> str:
    """Provide the address of the NameServer."""
    return cluster.names.address
