"""Properties and flags that a client sends raw, as RocketMQ's broker stores them: the table's column about it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.broker.puts.client_properties import PROPERTIES, Fate
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command
from rocketflow_store import StoreReader
from rocketflow_store.model.message_id import decode_offset_msg_id
from rocketflow_store.spi.broker import encode_properties
from tests.apache.test_apache_opens_rocketflow_stores import SIZES
from tests.support.client_messages import KINDS, fate_of, sent_properties
from tests.support.real_broker import RealBroker
from tests.support.request_headers import send_header
from tests.support.servers import until, wait_for_a_broker
from tests.support.trials import LEVEL

pytestmark = [
    pytest.mark.apache,
    pytest.mark.slow,
    pytest.mark.skipif(LEVEL == "sample", reason="starts a broker of RocketMQ: RF_FAULTS=1 runs it"),
]

SETTINGS = "autoCreateTopicEnable=true\nwaitTimeMillsInSendQueue=20000\n"


class Sender:
    """Sends at RocketMQ's broker and reads what it stored."""

    def __init__(self, address: str, store: Path) -> None:
        self._address, self._store = address, store
        self._peers = Peers()

    async def send(self, properties: dict[str, str], topic: str = "t", **fields: Any) -> Command:
        header = send_header(topic, properties=encode_properties(properties).decode(), **fields)
        return await self._peers.request(self._address, RequestCode.SEND_MESSAGE, header, body=b"x", timeout_s=30)

    def stored(self, answer: Command) -> Any:
        with StoreReader(self._store) as reader:
            return reader.look_message_by_offset(decode_offset_msg_id(answer.fields["msgId"])[1])

    def end_of_queue(self) -> int:
        with StoreReader(self._store) as reader:
            return reader.bounds("t", 0)[1]

    def keys_of(self, topic: str) -> list[str]:
        """Return the UNIQ_KEYs of the messages that are visible in queue 0 of a topic."""
        with StoreReader(self._store) as reader:
            if topic not in reader.topics():
                return []
            return [one.properties["UNIQ_KEY"] for one in reader.get_message(topic, 0, 0).messages]

    async def close(self) -> None:
        await self._peers.close()


async def fates(sender: Sender) -> dict[tuple[str, str], Fate]:
    found: dict[tuple[str, str], Fate] = {}
    for kind in KINDS:
        for name in PROPERTIES:
            properties, value = sent_properties(kind, name)
            answer = await sender.send(properties)
            message = sender.stored(answer) if answer.code == ResponseCode.SUCCESS else None
            found[kind, name] = fate_of(name, value, None if message is None else message.properties)
    return found


async def halves_without_tran_msg(sender: Sender) -> None:
    """Check that RocketMQ acknowledges them with offset 0, and no queue gets them: RocketFlow refuses them."""
    await sender.send({})
    for flag in (4, 12):
        for more in ({}, {"TRAN_MSG": "false"}, {"DELAY": "3"}):
            end = sender.end_of_queue()
            answer = await sender.send(more, sys_flag=flag)
            assert (answer.code, answer.fields["queueOffset"]) == (ResponseCode.SUCCESS, "0")
            message = sender.stored(answer)
            assert (message.topic, message.sys_flag, message.queue_offset) == ("t", flag, 0)
            assert sender.end_of_queue() == end


async def recall_from_another_topic(sender: Sender) -> None:
    """Check that RocketMQ drops a timer message that a message to another topic names: RocketFlow keeps it."""
    due = str((int(time.time()) + 4) * 1000)
    for key in ("recalled", "other"):
        assert (await sender.send({"UNIQ_KEY": key, "TIMER_DELIVER_MS": due}, topic="victim")).code == 0
    recall = {"UNIQ_KEY": "recalled", "TIMER_DELIVER_MS": due, "TIMER_DEL_UNIQKEY": "victim+recalled"}
    assert (await sender.send(recall)).code == 0
    assert await asyncio.to_thread(until, lambda: sender.keys_of("victim"), seconds=60)
    await asyncio.to_thread(until, lambda: len(sender.keys_of("victim")) > 1, seconds=2)
    assert sender.keys_of("victim") == ["other"]


def test_fates_of_properties_and_halves_without_a_property_are_those_of_the_table(tmp_path: Path) -> None:
    async def trial() -> dict[tuple[str, str], Fate]:
        sender = Sender(f"127.0.0.1:{apache.port}", tmp_path / "store")
        try:
            await halves_without_tran_msg(sender)
            await recall_from_another_topic(sender)
            return await fates(sender)
        finally:
            await sender.close()

    with RealBroker("5.3.3", tmp_path / "store", SIZES, tmp_path / "work", SETTINGS, last=True) as apache:
        wait_for_a_broker(f"127.0.0.1:{apache.names_port}")
        found = run(trial())
    expected = {
        (kind, name): one
        for name, row in PROPERTIES.items()
        for kind, one in zip(KINDS, row.in_rocketmq or row[:3], strict=True)
    }
    assert {key: (one, expected[key]) for key, one in found.items() if one is not expected[key]} == {}
