"""A running NameServer, asked over its socket."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rocketflow.aio.channel import Channel
from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.errors import UsageError
from rocketflow.namesrv.service import NameServer
from rocketflow.namesrv.settings import NamesrvSettings, load_namesrv_settings
from rocketflow.remoting.bodies import (
    ClusterInfo,
    KVTable,
    RegisterBrokerBody,
    TopicConfigWrapper,
    TopicList,
    TopicRouteData,
    decode_body,
    encode_body,
)
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command, encode_command, request
from rocketflow.remoting.headers import route as headers
from rocketflow_store.spi.table_rows import DataVersion, TopicConfig

CODE = RequestCode


@asynccontextmanager
async def name_server(home: Path, **changes: Any) -> AsyncIterator[Channel]:
    """Run a NameServer and return a connection to it."""
    settings = NamesrvSettings(listen_port=0, kv_config_path=str(home / "kv" / "kvConfig.json"), **changes)
    server, peers = NameServer(settings), Peers()
    await server.start()
    try:
        yield await peers.channel(f"127.0.0.1:{server.port}")
    finally:
        await peers.close()
        await server.stop()


def served(home: Path, check: Callable[[Channel], Awaitable[None]], **changes: Any) -> None:
    async def main() -> None:
        async with name_server(home, **changes) as channel:
            await check(channel)

    run(main())


async def register(channel: Channel, *topics: str, compressed: bool = False, crc: int | None = None) -> Command:
    table = {one: TopicConfig(topic_name=one, read_queue_nums=4, write_queue_nums=4) for one in topics}
    wrapper = TopicConfigWrapper(data_version=DataVersion(counter=1), topic_config_table=table)
    body = encode_body(RegisterBrokerBody(topic_config_serialize_wrapper=wrapper))
    if compressed:
        parts = [
            encode_body(DataVersion(counter=1)),
            *(f"{one} 4 4 6 SINGLE_TAG {{}}".encode() for one in topics),
            b"[]",
        ]
        texts = [len(one).to_bytes(4, "big") + one for one in parts]
        body = zlib.compress(b"".join([texts[0], len(topics).to_bytes(4, "big"), *texts[1:], bytes(4)]))
    header = headers.RegisterBrokerRequestHeader(
        broker_name="broker-a",
        broker_addr="127.0.0.1:10911",
        cluster_name="C",
        ha_server_addr="127.0.0.1:10912",
        broker_id=0,
        body_crc32=zlib.crc32(body) & 0x7FFFFFFF if crc is None else crc,
    )
    return await channel.request(CODE.REGISTER_BROKER, header, body=body, timeout_s=5)


async def route(channel: Channel, topic: str) -> Command:
    header = headers.GetRouteInfoRequestHeader(topic=topic)
    return await channel.request(CODE.GET_ROUTEINFO_BY_TOPIC, header, timeout_s=5)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_registered_topic_is_routed(tmp_path: Path, compressed: bool) -> None:
    async def check(channel: Channel) -> None:
        assert (await route(channel, "T")).code == ResponseCode.TOPIC_NOT_EXIST
        assert (await register(channel, "T", "U", compressed=compressed)).code == ResponseCode.SUCCESS
        data = decode_body((await route(channel, "T")).body, TopicRouteData)
        assert [one.broker_addrs for one in data.broker_datas] == [{"0": "127.0.0.1:10911"}]
        assert [(one.broker_name, one.read_queue_nums, one.perm) for one in data.queue_datas] == [("broker-a", 4, 6)]
        listed = await channel.request(CODE.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, timeout_s=5)
        assert sorted(decode_body(listed.body, TopicList).topic_list) == ["T", "U"]
        info = await channel.request(CODE.GET_BROKER_CLUSTER_INFO, timeout_s=5)
        assert decode_body(info.body, ClusterInfo).cluster_addr_table == {"C": ["broker-a"]}

    served(tmp_path, check)


def test_old_clients_get_bare_numbers_as_keys(tmp_path: Path) -> None:
    async def check(channel: Channel) -> None:
        await register(channel, "T", "U")
        assert b'"brokerAddrs":{"0":"127.0.0.1:10911"}' in (await route(channel, "T")).body
        reader, writer = await asyncio.open_connection(*channel.address.split(":"))
        old = Command(CODE.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}, version=317, language="GO", opaque=5)
        writer.write(encode_command(old))
        assert b'"brokerAddrs":{0:"127.0.0.1:10911"}' in await reader.read(65536)
        writer.close()

    served(tmp_path, check)


def test_the_routes_of_a_broker_go_with_its_connection(tmp_path: Path) -> None:
    async def check(channel: Channel) -> None:
        peers = Peers()
        await register(await peers.channel(channel.address), "T", "U")
        assert (await route(channel, "T")).code == ResponseCode.SUCCESS
        await peers.close()
        for _ in range(100):
            if (await route(channel, "T")).code == ResponseCode.TOPIC_NOT_EXIST:
                return
            await asyncio.sleep(0.02)
        pytest.fail("the routes stayed")

    served(tmp_path, check)


def test_a_damaged_registration_is_refused(tmp_path: Path) -> None:
    async def check(channel: Channel) -> None:
        answer = await register(channel, "T", "U", crc=1)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (await route(channel, "T")).code == ResponseCode.TOPIC_NOT_EXIST

    served(tmp_path, check)


def test_texts_by_key_survive_a_restart(tmp_path: Path) -> None:
    async def put(channel: Channel) -> None:
        header = headers.PutKVConfigRequestHeader(namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:4")
        assert (await channel.request(CODE.PUT_KV_CONFIG, header, timeout_s=5)).code == ResponseCode.SUCCESS

    async def check(channel: Channel) -> None:
        answer = await register(channel, "T", "U")
        assert decode_body(answer.body, KVTable).table == {"T": "broker-a:4"}
        data = decode_body((await route(channel, "T")).body, TopicRouteData)
        assert data.order_topic_conf == "broker-a:4"
        key = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T"}
        await channel.request(CODE.DELETE_KV_CONFIG, headers.DeleteKVConfigRequestHeader(**key), timeout_s=5)
        answer = await channel.request(CODE.GET_KV_CONFIG, headers.GetKVConfigRequestHeader(**key), timeout_s=5)
        assert answer.code == ResponseCode.QUERY_NOT_FOUND

    served(tmp_path, put)
    assert (tmp_path / "kv/kvConfig.json").read_bytes() == b'{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:4"}}}'
    served(tmp_path, check, order_message_enable=True)


def test_write_permission_is_taken_and_given_back(tmp_path: Path) -> None:
    async def check(channel: Channel) -> None:
        await register(channel, "T", "U")
        header = headers.WipeWritePermOfBrokerRequestHeader(broker_name="broker-a")
        answer = await channel.request(CODE.WIPE_WRITE_PERM_OF_BROKER, header, timeout_s=5)
        assert answer.fields == {"wipeTopicCount": "2"}
        assert decode_body((await route(channel, "T")).body, TopicRouteData).queue_datas[0].perm == 4

    served(tmp_path, check)


def test_what_is_not_known_is_answered_and_what_is_no_frame_ends_the_connection(tmp_path: Path) -> None:
    async def check(channel: Channel) -> None:
        assert (await channel.request(9999, timeout_s=5)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert (await channel.request(CODE.GET_ROUTEINFO_BY_TOPIC, timeout_s=5)).code == ResponseCode.SYSTEM_ERROR
        bad_body = await channel.request(
            CODE.REGISTER_TOPIC_IN_NAMESRV, headers.RegisterTopicRequestHeader(topic="T"), body=b"{", timeout_s=5
        )
        assert bad_body.code == ResponseCode.SYSTEM_ERROR
        reader, writer = await asyncio.open_connection(*channel.address.split(":"))
        writer.write(encode_command(request(CODE.GET_NAMESRV_CONFIG)) + b"GET / HTTP/1.1\r\n\r\n")
        assert b"listenPort=0" in await reader.read()
        writer.close()

    served(tmp_path, check)


def test_settings_come_from_file_and_options(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("listenPort=1\nserverWorkerThreads=8\norderMessageEnable=true\nkvConfigPath=${user.home}/kv.json\n")
    settings = load_namesrv_settings(file, {"listenPort": "2"})
    assert (settings.listen_port, settings.order_message_enable) == (2, True)
    assert settings.kv_config_path == str(Path.home() / "kv.json")
    assert "listenPort=2\n" in settings.properties_text()


def test_listed_settings_are_changed_over_the_network(tmp_path: Path) -> None:
    async def check(channel: Channel) -> None:
        async def change(body: bytes) -> int:
            return (await channel.request(CODE.UPDATE_NAMESRV_CONFIG, body=body, timeout_s=5)).code

        async def topics() -> int:
            return (await channel.request(CODE.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, timeout_s=5)).code

        assert await change(b"enableTopicList=false") == ResponseCode.NO_PERMISSION
        assert await change(b"enableAllTopicList=maybe") == ResponseCode.INVALID_PARAMETER
        assert await topics() == ResponseCode.SUCCESS
        assert await change(b"enableAllTopicList=false") == ResponseCode.SUCCESS
        assert await topics() == ResponseCode.SYSTEM_ERROR
        assert b"enableAllTopicList=false\n" in (await channel.request(CODE.GET_NAMESRV_CONFIG, timeout_s=5)).body

    served(tmp_path, check, admin_config_keys="enableAllTopicList")


def test_by_default_no_setting_is_changed_over_the_network(tmp_path: Path) -> None:
    async def check(channel: Channel) -> None:
        refused = await channel.request(CODE.UPDATE_NAMESRV_CONFIG, body=b"enableAllTopicList=false", timeout_s=5)
        assert refused.code == ResponseCode.NO_PERMISSION
        assert (await channel.request(CODE.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, timeout_s=5)).code == 0

    served(tmp_path, check)


@pytest.mark.parametrize("line", ["listenPrt=1", "listenPort=x", "listenPort="])
def test_a_setting_that_cannot_be_used_is_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text(f"{line}\n")
    with pytest.raises(UsageError, match="listenPort"):
        load_namesrv_settings(file, {})
