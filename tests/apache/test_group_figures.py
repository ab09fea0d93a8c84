"""Figures of groups and of timer messages are those that Apache's broker answers to the same requests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.remoting.bodies import (
    ConsumerData,
    HeartbeatData,
    KVTable,
    SubscriptionData,
    decode_body,
    encode_body,
)
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.fastjson import loads
from rocketflow.remoting.headers.admin import GetConsumeStatsInBrokerHeader, GetConsumeStatsRequestHeader
from rocketflow.remoting.headers.header import Header
from rocketflow.remoting.headers.offset import UpdateConsumerOffsetRequestHeader
from tests.apache.clients import cluster
from tests.apache.test_apache_opens_rocketflow_stores import SIZES
from tests.support.real_broker import RealBroker
from tests.support.request_headers import GROUP, pull_header, send_header
from tests.support.servers import wait_for_a_broker
from tests.support.trials import LEVEL

pytestmark = [
    *(pytest.mark.apache, pytest.mark.slow, pytest.mark.timeout(600)),
    pytest.mark.skipif(LEVEL == "sample", reason="Apache's broker for 20 s: RF_FULL=1 runs it"),
]

CODE: Final = RequestCode
TIMED: Final = "TIMER_DELAY_SEC\x01600\x02"


class Asked:
    """Requests to one broker, and the figures that it answers."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._peers = Peers()

    async def ask(self, code: int, header: Header | None = None, body: bytes = b"") -> Command:
        answer = await self._peers.request(self._address, code, header, body=body, timeout_s=30)
        assert answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_OFFSET_MOVED), (code, answer.remark)
        return answer

    async def commit(self, offset: int, topic: str) -> None:
        header = UpdateConsumerOffsetRequestHeader(consumer_group=GROUP, topic=topic, queue_id=0, commit_offset=offset)
        await self.ask(CODE.UPDATE_CONSUMER_OFFSET, header)

    async def online(self, *topics: str) -> None:
        consumer = ConsumerData(
            group_name=GROUP,
            consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING",
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
            subscription_data_set=[SubscriptionData(topic=one, sub_string="*", sub_version=1) for one in topics],
        )
        await self.ask(CODE.HEART_BEAT, None, encode_body(HeartbeatData(client_id="me", consumer_data_set=[consumer])))

    async def progress(self, **named: Any) -> Any:
        """Return end, consumer's and pull offset of each queue (request 208)."""
        header = GetConsumeStatsRequestHeader(consumer_group=GROUP, **named)
        table = loads((await self.ask(CODE.GET_CONSUME_STATS, header)).body)["offsetTable"]
        names = ("brokerOffset", "consumerOffset", "pullOffset")
        found = {
            (dict(key)["topic"], dict(key)["queueId"]): [one[name] for name in names] for key, one in table.items()
        }
        return sorted(found.items())

    async def in_all(self) -> Any:
        """Return the queues of the group by topic and the lag of all groups (request 317)."""
        header = GetConsumeStatsInBrokerHeader(is_order=False)
        body = loads((await self.ask(CODE.GET_BROKER_CONSUME_STATS, header)).body)
        parts = [part for one in body["consumeStatsList"] for part in one.get(GROUP, ())]
        queues = sorted((dict(key)["topic"], dict(key)["queueId"]) for one in parts for key in one["offsetTable"])
        return queues, body["totalDiff"]

    async def timers(self) -> dict[str, float]:
        table = decode_body((await self.ask(CODE.GET_BROKER_RUNTIME_INFO)).body, KVTable).table
        return {name: float(value) for name, value in table.items() if name.startswith("timer")}

    async def close(self) -> None:
        await self._peers.close()


async def figures(address: str) -> list[Any]:
    """Return what a broker answers in a course of pulls, commits and heartbeats."""
    asked, found = Asked(address), []
    for topic in ("t", "a", "b", "c"):
        for _ in range(3):
            await asked.ask(CODE.SEND_MESSAGE, send_header(topic), b"x")
    await asyncio.sleep(1)  # Apache's broker makes messages readable some time after it has answered
    for offset in (0, 2, 9):
        pulled = await asked.ask(CODE.PULL_MESSAGE, pull_header("t", offset=offset, max_msg_nums=2))
        await asked.commit(1, "t")
        found += [pulled.fields["nextBeginOffset"], await asked.progress()]
    for topic in ("a", "b"):
        await asked.commit(1, topic)
    found += [await asked.progress(), await asked.in_all(), await asked.progress(topic="c")]
    await asked.online("a", "c")
    found += [await asked.progress(), await asked.in_all()]
    for named in ({"topic": "b"}, {"topic": "c"}, {"topic_list": "b;c;none;", "topic": "a"}, {"topic_list": ";"}):
        found.append((named, await asked.progress(**named)))
    await asked.ask(CODE.SEND_MESSAGE, send_header("t", properties=TIMED), b"x")
    async with asyncio.timeout(60):
        while (timers := await asked.timers())["timerCongestNum"] != 1:
            await asyncio.sleep(0.1)
    found += [sorted(timers), timers["timerOffsetBehind"], timers["timerDequeueTps"]]
    await asked.close()
    return found


def test_figures_of_groups_and_timers_are_those_of_apaches_broker(tmp_path: Path) -> None:
    home = tmp_path / "apache"
    with RealBroker("5.3.3", home / "store", SIZES, home / "work", "timerWheelEnable=true\n", last=True) as apache:
        wait_for_a_broker(f"127.0.0.1:{apache.names_port}")
        of_apache = run(figures(f"127.0.0.1:{apache.port}"))
    with cluster(tmp_path / "own") as (_, broker):
        own = run(figures(broker.address))
        broker.stop_in_order()
    assert own == of_apache
