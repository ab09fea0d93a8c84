"""RocketFlow's Python client sends to and consumes from Apache's brokers and RocketFlow's own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.apache.clients import all_ok, cluster, record
from tests.apache.judge import VERSIONS
from tests.apache.python_families import FAMILIES, Servers, run_family
from tests.apache.test_apache_opens_rocketflow_stores import SIZES
from tests.support.real_broker import RealBroker
from tests.support.servers import wait_for_a_broker
from tests.support.trials import LEVEL

pytestmark = [pytest.mark.apache, pytest.mark.slow, pytest.mark.timeout(1_800)]

SAMPLE = ["sync", "batch", "tags", "orderly", "lite"]
OF_5 = ["timer", "recall"]
SETTINGS = (
    *("recallMessageEnable=true", "traceTopicEnable=true", "enablePropertyFilter=true"),
    *("transactionTimeOut=5000", "transactionCheckInterval=1000"),
    "waitTimeMillsInSendQueue=20000",  # the machine is shared, and a send to a chosen queue has one attempt
)


def test_every_family_works_at_own_broker(tmp_path: Path) -> None:
    families = SAMPLE if LEVEL == "sample" else list(FAMILIES)
    with cluster(tmp_path, *SETTINGS) as (names, broker):
        assert run(families, names.address, broker.address, tmp_path, "Python") == all_ok(families)
        broker.stop_in_order()


@pytest.mark.skipif(LEVEL == "sample", reason="boots a broker of Apache's: RF_FULL=1 runs it")
@pytest.mark.parametrize("version", VERSIONS)
def test_every_family_works_at_apache_broker(version: str, tmp_path: Path) -> None:
    families = [one for one in FAMILIES if version.startswith("5") or one not in OF_5]
    sizes = replace(SIZES, broker_name="apache")
    conf = "".join(f"{one}\n" for one in SETTINGS)
    with RealBroker(version, tmp_path / "store", sizes, tmp_path / "work", conf) as apache:
        names, broker = f"127.0.0.1:{apache.names_port}", f"127.0.0.1:{apache.port}"
        wait_for_a_broker(names)
        assert run(families, names, broker, tmp_path, f"Python, at Apache's {version}") == all_ok(families)


def run(families: Sequence[str], names: str, broker: str, home: Path, place: str) -> dict[str, str]:
    """Run families one after the other; return and record the line of each."""

    async def all_lines() -> dict[str, str]:
        servers = Servers(names, broker, home)
        return {one: await run_family(one, servers) for one in families}

    found = asyncio.run(all_lines())
    record(place, found)
    return found
