"""A broker that stops: what clients are answered until it has."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from rocketflow.aio.channel import Channel
from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.broker.service import Broker
from rocketflow.broker.settings import load_broker_settings
from rocketflow.client import Message, Producer, ProducerOptions
from rocketflow.client.produce.errors import SendFailedError
from rocketflow.namesrv.service import NameServer
from rocketflow.namesrv.settings import NamesrvSettings
from rocketflow.remoting.bodies import ConsumerData, HeartbeatData, encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command, answer
from rocketflow.remoting.headers.client import GetConsumerRunningInfoRequestHeader
from tests.rocketflow.broker.test_runtime_figures import options_at
from tests.support.request_headers import GROUP, pull_header, send_header
from tests.support.signed import signed

CODE, OK, AWAY = RequestCode, ResponseCode.SUCCESS, ResponseCode.GO_AWAY


def test_clients_get_go_away_from_a_broker_that_stops_and_older_ones_are_served(tmp_path: Path) -> None:
    """A consumer that has not answered yet keeps the broker from the end of its stop."""
    asked: list[Command] = []

    def note(channel: Channel, command: Command) -> None:
        asked.append(command)

    async def main() -> None:
        names = NameServer(NamesrvSettings(listen_port=0, kv_config_path=str(tmp_path / "kv.json")))
        await names.start()
        address = f"127.0.0.1:{names.port}"
        settings, config, given = load_broker_settings(None, {**options_at(tmp_path), "namesrvAddr": address}, {})
        broker, peers = Broker(settings, config, given), Peers({CODE.GET_CONSUMER_RUNNING_INFO: note})
        await broker.start()
        stopped: list[asyncio.Future[None]] = []

        async def stop() -> None:
            if not stopped:
                stopped.append(asyncio.ensure_future(broker.stop()))
            await stopped[0]

        async with AsyncExitStack() as stack:
            stack.push_async_callback(names.stop)
            stack.push_async_callback(stop)
            stack.push_async_callback(peers.close)
            options = ProducerOptions(group="p", name_servers=address, retries=0)
            producer = await stack.enter_async_context(Producer(options))
            channel = await peers.channel(settings.broker_address)

            async def send(version: int) -> int:
                return (
                    await channel.ask(signed(CODE.SEND_MESSAGE, send_header(), b"x", version=version), timeout_s=20)
                ).code

            consumer = HeartbeatData(client_id="me", consumer_data_set=[ConsumerData(group_name=GROUP)])
            await channel.request(CODE.HEART_BEAT, body=encode_body(consumer), timeout_s=20)
            assert (await send(479), await send(399)) == (OK, OK)
            await producer.send(Message("u", b"x"))
            held = asyncio.ensure_future(
                channel.request(
                    CODE.PULL_MESSAGE, pull_header(queue_id=1, sys_flag=6, suspend_timeout_millis=60_000), timeout_s=20
                )
            )
            info = GetConsumerRunningInfoRequestHeader(consumer_group=GROUP, client_id="me")
            forwarded = asyncio.ensure_future(channel.request(CODE.GET_CONSUMER_RUNNING_INFO, info, timeout_s=20))
            async with asyncio.timeout(20):
                while not asked:
                    await asyncio.sleep(0)
            ended = asyncio.ensure_future(stop())
            async with asyncio.timeout(20):
                while (code := await send(479)) == OK:
                    await asyncio.sleep(0)
            assert code == AWAY
            with pytest.raises(SendFailedError) as refused:
                await producer.send(Message("u", b"x"))
            assert (refused.value.code, refused.value.may_be_stored) == (AWAY, False)
            assert (await held).code == ResponseCode.PULL_NOT_FOUND
            [question] = asked
            channel.send(answer(question, OK, body=b"{}"))
            assert (await forwarded).code == OK, "what was asked before is answered"
            await ended

    run(main())
