"""Settings of a running broker that operators show and change (requests 25 and 26)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.broker.service import Broker
from rocketflow.broker.settings import load_broker_settings
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.errors import RequestRefusedError
from rocketflow.client.options import ClientOptions
from rocketflow.namesrv.service import NameServer
from rocketflow.namesrv.settings import NamesrvSettings
from rocketflow.process.server_settings import ADMIN_KEYS
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.header import Header
from tests.rocketflow.broker.test_runtime_figures import options_at
from tests.support.request_headers import pull_header, send_header

CODE, ANSWER = RequestCode, ResponseCode


class Operator:
    """An operator of one broker."""

    def __init__(self, client: AdminClient, address: str) -> None:
        self.client, self.address = client, address

    async def ask(self, code: int, header: Header, body: bytes = b"") -> int:
        """Return the code of the broker's answer."""
        try:
            await self.client.cluster.request(self.address, RequestCode(code), header, body=body)
        except RequestRefusedError as error:
            return error.code
        return ANSWER.SUCCESS

    async def change(self, **values: str) -> int:
        """Return the code of the answer to a change of settings."""
        try:
            await self.client.update_broker_config(self.address, values)
        except RequestRefusedError as error:
            return error.code
        return ANSWER.SUCCESS

    async def send(self, topic: str = "t") -> int:
        """Return the code of the answer to a message."""
        return await self.ask(CODE.SEND_MESSAGE, send_header(topic), b"x")

    async def permission(self, topic: str = "t") -> int:
        """Return the permission that a NameServer says of the topic's queues."""
        return (await self.client.route(topic)).queue_datas[0].perm


@asynccontextmanager
async def operated(file: Path) -> AsyncIterator[Operator]:
    """Run a NameServer, and a broker with the settings of a file."""
    names = NameServer(NamesrvSettings(listen_port=0, kv_config_path=str(file.parent / "kv.json")))
    await names.start()
    address = f"127.0.0.1:{names.port}"
    settings, config, given = load_broker_settings(file, {"namesrvAddr": address}, {})
    broker = Broker(settings, config, given, file)
    try:
        await broker.start()
        async with AdminClient(ClientOptions(name_servers=address)) as client:
            yield Operator(client, settings.broker_address)
    finally:
        await broker.stop()
        await names.stop()


def conf(home: Path, listed: str) -> Path:
    """Return a broker.conf whose listed keys may be changed."""
    values = {**options_at(home), "registerNameServerPeriod": "60000", ADMIN_KEYS: listed}
    file = home / "broker.conf"
    file.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return file


def with_operator(file: Path, check: Callable[[Operator], Awaitable[None]]) -> None:
    """Run a check with a broker that has the settings of a file."""

    async def main() -> None:
        async with operated(file) as operator:
            await check(operator)

    run(main())


def test_a_broker_that_lists_no_key_changes_nothing(tmp_path: Path) -> None:
    file = conf(tmp_path, "")
    before = file.read_bytes()

    async def check(operator: Operator) -> None:
        assert await operator.change(brokerPermission="4") == ANSWER.NO_PERMISSION
        assert await operator.change() == ANSWER.NO_PERMISSION
        assert await operator.send() == ANSWER.SUCCESS

    with_operator(file, check)
    assert file.read_bytes() == before


def test_a_changed_permission_counts_at_once_at_the_name_server_and_after_a_restart(tmp_path: Path) -> None:
    file = conf(tmp_path, "brokerPermission")
    before = file.read_text()

    async def closes(operator: Operator) -> None:
        assert await operator.send() == ANSWER.SUCCESS
        assert await operator.permission() == 6
        assert await operator.change(brokerPermission="4") == ANSWER.SUCCESS
        assert await operator.permission() == 4, "the answer comes after the registration"
        assert await operator.send() == ANSWER.NO_PERMISSION
        assert await operator.ask(CODE.PULL_MESSAGE, pull_header()) == ANSWER.SUCCESS
        assert (await operator.client.broker_config(operator.address))["brokerPermission"] == "4"
        for values in ({"brokerPermission": "8"}, {"brokerPermission": "6", "brokerName": "x"}):
            assert await operator.change(**values) in (ANSWER.INVALID_PARAMETER, ANSWER.NO_PERMISSION)
        assert await operator.send() == ANSWER.NO_PERMISSION

    with_operator(file, closes)
    assert file.read_text() == f"{before}brokerPermission=4\n"

    async def opens(operator: Operator) -> None:
        assert await operator.send() == ANSWER.NO_PERMISSION
        assert await operator.permission() == 4
        assert await operator.change(brokerPermission="6") == ANSWER.SUCCESS
        assert (await operator.send(), await operator.permission()) == (ANSWER.SUCCESS, 6)

    with_operator(file, opens)


