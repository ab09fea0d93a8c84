"""Fixtures of pytest (entry point `pytest11`); the servers start when the first test asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rocketflow.testing.cluster import Cluster


@pytest.fixture(scope="session")
def rocketmq_settings() -> dict[str, str]:
    """Return settings of the broker by RocketMQ's keys; a `conftest.py` may replace this fixture."""
    return {}


@pytest.fixture(scope="session")
def rocketmq(tmp_path_factory: pytest.TempPathFactory, rocketmq_settings: dict[str, str]) -> Iterator[Cluster]:
    """Provide a NameServer and a broker, which all tests of a process share."""
    from rocketflow.testing.cluster import start_cluster

    with start_cluster(rocketmq_settings, directory=tmp_path_factory.mktemp("rocketmq")) as cluster:
        yield cluster


@pytest.fixture
def rocketmq_topic(rocketmq: Cluster) -> str:
    """Provide the name of a new topic with four queues, for one test."""
    return rocketmq.create_topic()
