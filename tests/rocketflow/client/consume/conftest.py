"""The servers of the tests of consumers' parts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.consumer_cluster import ConsumerCluster, consumer_cluster


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsumerCluster]:
    with consumer_cluster(tmp_path_factory.mktemp("consume")) as one:
        yield one
