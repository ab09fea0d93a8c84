"""Clients that are started together with their servers: they wait for a first route, within their time-out."""

from __future__ import annotations

import asyncio

import pytest

from rocketflow.aio.loop import run
from rocketflow.client import ClientOptions, Message, Producer, ProducerOptions, PullConsumer, PullOptions
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.cluster import Cluster
from rocketflow.client.errors import NoBrokersError, NoNameServerError, NoRouteError
from rocketflow.remoting.bodies import BrokerData, ClusterInfo, encode_body
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.command import Command, answer
from tests.support.ports import free_port
from tests.support.scripted_broker import ScriptedBroker, scripted


class Names(ScriptedBroker):
    """A NameServer at which a broker registers after some questions about the brokers."""

    def __init__(self, questions: int, *, has_topic: bool = True) -> None:
        super().__init__()
        self.questions = questions
        self.has_topic = has_topic

    def _reply(self, command: Command) -> Command | None:
        if command.code != RequestCode.GET_BROKER_CLUSTER_INFO:
            return super()._reply(command)
        self.questions -= 1
        if self.questions > 0:
            return answer(command, body=encode_body(ClusterInfo()))
        if self.has_topic:
            self.routes = {"a": self.address}
        known = ClusterInfo(
            broker_addr_table={"a": BrokerData(broker_name="a", broker_addrs={"0": self.address})},
            cluster_addr_table={"C": ["a"]},
        )
        return answer(command, body=encode_body(known))


async def send(names: str, timeout_s: float = 30.0) -> None:
    async with Producer(ProducerOptions(group="g", name_servers=names, send_timeout_s=timeout_s)) as producer:
        await producer.send(Message("t", b"b"))


async def queues(names: str, timeout_s: float = 30.0) -> None:
    async with PullConsumer(PullOptions(group="g", name_servers=names, timeout_s=timeout_s)) as consumer:
        assert len(await consumer.queues("t")) == 2


async def brokers(names: str, timeout_s: float = 30.0) -> None:
    async with AdminClient(ClientOptions(name_servers=names, timeout_s=timeout_s)) as admin:
        assert await admin.brokers_of("C") == [names]


CALLS = [send, queues, brokers]


@pytest.mark.parametrize("call", CALLS)
def test_client_waits_for_the_first_broker(call: object) -> None:
    async def main() -> None:
        async with scripted(Names(3)) as names:
            names.routes = {}
            await call(names.address)  # type: ignore[operator]

    run(main())


@pytest.mark.parametrize("call", CALLS[:2])
def test_client_waits_for_its_first_name_server(call: object, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = asyncio.Event()
    ask = Cluster._ask_name_servers

    async def asked(*given: object) -> Command:
        try:
            return await ask(*given)  # type: ignore[arg-type]
        except NoNameServerError:
            failed.set()
            raise

    monkeypatch.setattr(Cluster, "_ask_name_servers", asked)

    async def main() -> None:
        names = ScriptedBroker()
        names.address = f"127.0.0.1:{(port := free_port())}"
        names.routes = {"a": names.address}
        calling = asyncio.ensure_future(call(names.address))  # type: ignore[operator]
        waiting = asyncio.ensure_future(failed.wait())
        await asyncio.wait({calling, waiting}, return_when=asyncio.FIRST_COMPLETED)
        server = await asyncio.start_server(names.serve, "127.0.0.1", port)
        try:
            await calling
        finally:
            server.close()
            waiting.cancel()

    run(main())


@pytest.mark.parametrize("call", CALLS)
def test_wait_for_a_first_route_ends_with_the_time_out(call: object) -> None:
    async def main() -> None:
        with pytest.raises(NoNameServerError, match="start one, 'rocketflow namesrv'"):
            await call(f"127.0.0.1:{free_port()}", 0.05)  # type: ignore[operator]
        async with scripted(Names(1_000_000)) as names:
            names.routes = {}
            with pytest.raises(
                NoBrokersError, match=f"within 0.05 s: start one, 'rocketflow broker -n {names.address}'"
            ):
                await call(names.address, 0.05)  # type: ignore[operator]

    run(main())


def test_topic_that_is_missing_where_brokers_have_registered_is_an_error_at_once() -> None:
    async def main() -> None:
        async with scripted(Names(1, has_topic=False)) as names:
            names.routes = {}
            cluster = Cluster(ClientOptions(name_servers=names.address, timeout_s=3600))
            with pytest.raises(NoRouteError, match="topic 't' has no route"):
                await cluster.route("t")
            await cluster.close()

    run(main())
