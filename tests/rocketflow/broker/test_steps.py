"""The steps of a broker's start and stop."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.aio.steps import UncleanStopError
from rocketflow.broker.service import Broker
from rocketflow.broker.settings import load_broker_settings
from rocketflow.broker.topics.registration import Registration
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.offset import UpdateConsumerOffsetRequestHeader
from rocketflow_store.spi.delivery import TimerMessageService
from tests.rocketflow.broker.test_runtime_figures import options_at
from tests.support.request_headers import GROUP, pull_header, send_header

CODE = RequestCode

NAMES = [
    *("health and figures", "store", "accounts and certificates", "system topics and groups", "offsets", "arrivals"),
    *("deliveries", "connections", "puts", "waiting requests", "services", "registration", "jobs"),
    "offsets before the rest",
]


def steps_of(kind: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.split(": ")[1] for one in caplog.messages if one.startswith(f"{kind}: ")]


async def commit_an_offset(address: str) -> None:
    peers = Peers()
    assert (await peers.request(address, CODE.SEND_MESSAGE, send_header("t"), body=b"x")).code == ResponseCode.SUCCESS
    assert (await peers.request(address, CODE.PULL_MESSAGE, pull_header("t"))).code == ResponseCode.SUCCESS
    header = UpdateConsumerOffsetRequestHeader(consumer_group=GROUP, topic="t", queue_id=0, commit_offset=1)
    assert (await peers.request(address, CODE.UPDATE_CONSUMER_OFFSET, header)).code == ResponseCode.SUCCESS
    await peers.close()


def test_a_broker_starts_and_stops_by_named_steps(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings, config, given = load_broker_settings(None, options_at(tmp_path), {})

    async def trial() -> None:
        broker = Broker(settings, config, given)
        await broker.start()
        await commit_an_offset(settings.broker_address)
        await broker.stop()

    with caplog.at_level(logging.INFO, "rocketflow.aio"):
        run(trial())
    assert steps_of("start", caplog) == NAMES
    assert steps_of("stop", caplog) == [
        *("offsets before the rest", "registration", "services", "waiting requests", "puts", "connections"),
        *("deliveries", "arrivals", "offsets", "store", "health and figures"),
    ]
    assert saved_offset(tmp_path) == 1
    assert not (tmp_path / "s" / "abort").exists()


def saved_offset(home: Path) -> int:
    table = json.loads((home / "s" / "config" / "consumerOffset.json").read_text())["offsetTable"]
    return int(table[f"t@{GROUP}"]["0"])


def test_a_stop_with_stuck_steps_saves_offsets_closes_the_store_and_names_the_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, config, given = load_broker_settings(None, options_at(tmp_path), {})
    release, saved = threading.Event(), []

    async def never(_: Registration) -> None:
        saved.append(saved_offset(tmp_path))
        await asyncio.Event().wait()

    async def trial() -> None:
        broker = Broker(settings, config, given)
        with monkeypatch.context() as patch:
            patch.setattr(TimerMessageService, "stop", lambda _: release.wait())
            patch.setattr(Registration, "stop", never)
            await broker.start()
            await commit_an_offset(settings.broker_address)
            with pytest.raises(UncleanStopError) as caught:
                await broker.stop()
        assert "registration: not over after" in str(caught.value)
        assert "deliveries: not over after" in str(caught.value)
        release.set()

    run(trial())
    assert saved == [1]
    assert not (tmp_path / "s" / "abort").exists()


def test_a_start_that_fails_closes_the_store_and_its_listeners(tmp_path: Path) -> None:
    options = options_at(tmp_path)
    settings, config, given = load_broker_settings(None, options, {})
    with socket.create_server(("127.0.0.1", settings.listen_port - 2)), pytest.raises(OSError, match="in use"):
        run(Broker(settings, config, given).start())
    socket.create_server(("127.0.0.1", settings.listen_port)).close()
    assert not (tmp_path / "s" / "abort").exists()
