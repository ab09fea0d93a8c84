"""Unmodified RocketMQ clients send to and consume from RocketFlow's NameServer and broker."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.apache.judge import FLAGS, compiled
from tests.support.maven import JarsNotFetchedError, fetch_jars, java_and_javac
from tests.support.servers import RunningServer, running

pytestmark = [pytest.mark.apache, pytest.mark.slow]

FAMILIES = [
    *("sync", "async", "oneway", "batch", "selector", "delay", "push", "tags", "broadcasting", "orderly"),
    *("sql", "retry", "dlq", "lite", "query"),
]
CLIENT_SECONDS = 500.0


@contextmanager
def cluster(home: Path, *settings: str) -> Iterator[tuple[RunningServer, RunningServer]]:
    """Run a NameServer and a broker."""
    with running("namesrv", home, "--set", f"kvConfigPath={home}/kv.json") as names:
        options = [
            f"storePathRootDir={home}/store",
            "mappedFileSizeCommitLog=67108864",
            "maxHashSlotNum=10000",
            "maxIndexNum=40000",
            "enablePropertyFilter=true",
            "waitTimeMillsInSendQueue=20000",  # a loaded machine
            *settings,
        ]
        arguments = [part for one in options for part in ("--set", one)]
        with running("broker", home, "-n", names.address, *arguments) as broker:
            yield names, broker


def quick_start(version: str, names: RunningServer, families: list[str], home: Path) -> dict[str, str]:
    """Run families of `java/QuickStart.java`; return the line of each."""
    try:
        java = java_and_javac()[0]
        parts = ("store", "broker", "namesrv")
        lib = fetch_jars(f"apache/{version}-broker", [f"org.apache.rocketmq:rocketmq-{one}:{version}" for one in parts])
    except JarsNotFetchedError as error:
        pytest.skip(str(error))
    classes = compiled("QuickStart", version, lib)
    done = subprocess.run(
        [java, *FLAGS, f"-Duser.home={home}", "-cp", f"{lib}/*:{classes}", "QuickStart", names.address, *families],
        capture_output=True,
        text=True,
        timeout=CLIENT_SECONDS,
        check=False,
    )
    lines = [one for one in done.stdout.splitlines() if one.startswith(("ok ", "not ok "))]
    found = {one.removeprefix("not ").split(" ")[1]: one for one in lines}
    assert found.keys() == set(families), (done.stdout[-2000:], done.stderr[-3000:])
    return found


@pytest.mark.parametrize("version", ["5.3.3", "4.9.7"])
def test_every_family_of_the_java_client_works(version: str, tmp_path: Path) -> None:
    with cluster(tmp_path) as (names, broker):
        found = quick_start(version, names, FAMILIES, tmp_path)
        assert found == {one: f"ok {one}" for one in FAMILIES}, broker.log.read_text()[-3000:]
        assert broker.stop() == 0
        assert names.stop() == 0
