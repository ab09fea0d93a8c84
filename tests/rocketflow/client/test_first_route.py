"""Clients that are started together with their servers: they wait for a first route, within their time-out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from rocketflow.aio.loop import run
from rocketflow.client import ClientOptions, Message, Producer, ProducerOptions, PullConsumer, PullOptions
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.cluster import Cluster
from rocketflow.client.errors import NoBrokersError, NoNameServerError, NoRouteError
from tests.support.ports import free_port
from tests.support.scripted_broker import ScriptedBroker, scripted


def starting(questions: int, *, has_topics: bool = True) -> ScriptedBroker:
    """Return a NameServer that knows its first broker at the given question about them."""
    names = ScriptedBroker()
    names.registers_after, names.has_topics_then = questions, has_topics
    return names


async def send(names: str, timeout_s: float = 30.0) -> None:
    async with Producer(ProducerOptions(group="g", name_servers=names, send_timeout_s=timeout_s)) as producer:
        await producer.send(Message("t", b"b"))


async def queues(names: str, timeout_s: float = 30.0) -> None:
    async with PullConsumer(PullOptions(group="g", name_servers=names, timeout_s=timeout_s)) as consumer:
        assert len(await consumer.queues("t")) == 2


async def brokers(names: str, timeout_s: float = 30.0) -> None:
    async with AdminClient(ClientOptions(name_servers=names, timeout_s=timeout_s)) as admin:
        assert await admin.brokers_of("C") == [names]


Call = Callable[..., Awaitable[None]]
CALLS = [send, queues, brokers]


@pytest.mark.parametrize("call", CALLS)
def test_client_waits_for_the_first_broker(call: Call) -> None:
    async def main() -> None:
        async with scripted(starting(3)) as names:
            names.routes = {}
            await call(names.address)

    run(main())


@pytest.mark.parametrize("call", CALLS)
def test_client_waits_for_its_first_name_server(call: Call) -> None:
    async def main() -> None:
        async with scripted(starting(1)) as names:
            names.cuts = 3
            await call(names.address)
            assert names.cuts == 0

    run(main())


@pytest.mark.parametrize("call", CALLS)
def test_wait_for_a_first_route_ends_with_the_time_out(call: Call) -> None:
    async def main() -> None:
        with pytest.raises(NoNameServerError, match="start one, 'rocketflow namesrv'"):
            await call(f"127.0.0.1:{free_port()}", 0.05)
        async with scripted(starting(1_000_000)) as names:
            names.routes = {}
            with pytest.raises(
                NoBrokersError, match=f"within 0.05 s: start one, 'rocketflow broker -n {names.address}'"
            ):
                await call(names.address, 0.05)

    run(main())


def test_topic_that_is_missing_where_brokers_have_registered_is_an_error_at_once() -> None:
    async def main() -> None:
        async with scripted(starting(1, has_topics=False)) as names:
            names.routes = {}
            cluster = Cluster(ClientOptions(name_servers=names.address, timeout_s=3600))
            with pytest.raises(NoRouteError, match="topic 't' has no route"):
                await cluster.route("t")
            await cluster.close()

    run(main())
