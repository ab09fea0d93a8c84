"""One NameServer and one broker for the tests of push consumers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.pushing import small_cluster


@pytest.fixture(scope="package")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Provide the address of the NameServer."""
    with small_cluster(tmp_path_factory.mktemp("push")) as (name_server, _):
        yield name_server.address
