"""RocketFlow's Python client sends to and consumes from Apache's brokers and RocketFlow's own."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rocketflow.client import ConsumeContext, ReceivedMessage
from rocketflow.client.produce import reply_to
from tests.apache.clients import all_ok, cluster, jars, record
from tests.apache.judge import VERSIONS
from tests.apache.python_families import FAMILIES, Servers, run_family
from tests.apache.test_apache_opens_rocketflow_stores import SIZES
from tests.support.java_programs import FLAGS, compiled
from tests.support.maven import java_and_javac
from tests.support.real_broker import RealBroker
from tests.support.servers import wait_for_a_broker
from tests.support.trials import LEVEL

pytestmark = [pytest.mark.apache, pytest.mark.slow, pytest.mark.timeout(1_800)]

REQUESTERS = ["5.5.0"] if LEVEL == "sample" else ["4.9.7", "5.5.0"]
"""Java clients whose `request` waits for the reply: that of 5.3.3 ends once the question is stored."""

SAMPLE = ["sync", "batch", "innerbatch", "tags", "orderly", "lite"]
OF_5 = ["innerbatch", "timer", "recall"]
REPLIES = [f"reply re: question {number}" for number in range(3)]
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


@pytest.mark.parametrize("version", REQUESTERS)
def test_java_requester_has_replies_of_a_python_consumer_at_own_broker(version: str, tmp_path: Path) -> None:
    with cluster(tmp_path, *SETTINGS) as (names, broker):
        assert asyncio.run(replied(Servers(names.address, broker.address, tmp_path), version)) == REPLIES
        broker.stop_in_order()


@pytest.mark.skipif(LEVEL == "sample", reason="boots a broker of Apache's: RF_FULL=1 runs it")
@pytest.mark.parametrize("version", VERSIONS)
def test_every_family_works_at_apache_broker(version: str, tmp_path: Path) -> None:
    families = [one for one in FAMILIES if version.startswith("5") or one not in OF_5]
    sizes = replace(SIZES, broker_name="apache")
    conf = "".join(f"{one}\n" for one in SETTINGS)
    with RealBroker(version, tmp_path / "store", sizes, tmp_path / "work", conf, last=True) as apache:
        names, broker = f"127.0.0.1:{apache.names_port}", f"127.0.0.1:{apache.port}"
        wait_for_a_broker(names)
        place = f"Python, at Apache's {version}"
        assert run(families, names, broker, tmp_path, place, commits_once=False) == all_ok(families)
        assert asyncio.run(replied(Servers(names, broker, tmp_path / "replies"), "5.5.0")) == REPLIES


def run(
    families: Sequence[str], names: str, broker: str, home: Path, place: str, *, commits_once: bool = True
) -> dict[str, str]:
    """Run families one after the other; return and record the line of each."""

    async def all_lines() -> dict[str, str]:
        servers = Servers(names, broker, home, commits_once=commits_once)
        return {one: await run_family(one, servers) for one in families}

    found = asyncio.run(all_lines())
    record(place, found)
    return found


async def replied(servers: Servers, version: str) -> list[str]:
    """Let a Java client ask a Python consumer; return what it prints."""
    topic = await servers.topic()
    lib = jars(version)
    flags = [*FLAGS, f"-Duser.home={servers.home}", "-cp", f"{lib}/*:{compiled('Requester', version, lib)}"]
    command = [java_and_javac()[0], *flags, "Requester", servers.names, topic, "3", "120000"]
    async with servers.producer() as answering:

        async def listen(batch: list[ReceivedMessage], context: ConsumeContext) -> None:
            for one in batch:
                await answering.send(reply_to(one, b"re: " + one.body))

        async with servers.push(topic, listen):
            done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-3000:]
    return [one for one in done.stdout.splitlines() if one.startswith("reply ")]
