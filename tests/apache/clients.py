"""Unmodified RocketMQ clients as child processes, and RocketFlow's NameServer and broker for them."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.go import GoNotAvailableError, built, is_built
from tests.support.java_programs import FLAGS, broker_jars, compiled
from tests.support.maven import JarsNotFetchedError, java_and_javac
from tests.support.servers import RunningServer, running
from tests.support.trials import LEVEL

CLIENT_SECONDS: Final = 500.0
GO_SOURCE: Final = Path(__file__).parent / "go" / "quick_start"

RESULTS_VARIABLE: Final = "RF_INTEROP_RESULTS"
"""Names a folder; each client's results are written into it as JSON."""


@contextmanager
def cluster(home: Path, *settings: str) -> Iterator[tuple[RunningServer, RunningServer]]:
    """Run a NameServer and a broker."""
    own = ("--set", f"kvConfigPath={home}/kv.json")
    with running("namesrv", home, *own) as names, own_broker(home, names.address, *settings) as broker:
        yield names, broker


@contextmanager
def own_broker(home: Path, names: str, *settings: str, port: int = 0) -> Iterator[RunningServer]:
    """Run RocketFlow's broker at a NameServer that runs; `port` is the one it listens at, 0 for a free one."""
    options = [
        f"storePathRootDir={home}/store",
        "mappedFileSizeCommitLog=67108864",
        "maxHashSlotNum=10000",
        "maxIndexNum=40000",
        "enablePropertyFilter=true",
        "waitTimeMillsInSendQueue=20000",  # the machine is shared with other tests, and Go clients do not retry
        *settings,
    ]
    arguments = [part for one in options for part in ("--set", one)]
    with running("broker", home, "-n", names, *arguments, port=port) as broker:
        yield broker


def jars(version: str) -> Path:
    """Return the folder of RocketMQ's jars; skip the test with the reason if they cannot be fetched."""
    try:
        java_and_javac()
        return broker_jars(version)
    except JarsNotFetchedError as error:
        pytest.skip(str(error))


def java_families(
    program: str,
    version: str,
    names: str,
    families: Sequence[str],
    home: Path,
    place: str = "",
    properties: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Run families of `java/PROGRAM.java` at a NameServer; return the line of each.

    `place` names the servers in the table of results, "" RocketFlow's own; `properties` are Java's.
    """
    lib = jars(version)
    classes = compiled(program, version, lib)
    given = [f"-D{key}={value}" for key, value in (properties or {}).items()]
    flags = [*FLAGS, f"-Duser.home={home}", *given, "-cp", f"{lib}/*:{classes}"]
    found = run_families([java_and_javac()[0], *flags, program, names, *families], families)
    record(place or f"Java {version}", found)
    return found


def go_families(names: str, families: Sequence[str], place: str = "Go") -> dict[str, str]:
    """Run families of `go/quick_start` at a NameServer; return the line of each. They run side by side.

    `place` names the client in the table of results. The test is skipped if the program is not built: a sample run
    leaves the first build, which takes minutes, to RF_FULL=1 and `make test-interop`.
    """
    if LEVEL == "sample" and not is_built(GO_SOURCE):
        pytest.skip("a first build takes minutes: RF_FULL=1 or `make test-interop` makes it")
    try:
        program = built(GO_SOURCE)
    except GoNotAvailableError as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory(prefix="rocketflow-go-") as home:  # offsets of broadcasting consumers lie there
        found = run_families([str(program), names, *families], families, HOME=home)
    record(place, found)
    return found


def run_families(command: Sequence[str], families: Sequence[str], **variables: str) -> dict[str, str]:
    """Run a client program that prints `ok NAME` or `not ok NAME why` for each family; return the line of each.

    `variables` are added to its environment.
    """
    env = {**os.environ, **variables}
    done = subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_SECONDS, check=False, env=env)
    lines = [one for one in done.stdout.splitlines() if one.startswith(("ok ", "not ok "))]
    found = {one.removeprefix("not ").split(" ")[1]: one for one in lines}
    assert found.keys() == set(families), (done.stdout[-2000:], done.stderr[-3000:])
    return found


def all_ok(families: Sequence[str]) -> dict[str, str]:
    """Return the lines of a run without failures."""
    return {one: f"ok {one}" for one in families}


def record(client: str, found: Mapping[str, str]) -> None:
    """Add results to the folder that RF_INTEROP_RESULTS names, if it is set."""
    folder = os.environ.get(RESULTS_VARIABLE)
    if folder:
        name = "-".join([client.replace(" ", "-"), *sorted(found)])[:100]
        (Path(folder) / f"{name}.json").write_text(json.dumps({"client": client, "families": dict(found)}))
