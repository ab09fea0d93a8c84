"""A NameServer and a broker for the tests of producers, and clients of both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.client_cluster import ClientCluster, client_cluster

SETTINGS = (
    "recallMessageEnable=true",
    "transactionTimeOut=300",
    "transactionCheckInterval=100",
    "transactionCheckMax=1000",
    "enablePropertyFilter=true",
)


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientCluster]:
    """Run a NameServer and a broker, which the tests leave alive."""
    with client_cluster(tmp_path_factory.mktemp("produce"), *SETTINGS) as found:
        yield found
