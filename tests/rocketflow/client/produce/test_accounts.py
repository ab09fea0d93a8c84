"""Producers with accounts: what they may send is stored, the rest is refused by name; one-way sends are signed too."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.client import Message, Producer, ProducerOptions
from rocketflow.client.produce.errors import SendFailedError
from rocketflow.remoting.bodies import MessageQueue
from tests.support.signed import READER, WRITER, orders_at, plain_broker


def test_accounts_send_what_they_may(tmp_path: Path) -> None:
    async def main(address: str) -> None:
        async with orders_at(address) as (names, admin):
            for account in (READER, WRITER, None):
                options = ProducerOptions(group="g", name_servers=names, credentials=account)
                async with Producer(options) as producer:
                    if account is WRITER:
                        await producer.send(Message("orders", b"answered"))
                        await producer.send_one_way(Message("orders", b"one-way"))
                        await producer.send_batch([Message("orders", b"batched")])
                        continue
                    with pytest.raises(SendFailedError, match="'orders'") as found:
                        await producer.send(Message("orders", b"refused"))
                    assert found.value.code == 16
                    assert not found.value.may_be_stored
                    await producer.send_one_way(Message("orders", b"refused"))
            async with asyncio.timeout(60):
                while sum([await admin.max_offset(MessageQueue("orders", "broker-a", one)) for one in (0, 1)]) < 3:
                    await asyncio.sleep(0.05)
            status = await admin.topic_status("orders")
            assert sum(one.max_offset for one in status.values()) == 3

    with plain_broker(tmp_path) as broker:
        run(main(broker.address))
