"""Checks of pulls that name no subscription, which hold at Apache's broker and at RocketFlow's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rocketflow.remoting.bodies import ConsumerData, HeartbeatData, SubscriptionData, encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command
from rocketflow_store.spi.table_rows import SubscriptionGroupConfig
from tests.support.request_headers import GROUP, pull_header

CODE = RequestCode
Ask = Callable[..., Awaitable[Command]]
"""Sends a request of this code, header and body to a broker and returns the answer."""


async def heartbeat(ask: Ask, expression: str = "*", version: int = 1, kind: str = "TAG", **group: str) -> None:
    await heartbeat_of(
        ask, SubscriptionData(topic="t", sub_string=expression, expression_type=kind, sub_version=version), **group
    )


async def heartbeat_of(ask: Ask, *subscriptions: SubscriptionData, **group: str) -> None:
    consumer = ConsumerData(group_name=GROUP, subscription_data_set=[*subscriptions], **group)  # type: ignore[arg-type]
    body = encode_body(HeartbeatData(client_id="me", consumer_data_set=[consumer]))
    assert (await ask(CODE.HEART_BEAT, None, body)).code == ResponseCode.SUCCESS


async def pull(ask: Ask, version: int = 1) -> Command:
    return await ask(CODE.PULL_MESSAGE, pull_header("t", sys_flag=0, sub_version=version))


async def check_broadcasting(ask: Ask) -> None:
    """Check that a group broadcasts only while it may; topic `t` has messages."""

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


async def check_subscriptions(ask: Ask) -> None:
    """Check the codes of pulls whose subscription is missing, old or wrong; topic `t` has messages."""

    async def answered(version: int = 1) -> int:
        return (await pull(ask, version)).code

    code = ResponseCode
    assert await answered() == code.SUBSCRIPTION_NOT_EXIST
    await heartbeat(ask, "a >", 1, "SQL92")
    assert await answered() == code.FILTER_DATA_NOT_EXIST
    await heartbeat(ask, "a > 1", 2, "SQL92")
    assert await answered(2) == code.SYSTEM_ERROR  # enablePropertyFilter is false
    await heartbeat(ask, "a > > 1", 3, "SQL92")
    assert await answered(3) == code.FILTER_DATA_NOT_EXIST
    assert await answered(2) == code.FILTER_DATA_NOT_EXIST
    assert await answered(4) == code.SUBSCRIPTION_NOT_LATEST
    await heartbeat(ask, "a > 2", 4, "SQL92")
    assert await answered(4) == code.SYSTEM_ERROR
    await heartbeat(ask, "", 5, "SQL92")
    assert await answered(5) == code.FILTER_DATA_NOT_LATEST
    assert await answered(4) == code.SYSTEM_ERROR
    await heartbeat(ask, "*", 6)
    assert await answered(6) == code.SUCCESS
