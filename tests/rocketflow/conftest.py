"""A NameServer and a broker that all tests of clients in a test process share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.client_cluster import ClientCluster, client_cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientCluster]:
    """Run both servers, which the tests leave alive. Each test uses topics and groups of its own."""
    with client_cluster(tmp_path_factory.mktemp("clients")) as found:
        yield found


@pytest.fixture(scope="session")
def servers(cluster: ClientCluster) -> ClientCluster:
    """Provide the same, for tests that have a client's own view of the cluster by that name."""
    return cluster
