"""Requests to a NameServer beside registration and routes: lists, zones, switches, versions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from rocketflow.aio.channel import Channel
from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.remoting.bodies import (
    ClusterInfo,
    GetBrokerMemberGroupResponseBody,
    RegisterBrokerBody,
    TopicConfigWrapper,
    TopicList,
    TopicRouteData,
    decode_body,
    encode_body,
)
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command, request
from rocketflow.remoting.headers import route as headers
from rocketflow.remoting.headers.header import Header
from rocketflow_store.spi.table_rows import DataVersion, TopicConfig
from tests.rocketflow.namesrv.test_name_server import name_server

CODE = RequestCode
FLAGS: Final = {"plain": 0, "unit": 1, "sub": 2, "both": 3}
"""Topics of `broker-a`, and their `topicSysFlag`."""

LISTS: Final = (
    CODE.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    CODE.GET_UNIT_TOPIC_LIST,
    CODE.GET_HAS_UNIT_SUB_TOPIC_LIST,
    CODE.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
)


async def register(
    channel: Channel, name: str, number: int, topics: Mapping[str, int], *, counter: int = 1, **changes: Any
) -> Command:
    configs = {one: TopicConfig(topic_name=one, topic_sys_flag=flag) for one, flag in topics.items()}
    wrapper = TopicConfigWrapper(data_version=DataVersion(counter=counter), topic_config_table=configs)
    values: dict[str, Any] = {
        "broker_name": name,
        "broker_addr": address_of(name, number),
        "cluster_name": "C",
        "ha_server_addr": "127.0.0.1:1",
        "broker_id": number,
        **changes,
    }
    zone = values.pop("zone", None)
    header = headers.RegisterBrokerRequestHeader(**values)
    body = encode_body(RegisterBrokerBody(topic_config_serialize_wrapper=wrapper))
    return await asked(channel, CODE.REGISTER_BROKER, header, body, {} if zone is None else {"__ZONE_NAME": zone})


def address_of(name: str, number: int = 0) -> str:
    return f"{name}-{number}:10911"


async def asked(
    channel: Channel,
    code: int,
    header: Header | None = None,
    body: bytes = b"",
    fields: Mapping[str, str] | None = None,
) -> Command:
    """Send a request, with fields that its header has not, and return the answer."""
    command = request(code, header, body=body)
    command.fields.update(fields or {})
    return await channel.ask(command, timeout_s=5)


def served(home: Path, check: Callable[[Channel], Awaitable[None]], **changes: Any) -> None:
    async def main() -> None:
        async with name_server(home, **changes) as channel:
            await check(channel)

    run(main())


async def topics(channel: Channel, code: int, header: Header | None = None) -> list[str]:
    answer = await asked(channel, code, header)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return sorted(decode_body(answer.body, TopicList).topic_list)


async def routed(channel: Channel, topic: str, **fields: str) -> dict[str, dict[str, str]] | int:
    """Return the brokers of a topic with their addresses, or the code of the refusal."""
    header = headers.GetRouteInfoRequestHeader(topic=topic)
    answer = await asked(channel, CODE.GET_ROUTEINFO_BY_TOPIC, header, fields=fields)
    if answer.code != ResponseCode.SUCCESS:
        return answer.code
    data = decode_body(answer.body, TopicRouteData)
    names = {one.broker_name: one.broker_addrs for one in data.broker_datas}
    assert {one.broker_name for one in data.queue_datas} == names.keys()
    return names


def test_lists_of_topics_by_cluster_and_flag(tmp_path: Path) -> None:
    async def check(channel: Channel) -> None:
        await register(channel, "broker-a", 0, FLAGS)
        await register(channel, "other", 0, {"plain": 0, "foreign": 0}, cluster_name="D")
        assert await topics(channel, CODE.GET_UNIT_TOPIC_LIST) == ["both", "unit"]
        assert await topics(channel, CODE.GET_HAS_UNIT_SUB_TOPIC_LIST) == ["both", "sub"]
        assert await topics(channel, CODE.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == ["sub"]
        of_cluster = headers.GetTopicsByClusterRequestHeader
        assert await topics(channel, CODE.GET_TOPICS_BY_CLUSTER, of_cluster(cluster="C")) == sorted(FLAGS)
        assert await topics(channel, CODE.GET_TOPICS_BY_CLUSTER, of_cluster(cluster="D")) == ["foreign", "plain"]
        assert await topics(channel, CODE.GET_TOPICS_BY_CLUSTER, of_cluster(cluster="none")) == []
        answer = await asked(channel, CODE.GET_SYSTEM_TOPIC_LIST_FROM_NS)
        system = decode_body(answer.body, TopicList)
        assert sorted(system.topic_list) == ["C", "D", "broker-a", "other"]
        assert system.broker_addr == address_of("broker-a")

    served(tmp_path, check)


def test_data_versions_are_compared(tmp_path: Path) -> None:
    async def check(channel: Channel) -> None:
        async def compared(counter: int, name: str = "broker-a") -> tuple[str, int | None]:
            header = headers.QueryDataVersionRequestHeader(
                broker_name=name, broker_addr=address_of(name), cluster_name="C", broker_id=0
            )
            answer = await asked(channel, CODE.QUERY_DATA_VERSION, header, encode_body(DataVersion(counter=counter)))
            known = decode_body(answer.body, DataVersion).counter if answer.body else None
            return answer.fields["changed"], known

        assert await compared(5) == ("true", None)
        await register(channel, "broker-a", 0, FLAGS, counter=5)
        assert await compared(5) == ("false", 5)
        assert await compared(6) == ("true", 5)
        assert await compared(5, "broker-b") == ("true", None)

    served(tmp_path, check)


class Clock:
    """Stands for the module `time`: the test sets the seconds."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


