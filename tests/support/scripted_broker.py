"""A NameServer and broker in the test's own event loop, whose answers the test chooses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from rocketflow.remoting.bodies import BrokerData, ClusterInfo, QueueData, TopicRouteData, encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command, answer, decode_command, encode_command
from rocketflow.remoting.frame import FrameReceiver
from rocketflow.remoting.headers.send import SendMessageResponseHeader

SENDS = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
SILENT = -1
"""As the code of an answer: none is sent."""


class ScriptedBroker:
    """Answers each send with the next of `codes`, with the last one from then on; `sends` are those that came."""

    def __init__(self, codes: Iterable[int] = (0,)) -> None:
        self.codes = list(codes)
        self.sends: list[Command] = []
        self.routes: dict[str, str] = {}
        """Addresses of brokers by name: the route of every topic, with two queues for each."""

        self.fields: dict[str, str] | None = None
        """The fields of answers to sends instead of those of a stored message."""

        self.requests: list[Command] = []
        """Requests of the broker, which it sends after the answer to the next send."""

        self.ends: list[Command] = []
        """The ends of transactions that came."""

        self.leaves: list[Command] = []
        """The requests of clients that leave their groups."""

        self.registers_after: int | None = None
        """Questions about the brokers of the cluster (106) until one is known; None: the answer has no body."""

        self.has_topics_then = True
        """Whether topics have a route once a broker is known."""

        self.cuts = 0
        """Connections that are ended before the first answer."""

        self.route_requests = 0
        self.address = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        if self.cuts:
            self.cuts -= 1
            writer.close()
            return
        receiver = FrameReceiver()
        while data := await reader.read(65536):
            for frame in receiver.feed(data):
                reply = self._reply(decode_command(frame))
                if reply is not None:
                    writer.write(encode_command(reply))
                while self.sends and self.requests:
                    writer.write(encode_command(self.requests.pop(0)))
        writer.close()

    def _reply(self, command: Command) -> Command | None:
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            self.route_requests += 1
            if not self.routes:
                return answer(command, ResponseCode.TOPIC_NOT_EXIST, remark="no route")
            return answer(command, body=encode_body(route_of(self.routes)))
        if command.code == RequestCode.GET_BROKER_CLUSTER_INFO and self.registers_after is not None:
            return answer(command, body=encode_body(self._cluster_info(self.registers_after)))
        if command.code == RequestCode.END_TRANSACTION:
            self.ends.append(command)
        if command.code == RequestCode.UNREGISTER_CLIENT:
            self.leaves.append(command)
        if command.code not in SENDS:
            return None if command.is_one_way else answer(command)
        code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        self.sends.append(command)
        if code == SILENT:
            return None
        if self.fields is not None:
            reply = answer(command, code, remark="scripted")
            reply.fields.update(self.fields)
            return reply
        stored = SendMessageResponseHeader(msg_id="0" * 32, queue_id=0, queue_offset=0)
        kept = code in (0, ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT)
        return answer(command, code, stored if kept else None, remark="scripted")

    def _cluster_info(self, questions: int) -> ClusterInfo:
        self.registers_after = max(questions - 1, 0)
        if questions > 1:
            return ClusterInfo()
        if self.has_topics_then:
            self.routes = {"a": self.address}
        known = BrokerData(broker_name="a", broker_addrs={"0": self.address})
        return ClusterInfo(broker_addr_table={"a": known}, cluster_addr_table={"C": ["a"]})


def route_of(brokers: Mapping[str, str]) -> TopicRouteData:
    """Return a route with two queues at each broker."""
    return TopicRouteData(
        broker_datas=[BrokerData(broker_name=name, broker_addrs={"0": at}) for name, at in brokers.items()],
        queue_datas=[QueueData(broker_name=one, perm=6, read_queue_nums=2, write_queue_nums=2) for one in brokers],
    )


@asynccontextmanager
async def scripted(*brokers: ScriptedBroker) -> AsyncIterator[ScriptedBroker]:
    """Serve brokers named a, b, ...; yield the first one, which is their NameServer too."""
    servers = [await asyncio.start_server(one.serve, "127.0.0.1", 0) for one in brokers]
    for one, server in zip(brokers, servers):
        one.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    brokers[0].routes = {chr(ord("a") + number): one.address for number, one in enumerate(brokers)}
    try:
        yield brokers[0]
    finally:
        for server in servers:
            server.close()
