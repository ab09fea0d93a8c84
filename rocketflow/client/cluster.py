"""One client's view of a cluster: routes of topics, requests to NameServers and brokers, heartbeats.

RocketMQ's source: client/impl/factory/MQClientInstance.java, client/impl/MQClientAPIImpl.java.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakSet

from rocketflow.aio.channel import UNSENT_LIMIT, ChannelClosedError
from rocketflow.aio.peers import Peers
from rocketflow.client.errors import (
    ClientError,
    ClientStateError,
    NoAnswerError,
    NoBrokerAddressError,
    NoBrokersError,
    NoNameServerError,
    NoRoomError,
    NoRouteError,
    RequestRefusedError,
    UnreachableError,
)
from rocketflow.client.ids import make_client_id
from rocketflow.client.routes import MASTER_ID, address_of
from rocketflow.remoting.bodies import (
    BrokerData,
    ClusterInfo,
    ConsumerData,
    HeartbeatData,
    ProducerData,
    TopicRouteData,
    decode_body,
    encode_body,
)
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import answer
from rocketflow.remoting.errors import RemotingError
from rocketflow.remoting.headers.client import HeartbeatRequestHeader, UnregisterClientRequestHeader
from rocketflow.remoting.headers.route import GetRouteInfoRequestHeader

if TYPE_CHECKING:
    from rocketflow.aio.channel import Channel
    from rocketflow.client.options import ClientOptions
    from rocketflow.remoting.command import Command
    from rocketflow.remoting.headers.header import Header
    from rocketflow.remoting.prepared_frame import PreparedFrame

LOG: Final = logging.getLogger("rocketflow.client")

_AGAIN_SECONDS: Final = 0.1
"""The pause between two questions to servers that have just been started."""

Handler = Callable[["Command", str], Awaitable["Command | None"]]
"""Handles a request of the broker at an address; returns its answer, or None for a request that wants none."""


class Membership(Protocol):
    """The groups of a client, which its heartbeats announce."""

    def producers(self) -> list[ProducerData]:
        """Return the producer groups."""

    def consumers(self) -> list[ConsumerData]:
        """Return the consumer groups with their subscriptions."""


class NoGroups:
    """The membership of a client that belongs to no group: it sends no heartbeats."""

    def producers(self) -> list[ProducerData]:
        """Return no group."""
        return []

    def consumers(self) -> list[ConsumerData]:
        """Return no group."""
        return []


class Cluster:
    """Holds the connections, the routes and the heartbeats of one client.

    Routes that were asked for are refreshed every `route_refresh_s`; they stay in use while no NameServer answers.
    Heartbeats go to every broker of a route, without consumers to masters only, every `heartbeat_s` and on each new
    connection. `handlers` answer requests of brokers, by code. While more than `unsent_limit` bytes wait for a server,
    requests without an answer wait too.

    A client may be started together with its servers: its first question to a NameServer, and for a route while no
    broker has registered, is repeated for `first_wait_s` (the options' `timeout_s` if that is 0).
    """

    def __init__(
        self,
        options: ClientOptions,
        membership: Membership | None = None,
        handlers: Mapping[int, Handler] | None = None,
        *,
        unsent_limit: int = UNSENT_LIMIT,
        first_wait_s: float = 0.0,
    ) -> None:
        self.options = options
        self._first_wait_s = first_wait_s or options.timeout_s
        self._was_answered = False
        self.client_id = make_client_id(options.instance_name, options.unit_name)
        self._membership = membership or NoGroups()
        processors = {code: self._processor(one) for code, one in (handlers or {}).items()}
        self._peers = Peers(processors, tls=options.tls, hooks=options.all_hooks(), unsent_limit=unsent_limit)
        self._name_servers = options.addresses()
        self._name_server = random.randrange(len(self._name_servers))
        self._routes: dict[str, TopicRouteData] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._greeted: WeakSet[Channel] = WeakSet()
        self._refusals: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_open = False

    async def start(self) -> None:
        """Begin to refresh routes and to send heartbeats."""
        if self._is_open:
            raise ClientStateError("the client is started already")
        self._is_open = True
        self.spawn(self._repeat(self.options.route_refresh_s, self.refresh_routes))
        self.spawn(self._repeat(self.options.heartbeat_s, self.send_heartbeats))

    async def close(self) -> None:
        """End the tasks and all connections."""
        self._is_open = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._peers.close()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine until it ends or the client closes; what it raises is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def on_route_change(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the name of each topic whose route has changed."""
        self._listeners.append(listener)

    # --- routes

    async def route(self, topic: str) -> TopicRouteData:
        """Return the route of a topic, asked for once and refreshed from then on.

        Raises NoRouteError if the NameServers know none, NoNameServerError if none answers.
        """
        found = self._routes.get(topic)
        return found if found is not None else await self.ask_route(topic)

    async def ask_route(self, topic: str) -> TopicRouteData:
        """Ask a NameServer for the route of a topic and keep it. Raises as `route` does."""
        try:
            return await self._ask_route(topic)
        except NoRouteError:
            if self._routes:
                raise
        await self.wait_for_brokers()
        return await self._ask_route(topic)

    async def wait_for_brokers(self) -> None:
        """Wait until a broker has registered. Raises NoBrokersError."""
        loop = asyncio.get_running_loop()
        latest = loop.time() + self._first_wait_s
        while not await self._has_brokers():
            if loop.time() >= latest:
                names = ";".join(self._name_servers)
                raise NoBrokersError(
                    f"no broker has registered at {names} within {self._first_wait_s:g} s: start one, "
                    f"'rocketflow broker -n {names}' for example"
                )
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _has_brokers(self) -> bool:
        """Return whether a broker has registered; True if the NameServer does not say so."""
        try:
            reply = await self.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
            return bool(decode_body(reply.body, ClusterInfo).broker_addr_table)
        except (RequestRefusedError, RemotingError):
            return True

    async def _ask_route(self, topic: str) -> TopicRouteData:
        header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        try:
            reply = await self.ask_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
            route = decode_body(reply.body, TopicRouteData)
        except RequestRefusedError as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            why = (error.remark or "no broker has registered it").splitlines()[0]  # Apache's has a link to a page
            raise NoRouteError(
                f"topic {topic!r} has no route: {why}; 'rocketflow admin topicList' lists topics"
            ) from None
        except RemotingError as error:
            address = self._name_servers[self._name_server]
            raise NoRouteError(f"{address}: the route of topic {topic!r} cannot be read: {error}") from None
        self._keep(topic, route)
        return route

    async def refresh_routes(self) -> None:
        """Ask for every route that is in use; those that cannot be had now stay as they are."""
        for topic in list(self._routes):
            try:
                await self.ask_route(topic)
            except ClientError as error:
                LOG.info("the route of topic %s stays as it is: %s", topic, error)

    def brokers(self) -> dict[str, BrokerData]:
        """Return the brokers of all routes by name."""
        return {one.broker_name: one for route in self._routes.values() for one in route.broker_datas}

    def broker_address(self, broker_name: str, *, broker_id: int = 0, or_any: bool = False) -> str:
        """Return a broker's address; with `or_any` a slave's where it has no master.

        Raises NoBrokerAddressError.
        """
        address = address_of(self.brokers().values(), broker_name, broker_id=broker_id, or_any=or_any)
        if address is None:
            raise NoBrokerAddressError(f"broker {broker_name!r} has no address in the routes: is it running?")
        return address

    def _keep(self, topic: str, route: TopicRouteData) -> None:
        changed = self._routes.get(topic) != route
        self._routes[topic] = route
        if changed:
            for listener in self._listeners:
                listener(topic)

    # --- requests

    async def request(
        self, address: str, code: int, header: Header | None = None, *, body: bytes = b"", timeout_s: float = 0.0
    ) -> Command:
        """Send a request and return its answer, whose code is 0. Raises RequestRefusedError, and as `ask` does."""
        return _accepted(address, code, await self.ask(address, code, header, body=body, timeout_s=timeout_s))

    async def ask(
        self, address: str, code: int, header: Header | None = None, *, body: bytes = b"", timeout_s: float = 0.0
    ) -> Command:
        """Send a request to a broker and return its answer, whatever its code; without a time-out that of the options.

        Raises UnreachableError, and NoAnswerError where the broker does not answer in time.
        """
        channel = await self._channel(address)
        self._greet(address, channel)
        return await self._answer_of(channel, address, code, header, body=body, timeout_s=timeout_s)

    async def ask_prepared(
        self, address: str, prepared: PreparedFrame, values: tuple[bytes, ...], body: bytes, timeout_s: float
    ) -> Command:
        """Send a prepared request, which is not signed, and return its answer. Raises as `ask` does."""
        channel = self._peers.open_channel(address) or await self._channel(address)
        self._greet(address, channel)
        return await self._outcome(address, channel.ask_prepared(prepared, values, body, timeout_s=timeout_s))

    async def notify(
        self, address: str, code: int, header: Header | None = None, *, body: bytes = b"", timeout_s: float = 0.0
    ) -> None:
        """Send a request that wants no answer, once not too much waits for the server.

        Raises UnreachableError, and NoRoomError if the server has not read in time; nothing was sent then.
        """
        channel = await self._channel(address)
        self._greet(address, channel)
        timeout_s = timeout_s or self.options.timeout_s
        try:
            await channel.wait_for_peer(timeout_s)
        except TimeoutError:
            raise NoRoomError(
                f"{address}: {channel.unsent_size:,} bytes wait for the server, which has not read them within "
                f"{timeout_s:g} s: send less, or find out why it is slow"
            ) from None
        if not channel.is_open:
            raise UnreachableError(address, "the connection has ended", sent=False)
        channel.notify(code, header, body=body)

    async def ask_name_server(self, code: int, header: Header | None = None, *, body: bytes = b"") -> Command:
        """Send a request to the NameServer that answered last, then to each other one.

        Return its answer, whose code is 0. Raises NoNameServerError, and RequestRefusedError.
        """
        latest = asyncio.get_running_loop().time() + self._first_wait_s
        while True:
            try:
                return await self._ask_name_servers(code, header, body)
            except NoNameServerError:
                if self._was_answered or asyncio.get_running_loop().time() >= latest:
                    raise
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _ask_name_servers(self, code: int, header: Header | None, body: bytes) -> Command:
        failures = []
        for _ in self._name_servers:
            address = self._name_servers[self._name_server]
            try:
                channel = await self._channel(address)
                reply = await self._answer_of(channel, address, code, header, body=body)
                self._was_answered = True
                return _accepted(address, code, reply)
            except UnreachableError as error:
                failures.append(str(error))
                self._name_server = (self._name_server + 1) % len(self._name_servers)
        raise NoNameServerError(
            f"no NameServer answers: {'; '.join(failures)}: give the address of one that runs, or start one, "
            "'rocketflow namesrv' for example"
        )

    async def _channel(self, address: str) -> Channel:
        try:
            return await self._peers.channel(address)
        except OSError as error:
            raise UnreachableError(address, str(error), sent=False) from None

    async def _answer_of(
        self,
        channel: Channel,
        address: str,
        code: int,
        header: Header | None,
        *,
        body: bytes = b"",
        timeout_s: float = 0.0,
    ) -> Command:
        waiting = channel.request(code, header, body=body, timeout_s=timeout_s or self.options.timeout_s)
        return await self._outcome(address, waiting)

    async def _outcome(self, address: str, answer: Awaitable[Command]) -> Command:
        try:
            return await answer
        except TimeoutError as error:
            raise NoAnswerError(address, str(error), sent=True) from None
        except (OSError, ChannelClosedError) as error:
            raise UnreachableError(address, str(error), sent=True) from None

    # --- heartbeats

    async def announce(self) -> None:
        """Send heartbeats. Raises RequestRefusedError where the client's account may not read a topic or be in a group.

        It would get no messages, and a repetition would be refused too.
        """
        for one in await self._heartbeats():
            if one.code == ResponseCode.NO_PERMISSION:
                self._refusals[one.address] = str(one)
                raise one
            self._log_refusal(one)

    async def send_heartbeats(self) -> None:
        """Send a heartbeat to every broker of the routes, to masters only for a client without consumers.

        Refusals are logged, once for each reason.
        """
        for one in await self._heartbeats():
            self._log_refusal(one)

    async def _heartbeats(self) -> list[RequestRefusedError]:
        """Send heartbeats and return the refusals."""
        consumers = self._membership.consumers()
        addresses = [
            address
            for broker in self.brokers().values()
            for broker_id, address in broker.broker_addrs.items()
            if consumers or broker_id == MASTER_ID
        ]
        found = await asyncio.gather(*(self._heartbeat(one) for one in addresses))
        return [one for one in found if one is not None]

    async def _heartbeat(self, address: str) -> RequestRefusedError | None:
        """Send a heartbeat to a broker and return its refusal; the next one repeats a failure."""
        producers, consumers = self._membership.producers(), self._membership.consumers()
        if not producers and not consumers:
            return None
        data = HeartbeatData(client_id=self.client_id, producer_data_set=producers, consumer_data_set=consumers)
        try:
            channel = await self._channel(address)
            self._greeted.add(channel)
            reply = await self._answer_of(
                channel, address, RequestCode.HEART_BEAT, HeartbeatRequestHeader(), body=encode_body(data)
            )
        except UnreachableError as error:
            LOG.info("no heartbeat reached a broker: %s", error)
            return None
        if reply.code == ResponseCode.SUCCESS:
            self._refusals.pop(address, None)
            return None
        return RequestRefusedError(address, RequestCode.HEART_BEAT, reply.code, reply.remark)

    def _log_refusal(self, refusal: RequestRefusedError) -> None:
        """Log a refusal whose reason is new; sends of a producer without permission are refused too, and say so."""
        before = self._refusals.get(refusal.address)
        self._refusals[refusal.address] = str(refusal)
        if before == str(refusal):
            return
        is_said = refusal.code == ResponseCode.NO_PERMISSION and not self._membership.consumers()
        LOG.log(logging.INFO if is_said else logging.WARNING, "the heartbeat was refused: %s", refusal)

    async def leave(self, *, producer_group: str | None = None, consumer_group: str | None = None) -> None:
        """Take leave of the brokers that were sent heartbeats (35) for a group; failures are logged.

        The group's other clients get the queues of a consumer at once.
        """
        header = UnregisterClientRequestHeader(
            client_id=self.client_id, producer_group=producer_group, consumer_group=consumer_group
        )

        async def leave(channel: Channel) -> None:
            try:
                reply = await self._answer_of(channel, channel.address, RequestCode.UNREGISTER_CLIENT, header)
                why = "" if reply.code == ResponseCode.SUCCESS else f"{channel.address}: {reply.code} {reply.remark}"
            except UnreachableError as error:
                why = str(error)
            if why:
                LOG.info("group %s could not be unregistered: %s", producer_group or consumer_group, why)

        await asyncio.gather(*(leave(one) for one in self._greeted if one.is_open))

    def _greet(self, address: str, channel: Channel) -> None:
        """Send a heartbeat on a connection that has had none: a broker that started again knows no client."""
        if channel not in self._greeted:
            self._greeted.add(channel)
            self.spawn(self._send_first_heartbeat(address))

    async def _send_first_heartbeat(self, address: str) -> None:
        refusal = await self._heartbeat(address)
        if refusal is not None:
            self._log_refusal(refusal)

    # --- requests of brokers

    def _processor(self, handler: Handler) -> Callable[[Channel, Command], None]:
        def process(channel: Channel, command: Command) -> None:
            self.spawn(self._handle(handler, channel, command))

        return process

    async def _handle(self, handler: Handler, channel: Channel, command: Command) -> None:
        try:
            reply = await handler(command, channel.address)
        except (ClientError, RemotingError) as error:
            LOG.warning("%s: request %d cannot be handled: %s", channel.address, command.code, error)
            reply = answer(command, ResponseCode.SYSTEM_ERROR, remark=str(error))
        if reply is not None and not command.is_one_way:
            channel.send(reply)

    # --- tasks

    async def _repeat(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            await work()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            LOG.error("a task of the client %s failed", self.client_id, exc_info=task.exception())


def _accepted(address: str, code: int, reply: Command) -> Command:
    """Return an answer whose code is 0. Raises RequestRefusedError."""
    if reply.code != ResponseCode.SUCCESS:
        raise RequestRefusedError(address, code, reply.code, reply.remark)
    return reply
