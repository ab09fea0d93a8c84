"""Transactional producers of the Java client, and stores with undecided messages that pass between brokers."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import pytest

from tests.apache.clients import all_ok, cluster, java_families, own_broker
from tests.apache.judge import versions
from tests.apache.test_apache_opens_rocketflow_stores import SIZES
from tests.apache.test_mixed_clusters import settings_of
from tests.support.real_broker import RealBroker
from tests.support.servers import running, wait_for_a_broker
from tests.support.trials import LEVEL

pytestmark = [pytest.mark.apache, pytest.mark.slow, pytest.mark.timeout(1_800)]

QUICK_CHECKS: Final = (
    *("transactionTimeOut=1500", "transactionCheckInterval=1000", "transactionCheckMax=200"),
    "transactionOpBatchInterval=100",  # Apache's broker asks about ended transactions until their mark is written
)


@pytest.mark.parametrize("version", versions("5.3.3", of=("5.3.3", "4.9.7")))
def test_transactional_producer_of_the_java_client_works(version: str, tmp_path: Path) -> None:
    families = ["commit"] if LEVEL == "sample" else ["commit", "check"]
    with cluster(tmp_path, *QUICK_CHECKS) as (names, broker):
        found = java_families("Transactions", version, names.address, families, tmp_path)
        assert found == all_ok(families), broker.log.read_text()[-3000:]
        broker.stop_in_order()


@pytest.mark.skipif(LEVEL == "sample", reason="starts three brokers one after the other: RF_FULL=1 runs it")
@pytest.mark.parametrize("version", ["5.3.3", "5.5.0"])
@pytest.mark.parametrize("first", ["RocketFlow", "Apache"])
def test_undecided_messages_are_decided_at_the_broker_that_takes_the_store_over(
    version: str, first: str, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    second = "Apache" if first == "RocketFlow" else "RocketFlow"
    with running("namesrv", tmp_path, "--set", f"kvConfigPath={tmp_path}/kv.json") as names:

        def broker(kind: str) -> AbstractContextManager[object]:
            if kind == "Apache":
                conf = "".join(f"{one}\n" for one in QUICK_CHECKS)
                return RealBroker(version, store, SIZES, tmp_path / "work", conf, names_port=names.port)
            return own_broker(tmp_path / "own", names.address, *settings_of(store), *QUICK_CHECKS)

        for kind, family in ((first, "leave"), (second, "take"), (first, "commit")):
            with broker(kind):
                wait_for_a_broker(names.address)
                place = f"A store of {first}'s broker at the other"
                found = java_families("Transactions", version, names.address, [family], tmp_path, place)
                assert found == all_ok([family])
