"""The check of ports of `rocketflow doctor`."""

from __future__ import annotations

import json
import socket

import pytest

from rocketflow.cli.app import run
from rocketflow.cli.doctor import ports


def said(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    run(["doctor", "--json"])
    (found,) = [one for one in json.loads(capsys.readouterr().out)["checks"] if one["name"] == "ports"]
    return dict(found)


def test_port_in_use_is_named_with_its_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server((ports.LOOPBACK, 0)) as server, socket.create_server((ports.LOOPBACK, 0)) as closed:
        taken, free = server.getsockname()[1], closed.getsockname()[1]
        closed.close()
        monkeypatch.setattr(ports, "ROCKETMQ_PORTS", {free: "NameServer", taken: "broker"})
        assert ports.ports_in_use((free, taken)) == [taken]
        found = said(capsys)
    assert (found["ok"], found["detail"]) == (True, f"{free} free; in use: {taken} (broker)")


def test_loopback_without_permission_fails_the_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ports, "why_not_bound", lambda: OSError(13, "Permission denied"))
    found = said(capsys)
    assert found["ok"] is False
    assert found["detail"] == "a server cannot listen on 127.0.0.1 (Permission denied)"
