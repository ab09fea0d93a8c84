"""The Spark driver that crash tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.reliability.driver_process import Driver


@pytest.fixture(scope="package")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Yield a Spark driver process that all trials share except those that kill it."""
    with Driver(tmp_path_factory.mktemp("driver") / "d") as made:
        yield made
