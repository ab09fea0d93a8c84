"""The Spark driver that crash tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.reliability.driver_process import Driver


@pytest.fixture(scope="package")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A Spark driver in a process of its own, for all trials that leave it alive."""
    with Driver(tmp_path_factory.mktemp("driver") / "d") as made:
        yield made