async def brokers(channel: Channel) -> set[str]:
    answer = await asked(channel, CODE.GET_BROKER_CLUSTER_INFO)
    return set(decode_body(answer.body, ClusterInfo).broker_addr_table)


@pytest.mark.parametrize("code", [CODE.BROKER_HEARTBEAT, CODE.QUERY_DATA_VERSION])
def test_a_broker_that_is_heard_does_not_expire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    clock = Clock()
    for module in ("processors", "service"):
        monkeypatch.setattr(f"rocketflow.namesrv.{module}.time", clock)
    place: dict[str, Any] = {"broker_name": "heard", "broker_addr": address_of("heard"), "cluster_name": "C"}
    header = {
        CODE.BROKER_HEARTBEAT: headers.BrokerHeartbeatRequestHeader(**place),
        CODE.QUERY_DATA_VERSION: headers.QueryDataVersionRequestHeader(**place, broker_id=0),
    }[code]

    async def check(channel: Channel) -> None:
        peers = Peers()
        await register(await peers.channel(channel.address), "silent", 0, FLAGS, heartbeat_timeout_millis=1000)
        await register(channel, "heard", 0, FLAGS, heartbeat_timeout_millis=1000)
        clock.now += 0.9
        answer = await asked(channel, code, header, encode_body(DataVersion(counter=1)))
        assert answer.code == ResponseCode.SUCCESS
        assert await brokers(channel) == {"heard", "silent"}
        clock.now += 0.9
        async with asyncio.timeout(30):
            while "silent" in await brokers(channel):
                await asyncio.sleep(0.01)
        assert await brokers(channel) == {"heard"}
        await peers.close()

    served(tmp_path, check, scan_not_active_broker_interval=20)


def test_the_members_of_a_broker_are_answered(tmp_path: Path) -> None:
    async def check(channel: Channel) -> None:
        for number in (0, 1):
            await register(channel, "broker-a", number, FLAGS)

        async def members(name: str) -> dict[str, str]:
            header = headers.GetBrokerMemberGroupRequestHeader(cluster_name="C", broker_name=name)
            answer = await asked(channel, CODE.GET_BROKER_MEMBER_GROUP, header)
            group = decode_body(answer.body, GetBrokerMemberGroupResponseBody).broker_member_group
            assert group is not None
            assert (group.cluster, group.broker_name) == ("C", name)
            return group.broker_addrs

        assert await members("broker-a") == {"0": address_of("broker-a", 0), "1": address_of("broker-a", 1)}
        assert await members("none") == {}

    served(tmp_path, check)


