"""One Kafka broker for all tests of the bridge; they are skipped if its jars cannot be fetched."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.rocketflow.kafka.bridging import Topics
from tests.support.kafka_broker import KafkaBroker, SecuredListener
from tests.support.maven import JarsNotFetchedError


@pytest.fixture(scope="package")
def listener(tmp_path_factory: pytest.TempPathFactory) -> SecuredListener:
    """Return the broker's listener with TLS and logins."""
    return SecuredListener(tmp_path_factory.mktemp("kafka") / "tls")


@pytest.fixture(scope="package")
def broker(listener: SecuredListener) -> Iterator[KafkaBroker]:
    try:
        started = KafkaBroker(listener.home.parent / "broker", heap="400m", quick=True, secured=listener)
    except JarsNotFetchedError as error:
        pytest.skip(str(error))
    with started:
        yield started


@pytest.fixture(scope="package")
def topics(broker: KafkaBroker) -> Iterator[Topics]:
    with Topics(broker.bootstrap_servers) as opened:
        yield opened


@pytest.fixture
def secured(listener: SecuredListener, topics: Topics) -> tuple[SecuredListener, Topics]:
    return listener, topics


_NUMBERS = itertools.count()


@pytest.fixture
def name() -> Callable[[str], str]:
    """Return a function that makes topic names unique: no other test uses `name("orders")`."""
    number = next(_NUMBERS)
    return lambda base: f"{base}{number}"


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store")
