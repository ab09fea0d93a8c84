"""A NameServer and a broker for tests: what they keep, how they start, how they end."""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.client import ClientOptions, Message, Producer, ProducerOptions
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.remoting.bodies import MessageQueue
from rocketflow.testing import Cluster, ServerStartError, start_cluster
from rocketflow.testing import cluster as cluster_module
from rocketflow.testing.ports import free_port
from tests.support.trials import environment

WAIT_SECONDS = 30.0
STARTED = """
import os, signal
from rocketflow.testing import start_cluster
cluster = start_cluster()
print(cluster.directory, cluster.name_server_address, cluster.broker_address, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with start_cluster({"autoCreateTopicEnable": "false"}) as started:
        yield started


def admin_of(cluster: Cluster) -> AdminClient:
    return AdminClient(ClientOptions(name_servers=cluster.name_server_address))


def listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as one:
        return one.connect_ex((host, int(port))) == 0


def wait_until_closed(*addresses: str) -> None:
    latest = time.monotonic() + WAIT_SECONDS
    while any(listens(one) for one in addresses):
        assert time.monotonic() < latest, f"{addresses}: a server still listens"
        time.sleep(0.02)


def test_created_topics_have_a_route_at_once(cluster: Cluster) -> None:
    named, new, another = cluster.create_topic("orders", queues=3), cluster.create_topic(), cluster.create_topic()
    assert named == "orders"
    assert new != another

    async def queues() -> list[int]:
        async with admin_of(cluster) as admin:
            routes = [await admin.route(one) for one in (named, new, another)]
            return [route.queue_datas[0].write_queue_nums for route in routes]

    assert run(queues()) == [3, 4, 4]


def test_topic_is_created_from_an_event_loop_too(cluster: Cluster) -> None:
    async def create() -> str:
        await asyncio.sleep(0)
        return cluster.create_topic()

    assert asyncio.run(create()).startswith("topic-")


def test_settings_reach_the_broker(cluster: Cluster) -> None:
    async def config() -> dict[str, str]:
        async with admin_of(cluster) as admin:
            return await admin.broker_config(cluster.broker_address)

    assert run(config())["autoCreateTopicEnable"] == "false"


def test_acknowledged_messages_outlive_a_killed_broker(cluster: Cluster) -> None:
    topic = cluster.create_topic(queues=1)
    before = cluster.broker_address

    async def send() -> None:
        async with Producer(ProducerOptions(group="g", name_servers=cluster.name_server_address)) as producer:
            await producer.send_batch([Message(topic, b"%d" % number) for number in range(100)])

    async def end() -> int:
        async with admin_of(cluster) as admin:
            return await admin.max_offset(MessageQueue(topic, "broker-a", 0))

    run(send())
    cluster.kill_broker()
    assert not listens(before)
    cluster.restart_broker()
    assert cluster.broker_address == before
    assert run(end()) == 100
    cluster.restart_broker()
    assert run(end()) == 100


def test_stopped_cluster_leaves_neither_servers_nor_files() -> None:
    with start_cluster() as one:
        assert listens(one.name_server_address)
        assert (one.directory / "store" / "commitlog").is_dir()
    assert not listens(one.name_server_address)
    assert not listens(one.broker_address)
    assert not one.directory.exists()


def test_refused_setting_is_named_and_no_server_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    ports: list[int] = []

    def noted(near: tuple[int, ...] = ()) -> int:
        ports.append(free_port(near))
        return ports[-1]

    monkeypatch.setattr(cluster_module, "free_port", noted)
    with pytest.raises(ServerStartError, match="unknown key; did you mean flushDiskType") as raised:
        start_cluster({"flushDisk": "SYNC_FLUSH"})
    assert raised.value.code == 2
    assert len(ports) == 2
    assert not any(listens(f"127.0.0.1:{port}") for port in ports)


def test_taken_port_is_replaced_and_files_in_a_given_directory_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # it does not listen: the broker that starts too would wait for its answer
        ports = [int(taken.getsockname()[1])]
        monkeypatch.setattr(cluster_module, "free_port", lambda near=(): ports.pop() if ports else free_port(near))
        with start_cluster(directory=tmp_path) as one:
            assert not ports
            assert one.create_topic()
            assert one.directory == tmp_path
    assert (tmp_path / "broker.log").read_text().endswith("stopped\n")
    assert (tmp_path / "store" / "commitlog").is_dir()


def test_servers_end_with_a_killed_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTED], env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    found = re.fullmatch(r"(\S+) (\S+) (\S+)\n", done.stdout)
    assert found, done.stderr
    assert done.returncode == -9
    wait_until_closed(found[2], found[3])
    log = Path(found[1]) / "broker.log"
    latest = time.monotonic() + WAIT_SECONDS
    while not log.read_text().endswith("stopped\n"):
        assert time.monotonic() < latest, log.read_text()
        time.sleep(0.02)
    shutil.rmtree(found[1])


def test_command_runs_with_the_address_and_ends_with_its_code() -> None:
    program = "import os, sys; print(os.environ['NAMESRV_ADDR']); sys.exit(7)"
    done = subprocess.run(
        [sys.executable, "-m", "rocketflow.testing", sys.executable, "-c", program],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (7, "")
    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", done.stdout)
    assert not listens(done.stdout.strip())
