"""Pulls that name no subscription: what a broker answers from the heartbeats of their group."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.broker.service import Broker
from rocketflow.broker.settings import load_broker_settings
from rocketflow.remoting.bodies import SubscriptionData
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.headers.header import Header
from rocketflow_store.telemetry.events import counts
from tests.rocketflow.broker.test_operator_requests import Check, with_broker
from tests.rocketflow.broker.test_runtime_figures import options_at
from tests.support.pull_checks import Ask, check_broadcasting, check_subscriptions, heartbeat, heartbeat_of
from tests.support.request_headers import GROUP

CODE = RequestCode


@pytest.mark.parametrize("check", [check_broadcasting, check_subscriptions])
def test_pulls_are_checked_by_the_heartbeats_of_their_group(tmp_path: Path, check: Check) -> None:
    with_broker(tmp_path, check)


def test_different_subscriptions_of_a_group_are_an_event(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def check(ask: Ask) -> None:
        other = Peers()

        async def ask_too(code: int, header: Header | None = None, body: bytes = b"") -> Command:
            return await other.request(address, code, header, body=body)

        await heartbeat(ask, "*", 1)
        await heartbeat(ask, "TagA", 2)
        assert "RF-SUBSCRIPTION-CONFLICT" not in caplog.text  # one client may change its subscription
        same = SubscriptionData(topic="t", sub_string="TagA", sub_version=2)
        await heartbeat_of(ask_too, same, SubscriptionData(topic=f"%RETRY%{GROUP}", sub_string="*", sub_version=2))
        assert "RF-SUBSCRIPTION-CONFLICT" not in caplog.text  # a push consumer beside a pull consumer
        await heartbeat(ask_too, "TagB", 1)
        await heartbeat(ask_too, "TagB", 1)
        await other.close()

    settings, config, given = load_broker_settings(None, options_at(tmp_path), {})
    address = settings.broker_address

    async def main() -> None:
        broker, peers = Broker(settings, config, given), Peers()
        await broker.start()

        async def ask(code: int, header: Header | None = None, body: bytes = b"") -> Command:
            return await peers.request(address, code, header, body=body)

        try:
            await check(ask)
        finally:
            await peers.close()
            await broker.stop()

    with caplog.at_level(logging.WARNING, "rocketflow_store"):
        run(main())
    (said,) = [one for one in caplog.messages if one.startswith("RF-SUBSCRIPTION-CONFLICT group g ")]
    assert "me reads t by TAG 'TagA' and me reads t by TAG 'TagB'" in said
    assert counts(settings.store_path_root_dir) == {"RF-SUBSCRIPTION-CONFLICT": 1}
