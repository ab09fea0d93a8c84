"""Clients that a cluster refuses: one line with the cause and exit code 1, or one error."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketflow.aio.loop import run as run_loop
from rocketflow.cli.app import run
from rocketflow.client import PullConsumer, PullOptions, PushConsumer, PushOptions
from rocketflow.client import sync as sync_clients
from rocketflow.client.errors import RequestRefusedError
from rocketflow.remoting.signature import Credentials
from rocketflow.testing import Cluster, start_cluster
from tests.support.signed import PLAIN_RULES

ADMIN, READER, WRITER = "administrator", "reader-1", "writer-1"
SECRETS = {
    ADMIN: "secret-of-the-admin",
    READER: "secret-of-the-reader",
    WRITER: "secret-of-the-writer",
    "wrong": "another",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("refusals")
    (home / "conf").mkdir()
    (home / "conf" / "plain_acl.yml").write_text(PLAIN_RULES)
    with start_cluster({"aclEnable": "true", "rocketmqHome": str(home)}, directory=home / "servers") as started:
        with pytest.MonkeyPatch.context() as patch:
            account(patch, ADMIN)
            for topic in ("orders", "closed"):
                at = ("-n", started.name_server_address, "-b", started.broker_address)
                assert run(["admin", "updateTopic", *at, "-t", topic, "-r", "2", "-w", "2"]) == 0
        yield started


def account(patch: pytest.MonkeyPatch, name: str) -> None:
    patch.setenv("ROCKETFLOW_ACCESS_KEY", name)
    patch.setenv("ROCKETFLOW_SECRET_KEY", SECRETS[name])


@pytest.mark.parametrize(
    ("name", "words", "cause"),
    [
        (READER, ["consume", "--topic", "orders", "-g", "others"], "others"),
        (READER, ["consume", "--topic", "closed", "-g", "readers"], "closed"),
        (READER, ["consume", "--topic", "closed"], "TOOLS_CONSUMER"),
        (WRITER, ["send", "--topic", "closed", "x"], "closed"),
        ("wrong", ["send", "--topic", "orders", "x"], "wrong"),
        ("wrong", ["consume", "--topic", "orders"], "wrong"),
        ("wrong", ["consume", "--topic", "orders", "-g", "readers"], "wrong"),
        (WRITER, ["admin", "deleteTopic", "-t", "orders", "-c", "DefaultCluster"], "215"),
    ],
)
def test_refusal_ends_a_command_with_one_line_and_1(
    cluster: Cluster,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    words: list[str],
    cause: str,
) -> None:
    account(monkeypatch, name)
    assert run([*words, "-n", cluster.name_server_address]) == 1
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == []
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert cause in line
    assert line.count("answered with") == 1


def test_refused_send_of_many_lines_ends_with_one_line(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    account(monkeypatch, WRITER)
    file = tmp_path / "lines"
    file.write_text("x\n" * 600)
    assert run(["send", "--topic", "closed", "--input", str(file), "-n", cluster.name_server_address]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: topic 'closed': not acknowledged after 1 attempt: ")


@pytest.mark.parametrize("sync", [False, True])
def test_consumers_without_permission_for_their_group_raise_the_refusal(cluster: Cluster, sync: bool) -> None:
    options = {"name_servers": cluster.name_server_address, "credentials": Credentials(READER, SECRETS[READER])}

    async def consume(message: object, context: object) -> None:
        raise AssertionError

    async def main() -> None:
        async with PullConsumer(PullOptions(group="others", **options)) as pulling:
            with pytest.raises(RequestRefusedError, match="Group others"):
                await pulling.subscribe("orders")
            with pytest.raises(RequestRefusedError, match="Group others"):
                await pulling.subscribe("orders")
            with pytest.raises(RequestRefusedError, match="Group others"):
                await pulling.assign(await pulling.queues("orders"))
        pushing = PushConsumer(PushOptions(group="others", **options), consume)
        await pushing.subscribe("orders")
        with pytest.raises(RequestRefusedError, match="Group others"):
            await pushing.start()

    def plain() -> None:
        with (
            sync_clients.PullConsumer(PullOptions(group="others", **options)) as pulling,
            pytest.raises(RequestRefusedError, match="Group others"),
        ):
            pulling.subscribe("orders")
        pushing = sync_clients.PushConsumer(PushOptions(group="others", **options), lambda messages, context: None)
        pushing.subscribe("orders")
        with pytest.raises(RequestRefusedError, match="Group others"):
            pushing.start()

    plain() if sync else run_loop(main())


def test_consumer_whose_topic_is_refused_reads_another_one(cluster: Cluster) -> None:
    async def main() -> None:
        account = Credentials(READER, SECRETS[READER])
        options = PullOptions(group="readers", name_servers=cluster.name_server_address, credentials=account)
        async with PullConsumer(options) as pulling:
            with pytest.raises(RequestRefusedError, match="Topic closed"):
                await pulling.subscribe("closed")
            await pulling.subscribe("orders")
            assert len(pulling.assignment()) == 2

    run_loop(main())
