"""`rocketflow namesrv` and `rocketflow broker` as a user starts them: readiness, `--wait`, the order of stops."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketflow.testing.cluster import NEIGHBOURS, SMALL_FILES
from rocketflow.testing.ports import free_port
from rocketflow.testing.server_process import set_options
from tests.support.servers import running, until
from tests.support.trials import COMMAND_LINE, environment

READY = re.compile(r"ready: (the (?:NameServer|broker broker-a) listens at (\S+).*), process (\d+), log (\S+)\n")


def command(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", COMMAND_LINE, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(**more),
    )


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.fixture
def started() -> Iterator[list[int]]:
    """Provide a list of processes that are stopped at the end."""
    processes: list[int] = []
    yield processes
    for one in reversed(processes):
        if is_running(one):
            os.kill(one, signal.SIGTERM)
    assert until(lambda: not any(map(is_running, processes)))


def test_servers_that_were_waited_for_answer_the_next_command(tmp_path: Path, started: list[int]) -> None:
    home = {"XDG_STATE_HOME": str(tmp_path / "state")}
    words = set_options([f"listenPort={free_port()}", f"kvConfigPath={tmp_path}/kv.json"])
    done = command("namesrv", "--wait", *words, **home)
    said = READY.fullmatch(done.stdout)
    assert said is not None, done
    names, log = said[2].replace("0.0.0.0", "127.0.0.1"), Path(said[4])
    started.append(int(said[3]))
    assert log.read_text() == f"ready: {said[1]}\n"
    again = command("namesrv", "--wait", *words, **home)
    assert (again.returncode, again.stdout) == (75, "")
    assert again.stderr.startswith("error: Address already in use")
    assert f"process {said[3]} (" in again.stderr
    small = [f"{key}={value}" for key, value in SMALL_FILES.items()]
    own = [f"storePathRootDir={tmp_path}/store", "brokerIP1=127.0.0.1", f"listenPort={free_port(NEIGHBOURS)}", *small]
    done = command("broker", "-n", names, "--wait", *set_options(own), **home)
    said = READY.fullmatch(done.stdout)
    assert said is not None, done
    started.append(int(said[3]))
    done = command("send", "-n", names, "--topic", "orders", "first")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "orders: 1 messages stored\n")
    os.kill(started[0], signal.SIGTERM)
    assert until(lambda: not is_running(started[0]))
    os.kill(started[1], signal.SIGTERM)
    assert until(lambda: not is_running(started[1]))
    lines = [line for line in Path(said[4]).read_text().splitlines() if not line.startswith("an append took")]
    assert lines == [f"ready: {said[1]}", "stopped"], "a NameServer that has stopped before is no warning"


def test_server_says_at_the_socket_of_systemd_that_it_serves(tmp_path: Path) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as service_manager:
        service_manager.bind(str(path))
        service_manager.settimeout(60)
        options = set_options([f"kvConfigPath={tmp_path}/kv.json"])
        with running("namesrv", tmp_path, *options, shell=f"NOTIFY_SOCKET={path} exec") as server:
            lines = service_manager.recv(4096).decode().splitlines()
            address = f"127.0.0.1:{server.port}"
            assert lines[0] == "READY=1"
            assert lines[1].removeprefix("STATUS=the NameServer listens at ") in (address, f"0.0.0.0:{server.port}")
            assert server.log.read_text().startswith("ready: ")
            assert lines[2].startswith("MAINPID=")