def test_a_client_of_one_zone_sees_its_brokers_and_those_without_a_master(tmp_path: Path) -> None:
    async def check(channel: Channel) -> None:
        await register(channel, "near", 0, {"T": 0, "N": 0}, zone="z1")
        await register(channel, "far", 0, {"T": 0, "F": 0}, zone="z2")
        await register(channel, "slave", 1, {"T": 0, "S": 0}, zone="z2", enable_acting_master=False)
        zone = {"__ZONE_MODE": "true", "__ZONE_NAME": "z1"}
        near, far, slave = ({one: {str(n): address_of(one, n)}} for one, n in (("near", 0), ("far", 0), ("slave", 1)))
        assert await routed(channel, "T") == {**near, **far, **slave}
        assert await routed(channel, "T", **zone) == {**near, **slave}
        assert await routed(channel, "T", **{**zone, "__ZONE_MODE": "false"}) == {**near, **far, **slave}
        assert await routed(channel, "T", __ZONE_MODE="true") == {**near, **far, **slave}
        assert await routed(channel, "F", **zone) == ResponseCode.TOPIC_NOT_EXIST
        assert await routed(channel, "F", __ZONE_MODE="true", __ZONE_NAME="z2") == far

    served(tmp_path, check)


def test_a_slave_acts_for_a_master_that_is_not_there(tmp_path: Path) -> None:
    async def check(channel: Channel) -> None:
        for number in (2, 1):
            await register(channel, "broker-a", number, {"T": 0, "U": 0}, enable_acting_master=True)
        header = headers.GetRouteInfoRequestHeader(topic="T")
        data = decode_body((await asked(channel, CODE.GET_ROUTEINFO_BY_TOPIC, header)).body, TopicRouteData)
        assert data.broker_datas[0].broker_addrs == {"0": address_of("broker-a", 1), "2": address_of("broker-a", 2)}
        assert [one.perm for one in data.queue_datas] == [4]
        await register(channel, "broker-a", 0, {"T": 0, "U": 0}, counter=2, enable_acting_master=True)
        assert await routed(channel, "T") == {"broker-a": {str(n): address_of("broker-a", n) for n in (0, 1, 2)}}

    served(tmp_path, check, support_acting_master=True)


def test_no_route_is_answered_while_brokers_may_still_come(tmp_path: Path) -> None:
    async def check(channel: Channel) -> None:
        await register(channel, "broker-a", 0, {"T": 0, "U": 0})
        header = headers.GetRouteInfoRequestHeader(topic="T")
        answer = await asked(channel, CODE.GET_ROUTEINFO_BY_TOPIC, header)
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "name server not ready")

    async def later(channel: Channel) -> None:
        await register(channel, "broker-a", 0, {"T": 0, "U": 0})
        assert await routed(channel, "T") == {"broker-a": {"0": address_of("broker-a")}}

    served(tmp_path, check, need_wait_for_service=True, wait_seconds_for_service=3600)
    served(tmp_path, later, need_wait_for_service=True, wait_seconds_for_service=0)


def test_switches_forbid_lists_of_topics(tmp_path: Path) -> None:
    async def answered(channel: Channel) -> dict[int, int]:
        await register(channel, "broker-a", 0, FLAGS)
        header = headers.GetTopicsByClusterRequestHeader(cluster="C")
        found = {one: (await asked(channel, one)).code for one in LISTS}
        return {**found, CODE.GET_TOPICS_BY_CLUSTER: (await asked(channel, CODE.GET_TOPICS_BY_CLUSTER, header)).code}

    lists = dict.fromkeys((*LISTS, CODE.GET_TOPICS_BY_CLUSTER), ResponseCode.SYSTEM_ERROR)
    every = CODE.GET_ALL_TOPIC_LIST_FROM_NAMESERVER

    async def without_topics(channel: Channel) -> None:
        assert await answered(channel) == {**lists, every: ResponseCode.SUCCESS}

    async def without_all(channel: Channel) -> None:
        assert await answered(channel) == {
            **dict.fromkeys(lists, ResponseCode.SUCCESS),
            every: ResponseCode.SYSTEM_ERROR,
        }

    served(tmp_path, without_topics, enable_topic_list=False)
    served(tmp_path, without_all, enable_all_topic_list=False)
