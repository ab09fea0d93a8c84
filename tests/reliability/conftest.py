"""The Spark driver that crash tests share, and the place of a trial's store: a directory, or a broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.reliability.copying import BROKER, Begin, Copying, ServedCopying
from tests.support.driver_process import Driver
from tests.support.network_stores import Brokers, brokers


@pytest.fixture(scope="package")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Yield a Spark driver process that all trials share except those that kill it."""
    with Driver(tmp_path_factory.mktemp("driver") / "d") as made:
        yield made


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Run a NameServer, and a broker that the trials of a module share."""
    with brokers(tmp_path_factory.mktemp("served")) as found:
        found.start(BROKER)
        yield found


@pytest.fixture
def begin(request: pytest.FixtureRequest) -> Begin:
    """Return how a trial begins, with its store in a directory of its own ("path") or at a broker ("network")."""
    if request.param == "path":
        return Copying
    served: Brokers = request.getfixturevalue("served")
    return lambda driver, directory: ServedCopying(driver, directory, served)
