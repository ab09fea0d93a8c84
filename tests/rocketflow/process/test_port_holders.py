"""The process that listens at a port, by name."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from rocketflow.process.port_holders import port_holder

LISTEN = """
import socket, sys
server = socket.create_server((sys.argv[1], 0), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print(server.getsockname()[1], flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_the_process_that_listens_is_named(address: str) -> None:
    command = [sys.executable, "-c", LISTEN, address, "x" * 200]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            pytest.skip("this machine has no such address")
        said = port_holder(int(line))
        process.communicate("")
    assert said.startswith(f"process {process.pid} ({sys.executable} -c")
    assert said.endswith(f"...) listens at port {int(line)}")
    assert "\n" not in said


def test_a_port_without_a_listener_or_with_a_hidden_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert port_holder(port) == f"a process of another user listens at port {port}"  # this process is not looked at
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert port_holder(client.getsockname()[1]) == ""
    assert port_holder(port) == ""
    assert os.getpid()
