"""Client commands with an account and TLS, on a broker that asks for both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketflow.cli.app import run
from rocketflow.testing import Cluster, start_cluster

NAME, SECRET = "boss", "secret-of-boss"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {
        "authenticationEnabled": "true",
        "initAuthenticationUser": f'{{"username":"{NAME}","password":"{SECRET}"}}',
        "tls.server.mode": "enforcing",
        "tls.test.mode.enable": "true",
        "tls.enable": "false",  # of the broker's calls to the NameServer, which has no TLS
    }
    with start_cluster(settings) as started:
        yield started


@pytest.fixture(autouse=True)
def _no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCKETFLOW_ACCESS_KEY", raising=False)
    monkeypatch.delenv("ROCKETFLOW_SECRET_KEY", raising=False)


def status(cluster: Cluster, *options: str) -> int:
    return run(["admin", "brokerStatus", "-n", cluster.name_server_address, "-b", cluster.broker_address, *options])


def test_account_of_a_file(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "tools.yml"
    file.write_text(f"# of operators\naccessKey: {NAME}\nsecretKey: '{SECRET}'\n")
    assert status(cluster, "--tls", "--credentials", str(file)) == 0


def test_account_of_the_environment(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETFLOW_ACCESS_KEY", NAME)
    monkeypatch.setenv("ROCKETFLOW_SECRET_KEY", SECRET)
    assert status(cluster, "--tls") == 0


def test_refusals_name_the_broker_and_show_no_secret(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert status(cluster, "--tls") == 1
    assert cluster.broker_address in capsys.readouterr().err
    assert status(cluster) == 69
    assert cluster.broker_address in capsys.readouterr().err
    file = tmp_path / "tools.yml"
    file.write_text(f"accessKey: {NAME}\nsecretKey: {SECRET}1\n")
    assert status(cluster, "--tls", "--credentials", str(file)) == 1
    assert SECRET not in capsys.readouterr().err
    file.write_text(f"secretKey: {SECRET}\n")
    assert status(cluster, "--credentials", str(file)) == 2
    said = capsys.readouterr().err
    assert "two lines are expected, accessKey: NAME and secretKey: SECRET" in said
    assert SECRET not in said
    monkeypatch.setenv("ROCKETFLOW_ACCESS_KEY", NAME)
    assert status(cluster) == 2
    assert "ROCKETFLOW_SECRET_KEY is missing" in capsys.readouterr().err
