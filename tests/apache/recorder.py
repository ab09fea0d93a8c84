"""A proxy between clients and the servers of a cluster that records what they say to each other, and facts about it.

The proxy listens in place of the NameServer and, for each broker that a route names, in place of that broker.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.command import Command, decode_command, encode_command
from rocketflow.remoting.errors import BodyError
from rocketflow.remoting.fastjson import loads
from rocketflow.remoting.frame import FrameReceiver
from rocketflow_store.format.record import decode_record
from rocketflow_store.model.errors import StoreError

RECORDS: Final = {RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE, RequestCode.QUERY_MESSAGE}
VALUES: Final = {"MSG_REGION", "TRACE_ON", "suggestWhichBrokerId", "topicSysFlag", "groupSysFlag", "forbiddenType"}
"""Fields of answers that have the same value at every broker with the same settings."""
_ADDRESS: Final = re.compile(rb"127\.0\.0\.1:(\d+)")


@dataclass
class Exchange:
    """A request and its answer, None for a one-way request; `by_broker` if a broker sent the request."""

    request: Command
    by_broker: bool
    answer: Command | None = None


@dataclass
class Recorder:
    """Record what is said, in the order of the requests; `address` is the proxy's in place of the NameServer."""

    address: str = ""
    exchanges: list[Exchange] = field(default_factory=list)
    _ports: dict[int, int] = field(default_factory=dict)
    _servers: list[asyncio.Server] = field(default_factory=list)

    async def port_for(self, upstream: int) -> int:
        """Return the port that stands for a server's port, opened if there is none."""
        if upstream not in self._ports:

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                with suppress(asyncio.CancelledError):  # asyncio reports a connection's task that was cancelled
                    await self._connected(upstream, reader, writer)

            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            self._servers.append(server)
            self._ports[upstream] = int(server.sockets[0].getsockname()[1])
        return self._ports[upstream]

    def close(self) -> None:
        """Stop listening."""
        for server in self._servers:
            server.close()

    async def _connected(self, upstream: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", upstream)
        except OSError:
            writer.close()
            return
        waiting: dict[tuple[bool, int], Exchange] = {}
        await asyncio.gather(
            self._pass_on(reader, back, waiting, by_broker=False), self._pass_on(there, writer, waiting, by_broker=True)
        )

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        waiting: dict[tuple[bool, int], Exchange],
        *,
        by_broker: bool,
    ) -> None:
        frames = FrameReceiver()
        try:
            while data := await reader.read(65_536):
                for frame in frames.feed(data):
                    command = decode_command(frame)
                    if not command.is_response:
                        exchange = Exchange(command, by_broker)
                        self.exchanges.append(exchange)
                        waiting[by_broker, command.opaque] = exchange
                    elif (asked := waiting.pop((not by_broker, command.opaque), None)) is not None:
                        asked.answer = command
                        if asked.request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
                            command.body = await self._through_here(command.body)
                    writer.write(encode_command(command))
        except OSError:
            pass
        finally:
            writer.close()

    async def _through_here(self, body: bytes) -> bytes:
        """Return a route with the proxy's addresses in place of the brokers'."""
        for port in {int(one) for one in _ADDRESS.findall(body)}:
            body = body.replace(f"127.0.0.1:{port}".encode(), f"127.0.0.1:{await self.port_for(port)}".encode())
        return body


@contextmanager
def recording(names_port: int) -> Iterator[Recorder]:
    """Run a proxy before a NameServer, in a thread."""
    loop, recorder = asyncio.new_event_loop(), Recorder()
    recorder.address = f"127.0.0.1:{loop.run_until_complete(recorder.port_for(names_port))}"
    thread = threading.Thread(target=loop.run_forever, name="recorder")
    thread.start()
    try:
        yield recorder
    finally:
        loop.call_soon_threadsafe(recorder.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        for task in asyncio.all_tasks(loop):
            task.cancel()
            loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.close()


def facts_of(exchanges: list[Exchange]) -> set[str]:
    """Return facts about exchanges: codes, fields, constant values, members of bodies, properties of records."""
    found: set[str] = set()
    for one in exchanges:
        asked = f"{'broker ' if one.by_broker else ''}{one.request.code}"
        found |= {f"{asked} asks with {name}" for name in one.request.fields}
        if one.request.is_one_way:
            found.add(f"{asked} wants no answer")
        if one.request.code == RequestCode.CHECK_TRANSACTION_STATE:
            found |= {f"{asked} record {fact}" for fact in _facts_of_records(one.request.body)}
        elif one.by_broker:
            found |= {f"{asked} asks with body {path}" for path in _paths(one.request.body)}
        if one.answer is None:
            continue
        said = f"{asked} -> {one.answer.code}"
        found.add(said)
        found.add(f"{said} remark {_pattern(one.answer.remark)}")
        found |= {f"{said} field {name}" for name in one.answer.fields}
        found |= {f"{said} {name}={value}" for name, value in one.answer.fields.items() if name in VALUES}
        if one.request.code in RECORDS and one.answer.code == 0:
            found |= {f"{asked} record {fact}" for fact in _facts_of_records(one.answer.body)}
        else:
            found |= {f"{said} body {path}" for path in _paths(one.answer.body)}
    return found


def _pattern(remark: str | None) -> str:
    """Return a remark without what changes from run to run."""
    if not remark:
        return "none"
    return re.sub(r"\d+", "N", remark.splitlines()[0])[:120]


def _paths(body: bytes) -> set[str]:
    """Return the paths of a JSON body's members; names of topics, brokers and queues are `*`."""
    if not body:
        return set()
    found: set[str] = set()

    def visit(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                known = isinstance(name, str) and re.fullmatch(r"[a-z][A-Za-z]+", name)
                visit(inner, f"{path}.{name if known else '*'}")
        elif isinstance(value, list):
            for inner in value:
                visit(inner, f"{path}[]")
        else:
            found.add(f"{path} {type(value).__name__}")

    try:
        visit(loads(body), "")
    except BodyError:
        return {"that is no JSON"}
    return found


def _facts_of_records(body: bytes) -> set[str]:
    found = set()
    at = 0
    while at < len(body):
        size = int.from_bytes(body[at : at + 4], "big")
        try:
            message = decode_record(body[at : at + size])
        except StoreError as error:
            return {f"is damaged: {error}"}
        kind = "of a retry topic" if "RETRY_TOPIC" in message.properties else "of a topic"
        found |= {f"{kind} has {name}" for name in message.properties}
        found.add(f"{kind} has sysFlag {message.sys_flag}")
        at += size
    return found