def test_what_mqadmin_exports_is_among_the_settings(tmp_path: Path) -> None:
    async def check(operator: Operator) -> None:
        shown = await operator.client.broker_config(operator.address)
        assert int(shown["clientCallbackExecutorThreads"]) > 0, "exportMetrics takes it as the number of processors"
        assert {"brokerRole", "fileReservedTime", "flushDiskType", "maxMessageSize", "useTLS"} <= shown.keys()

    with_operator(conf(tmp_path, ""), check)


def test_a_new_permission_has_a_new_version_of_the_topics(tmp_path: Path) -> None:
    """Apache's NameServers take other permissions under a new version only."""

    async def check(operator: Operator) -> None:
        async def version() -> str:
            reply = await operator.client.cluster.request(operator.address, CODE.GET_BROKER_CONFIG)
            return reply.fields["version"]

        before = await version()
        assert await operator.change(longPollingEnable="false") == ANSWER.SUCCESS
        assert await version() == before
        assert await operator.change(brokerPermission="6") == ANSWER.SUCCESS
        assert await version() != before

    with_operator(conf(tmp_path, "longPollingEnable,brokerPermission"), check)


def test_switches_of_topics_and_groups_count_at_once(tmp_path: Path) -> None:
    file = conf(tmp_path, "autoCreateTopicEnable,autoCreateSubscriptionGroup,rejectTransactionMessage")
    with file.open("a") as opened:
        opened.write("autoCreateTopicEnable=false\n")
    half = send_header(properties="TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01u\x02", sys_flag=4)

    async def check(operator: Operator) -> None:
        assert await operator.send() == ANSWER.TOPIC_NOT_EXIST
        assert await operator.change(autoCreateTopicEnable="true") == ANSWER.SUCCESS
        assert await operator.send() == ANSWER.SUCCESS
        assert await operator.change(autoCreateTopicEnable="false") == ANSWER.SUCCESS
        assert await operator.send("other") == ANSWER.TOPIC_NOT_EXIST
        pull = pull_header(consumer_group="new")
        assert await operator.change(autoCreateSubscriptionGroup="false") == ANSWER.SUCCESS
        assert await operator.ask(CODE.PULL_MESSAGE, pull) == ANSWER.SUBSCRIPTION_GROUP_NOT_EXIST
        assert await operator.change(autoCreateSubscriptionGroup="true") == ANSWER.SUCCESS
        assert await operator.ask(CODE.PULL_MESSAGE, pull) == ANSWER.SUCCESS
        assert await operator.ask(CODE.SEND_MESSAGE, half, b"x") == ANSWER.SUCCESS
        assert await operator.change(rejectTransactionMessage="true") == ANSWER.SUCCESS
        assert await operator.ask(CODE.SEND_MESSAGE, half, b"x") == ANSWER.NO_PERMISSION

    with_operator(file, check)


def test_changes_that_arrive_together_are_all_kept(tmp_path: Path) -> None:
    keys = ("longPollingEnable", "enablePropertyFilter", "recallMessageEnable", "litePullMessageEnable")
    file = conf(tmp_path, ",".join(keys))

    async def check(operator: Operator) -> None:
        for value in ("false", "true"):
            assert set(await asyncio.gather(*(operator.change(**{key: value}) for key in keys))) == {ANSWER.SUCCESS}
            assert {f"{key}={value}" for key in keys} <= set(file.read_text().splitlines())

    with_operator(file, check)


@pytest.mark.parametrize("kept", [True, False])
def test_what_cannot_be_written_does_not_count(kept: bool, tmp_path: Path) -> None:
    file = conf(tmp_path, "brokerPermission")

    async def check(operator: Operator) -> None:
        if not kept:
            file.unlink()
        assert await operator.change(brokerPermission="4") == (ANSWER.SUCCESS if kept else ANSWER.SYSTEM_ERROR)
        assert await operator.send() == (ANSWER.NO_PERMISSION if kept else ANSWER.SUCCESS)

    with_operator(file, check)
