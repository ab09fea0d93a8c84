"""Pulls that name no subscription: what a broker answers from the heartbeats of their group."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.broker.service import Broker
from rocketflow.broker.settings import load_broker_settings
from rocketflow.remoting.bodies import (
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
    SubscriptionGroupConfig,
    encode_body,
)
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.headers.header import Header
from rocketflow_store.telemetry.events import counts
from tests.rocketflow.broker.test_operator_requests import Ask, with_broker
from tests.rocketflow.broker.test_runtime_figures import options_at
from tests.support.request_headers import GROUP, pull_header

CODE = RequestCode


async def heartbeat(ask: Ask, expression: str = "*", version: int = 1, kind: str = "TAG", **group: str) -> None:
    subscription = SubscriptionData(topic="t", sub_string=expression, expression_type=kind, sub_version=version)
    consumer = ConsumerData(group_name=GROUP, subscription_data_set=[subscription], **group)  # type: ignore[arg-type]
    body = encode_body(HeartbeatData(client_id="me", consumer_data_set=[consumer]))
    assert (await ask(CODE.HEART_BEAT, None, body)).code == ResponseCode.SUCCESS


async def pull(ask: Ask, version: int = 1) -> Command:
    return await ask(CODE.PULL_MESSAGE, pull_header("t", sys_flag=0, sub_version=version))


def test_a_group_that_must_not_broadcast_is_refused_while_it_does(tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        async def allow(broadcast: bool) -> None:
            body = encode_body(SubscriptionGroupConfig(group_name=GROUP, consume_broadcast_enable=broadcast))
            assert (await ask(CODE.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)).code == ResponseCode.SUCCESS

        await heartbeat(ask, message_model="BROADCASTING")
        assert (await pull(ask)).code == ResponseCode.SUCCESS
        await allow(False)
        refused = await pull(ask)
        assert refused.code == ResponseCode.NO_PERMISSION
        assert f"the consumer group[{GROUP}] can not consume by broadcast way" in (refused.remark or "")
        await heartbeat(ask, message_model="CLUSTERING")
        assert (await pull(ask)).code == ResponseCode.SUCCESS
        await heartbeat(ask, message_model="BROADCASTING")
        await allow(True)
        assert (await pull(ask)).code == ResponseCode.SUCCESS

    with_broker(tmp_path, check)


def test_the_checks_of_a_subscription_have_rocketmqs_codes(tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        async def answered(version: int = 1) -> int:
            return (await pull(ask, version)).code

        code = ResponseCode
        assert await answered() == code.SUBSCRIPTION_NOT_EXIST
        await heartbeat(ask, "a >", 1, "SQL92")
        assert await answered() == code.FILTER_DATA_NOT_EXIST
        await heartbeat(ask, "a > 1", 2, "SQL92")
        assert await answered(2) == code.SYSTEM_ERROR  # enablePropertyFilter is false
        await heartbeat(ask, "a > > 1", 3, "SQL92")
        assert await answered(3) == code.FILTER_DATA_NOT_LATEST
        assert await answered(2) == code.SYSTEM_ERROR
        assert await answered(4) == code.SUBSCRIPTION_NOT_LATEST
        await heartbeat(ask, "*", 4)
        assert await answered(4) == code.SUCCESS

    with_broker(tmp_path, check)


def test_different_subscriptions_of_a_group_are_an_event(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def check(ask: Ask) -> None:
        other = Peers()

        async def ask_too(code: int, header: Header | None = None, body: bytes = b"") -> Command:
            return await other.request(address, code, header, body=body)

        await heartbeat(ask, "*", 1)
        await heartbeat(ask, "TagA", 2)
        assert "RF-SUBSCRIPTION-CONFLICT" not in caplog.text  # one client may change its subscription
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
