"""The routes of the engine's main calls, and of requests through a broker, stay short: see `routes`."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import rocketflow
from rocketflow.aio.loop import run
from rocketflow.broker.service import Broker
from rocketflow.broker.settings import load_broker_settings
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.command import encode_command, request
from rocketflow_store import Message, MessageStore
from rocketflow_store.kernel import COMPILED
from tests.project.routes import Route, opened_files, route_of, route_through
from tests.support.ports import free_port
from tests.support.request_headers import pull_header, send_header

if TYPE_CHECKING:
    from rocketflow.remoting.headers.header import Header

SMALL_FILES = (
    "checkpoint",
    "config/topics.json",
    "config/consumerOffset.json",
    "config/delayOffset.json",
    "rocketflow/stop",
    "rocketflow/healing",
    "rocketflow/ends",
    "rocketflow/store.meta",
)


def test_clean_open_takes_a_short_route_and_reads_small_files_once(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path) as store:
        store.put_message(Message("t", b"x"))
    MessageStore.open(path).close()
    stores: list[MessageStore] = []
    with opened_files(path) as opened:
        route = route_of(lambda: stores.append(MessageStore.open(path)))
    stores[0].close()
    assert route.changes <= 560, route
    assert route.depth <= 12, route
    assert {name: opened[name] for name in SMALL_FILES if opened[name] > 1} == {}


def test_warm_put_takes_a_short_route(tmp_path: Path) -> None:
    message = Message("t", b"x" * 200, tags="a", keys="k", queue_id=0)
    with MessageStore.open(tmp_path / "s") as store:
        for _ in range(3):
            store.put_message(message)
        route = route_of(lambda: store.put_message(message))
    assert route.changes <= 60, route
    assert route.depth <= 10, route


def test_warm_send_and_pull_take_a_short_route_through_a_broker(tmp_path: Path) -> None:
    options = {"storePathRootDir": str(tmp_path / "s"), "listenPort": str(free_port())}
    settings, config, given = load_broker_settings(None, options, {})

    async def main() -> list[Route]:
        broker = Broker(settings, config, given)
        await broker.start()
        with socket.create_connection((settings.broker_ip1, settings.listen_port)) as connection:
            send = await best_route(connection, RequestCode.SEND_MESSAGE, send_header(), b"x" * 200)
            pull = await best_route(connection, RequestCode.PULL_MESSAGE, pull_header(), b"")
            usual = send_header(properties="UNIQ_KEY\x017F00000100\x02")
            together = await best_route(connection, RequestCode.SEND_MESSAGE, usual, b"x" * 200)
        await broker.stop()
        return [send, pull, together]

    send, pull, together = run(main())
    assert send.changes <= 34, send  # two of them if the disk is slow: the append runs in a thread
    assert send.depth <= 13, send
    assert pull.changes <= 39, pull
    assert pull.depth <= 12, pull
    if COMPILED is not None:
        assert together.changes <= 34, together
        assert together.depth <= 13, together


async def best_route(connection: socket.socket, code: RequestCode, header: Header, body: bytes) -> Route:
    """Return the shortest of some routes of a request: services of the broker run in between."""
    frame = encode_command(request(code, header, body=body))
    routes = []
    for _ in range(8):
        with route_through(Path(rocketflow.__file__).parent) as route:
            await asyncio.to_thread(exchange, connection, frame)
        routes.append(route)
    return min(routes, key=lambda one: one.changes)


def exchange(connection: socket.socket, frame: bytes) -> None:
    """Send a frame and wait for its answer."""
    connection.sendall(frame)
    connection.recv(65_536)
