"""The servers of the tests of the columns of pulled messages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.consumer_cluster import ConsumerCluster, consumer_cluster


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsumerCluster]:
    with consumer_cluster(tmp_path_factory.mktemp("arrow")) as one:
        yield one
