"""Requests of a source to brokers: bounds of queues, single records, pulls; a master that is down has its slaves asked.

RocketMQ's source: client/impl/consumer/PullAPIWrapper.java, client/impl/MQAdminImpl.java.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from rocketflow.client.cluster import Cluster
from rocketflow.client.errors import ClientError, NoRouteError, RequestRefusedError, UnreachableError
from rocketflow.client.options import ClientOptions
from rocketflow.client.skipped import skipped_spans
from rocketflow.remoting.bodies import (
    ClusterInfo,
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
    TopicList,
    decode_body,
    encode_body,
)
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.client import HeartbeatRequestHeader, UnregisterClientRequestHeader
from rocketflow.remoting.headers.offset import (
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rocketflow.remoting.headers.pull import (
    PullMessageRequestHeader,
    PullMessageResponseHeader,
    QueryConsumeQueueRequestHeader,
)
from rocketflow.remoting.headers.rocketflow import PullRangeRequestHeader, PullRangeResponseHeader
from rocketflow.spark.source.network.pull_window import Pulled
from rocketflow.spark.source.network.queue_table import QueueTable
from rocketflow_store import OffsetOutOfRangeError
from rocketflow_store.spi.messages import ReceivedMessage, decode_records

if TYPE_CHECKING:
    from rocketflow.remoting.bodies import TopicRouteData
    from rocketflow.remoting.command import Command
    from rocketflow.remoting.headers.header import Header
    from rocketflow.spark.shared.network_options import Network
    from rocketflow.spark.source.stream_offset import QueueKey

TOOLS_GROUP: Final = "TOOLS_CONSUMER"
"""The group of RocketMQ's own tools, which every broker has."""

PULL_ROWS: Final = 32
"""Messages of one answer by RocketMQ's defaults."""

RANGE_ROWS: Final = 8_192
RANGE_BYTES: Final = 4 << 20
"""Limits of an answer to a pull of a range."""

_SUBSCRIPTION_FLAG: Final = 4
_ROUTES_S: Final = 5.0
"""How often routes are asked for again: new brokers and queues are found then."""

_ANSWER_S: Final = 10.0
_FIRST_PAUSE_S: Final = 0.05
_LAST_PAUSE_S: Final = 1.0
_BUSY: Final = (
    *(ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL),
    *(ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.GO_AWAY),
)
_UNITS: Final = 1024


class BrokerAwayError(ClientError):
    """Neither a broker's master nor one of its slaves answered for as long as the query waits."""

    exit_code = 69


class Record(NamedTuple):
    """One stored record: its bytes, and what they say."""

    data: bytes
    message: ReceivedMessage


class BrokerReads:
    """Reads of the queues of one network; all methods run in one event loop.

    Each request goes to the master, then to its slaves, again and again until one answers or `networkTimeout` ends.

    Raises BrokerAwayError then, and RequestRefusedError where a broker refuses a request.
    """

    def __init__(self, network: Network) -> None:
        options = ClientOptions(**network.client_options(), timeout_s=_ANSWER_S, route_refresh_s=_ROUTES_S)
        self._timeout_s = network.timeout_ms / 1000
        self._cluster = Cluster(options)
        self.table = QueueTable()
        self._ranges: dict[str, bool] = {}
        self._asked: dict[str, float] = {}
        self._introduced: set[tuple[str, str]] = set()
        self.lagging: set[QueueKey] = set()
        """Queues whose last bounds are those of a slave, which may have fewer messages than its master."""

    async def start(self) -> None:
        """Begin to refresh routes."""
        await self._cluster.start()

    async def close(self) -> None:
        """End all connections."""
        await self._cluster.close()

    # --- topics and queues

    async def brokers(self) -> list[str]:
        """Return the names of the registered brokers, and take their addresses. Raises NoNameServerError."""
        reply = await self._cluster.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
        found = decode_body(reply.body, ClusterInfo).broker_addr_table
        self.table.take_brokers(found.values())
        return sorted(found)

    async def own_topics(self) -> set[str]:
        """Return the topics that brokers have for themselves and their clusters."""
        reply = await self._cluster.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
        found = decode_body(reply.body, ClusterInfo)
        clusters = found.cluster_addr_table
        return {*found.broker_addr_table, *clusters, *(f"{name}_REPLY_TOPIC" for name in clusters)}

    async def topics(self) -> list[str]:
        """Return the names of all topics that NameServers know."""
        reply = await self._cluster.ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return sorted(decode_body(reply.body, TopicList).topic_list)

    async def queues(self, topics: Iterable[str]) -> list[QueueKey]:
        """Return the queues of topics; routes older than a few seconds are asked for again."""
        names = list(topics)
        now = time.monotonic()
        await asyncio.gather(
            *(self._look_up(one) for one in names if now - self._asked.get(one, -_ROUTES_S) >= _ROUTES_S)
        )
        return [key for one in names for key in self.table.of_topic(one)]

    async def _look_up(self, topic: str) -> None:
        """Take a topic's route; while no NameServer answers, the known one stays."""
        first = topic not in self._asked
        self._asked[topic] = time.monotonic()
        route: TopicRouteData | None = None
        try:
            with contextlib.suppress(NoRouteError):
                route = await self._cluster.ask_route(topic)
            lacking = self.table.lacks(topic, route)
            self.table.take_route(topic, route, await self.brokers() if lacking else ())
        except ClientError:
            if first:
                self._asked.pop(topic)
                raise

    async def bounds(self, key: QueueKey) -> tuple[int, int]:
        """Return the offsets [low, high) of a queue, both as they are now: retention moves `low` at any time."""
        end = GetMaxOffsetRequestHeader(topic=key.topic, queue_id=key.queue_id)
        begin = GetMinOffsetRequestHeader(topic=key.topic, queue_id=key.queue_id)
        (address, ends), (_, begins) = await asyncio.gather(
            self._ask(key, RequestCode.GET_MAX_OFFSET, end), self._ask(key, RequestCode.GET_MIN_OFFSET, begin)
        )
        if self.table.is_slave(key.store, address):
            self.lagging.add(key)
        else:
            self.lagging.discard(key)
        low, high = begins.header(GetMinOffsetResponseHeader).offset, ends.header(GetMaxOffsetResponseHeader).offset
        return min(low, high), high

    # --- records

    async def pull(self, key: QueueKey, start: int, end: int) -> Pulled:
        """Return records of the first offsets of [start, end).

        Raises OffsetOutOfRangeError where the queue does not have `start` any more, and BrokerAwayError where a slave
        does not have it yet and the master does not answer.
        """
        deadline = time.monotonic() + self._timeout_s
        pause = _FIRST_PAUSE_S
        while True:
            address, reply = await self._pull_once(key, start, min(end - start, PULL_ROWS))
            code = reply.code
            bounds = reply.header(PullMessageResponseHeader)
            skipped = skipped_spans(bounds.skipped_messages)
            if code == ResponseCode.SUCCESS:
                return Pulled(reply.body, max(bounds.next_begin_offset, start + 1), skipped)
            if start < bounds.next_begin_offset and code != ResponseCode.PULL_OFFSET_MOVED:
                return Pulled(b"", bounds.next_begin_offset, skipped)
            lags = self.table.is_slave(key.store, address)
            moved = code == ResponseCode.PULL_OFFSET_MOVED or start >= bounds.max_offset
            if moved and not lags:
                raise OffsetOutOfRangeError(key.topic, key.queue_id, start, bounds.min_offset, bounds.max_offset)
            if time.monotonic() >= deadline:
                raise BrokerAwayError(
                    f"{'slave' if lags else 'broker'} {address} of {key.store} has not answered topic {key.topic}, "
                    f"queue {key.queue_id}, offset {start}, within {self._timeout_s:g} s: its queue is "
                    f"[{bounds.min_offset}, {bounds.max_offset}); start the master (option networkTimeout is the "
                    "longest wait)"
                )
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE_S)

    async def has_ranges(self, key: QueueKey) -> bool:
        """Return True if a queue's broker answers pulls of ranges: RocketFlow's does."""
        known = self._ranges.get(key.store)
        if known is None:
            _, reply = await self._ask_range(key, 0, 0)
            known = self._ranges[key.store] = reply.code == ResponseCode.SUCCESS
        return known

    async def pull_range(self, key: QueueKey, start: int, end: int) -> Pulled:
        """Return records of the first offsets of [start, end) as `pull` does, more of them in one answer."""
        _, reply = await self._ask_range(key, start, end)
        if reply.code == ResponseCode.SUCCESS:
            found = reply.header(PullRangeResponseHeader)
            if found.next_offset > start:
                return Pulled(reply.body, found.next_offset)
        return await self.pull(key, start, end)

    async def _ask_range(self, key: QueueKey, start: int, end: int) -> tuple[str, Command]:
        header = PullRangeRequestHeader(
            consumer_group=TOOLS_GROUP,
            topic=key.topic,
            queue_id=key.queue_id,
            start=start,
            end=end,
            max_bytes=RANGE_BYTES,
        )
        return await self._ask(key, RequestCode.ROCKETFLOW_PULL_RANGE, header, checked=False)

    async def record_at(self, key: QueueKey, offset: int) -> Record | None:
        """Return the record of the message at a queue offset, None if the queue does not have it (any more)."""
        _, reply = await self._pull_once(key, offset, 1)
        if reply.code != ResponseCode.SUCCESS:
            return None
        message = next(decode_records(reply.body, key.store))
        return Record(reply.body[: message.store_size], message)

    async def sizes(self, key: QueueKey, start: int, end: int) -> list[int]:
        """Return the bytes of the records of [start, end) by their queue units, 0 for those that are not known."""
        found: list[int] = []
        while start + len(found) < end:
            at = start + len(found)
            count = min(end - at, _UNITS)
            header = QueryConsumeQueueRequestHeader(topic=key.topic, queue_id=key.queue_id, index=at, count=count)
            _, reply = await self._ask(key, RequestCode.QUERY_CONSUME_QUEUE, header, checked=False)
            units = _unit_sizes(reply.body) if reply.code == ResponseCode.SUCCESS else []
            if not units:
                break
            found += units[:count]
        return found + [0] * (end - start - len(found))

    async def _pull_once(self, key: QueueKey, offset: int, count: int) -> tuple[str, Command]:
        header = PullMessageRequestHeader(
            consumer_group=TOOLS_GROUP,
            topic=key.topic,
            queue_id=key.queue_id,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=_SUBSCRIPTION_FLAG,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
            expression_type="TAG",
        )
        address, reply = await self._ask(key, RequestCode.PULL_MESSAGE, header, checked=False)
        if reply.code not in _PULLED:
            raise RequestRefusedError(address, RequestCode.PULL_MESSAGE, reply.code, reply.remark)
        return address, reply

    # --- groups

    async def commit(self, group: str, offsets: Mapping[QueueKey, int]) -> None:
        """Commit the next offset of each queue for a group, which its broker then knows.

        Raises as `request` of Cluster: a commit is not repeated, the next one has newer offsets.
        """
        code = RequestCode.UPDATE_CONSUMER_OFFSET
        await self._introduce(group, offsets)
        for key, offset in offsets.items():
            header = UpdateConsumerOffsetRequestHeader(
                consumer_group=group, topic=key.topic, queue_id=key.queue_id, commit_offset=offset
            )
            await self._cluster.request(self._master(key.store), code, header)

    async def _introduce(self, group: str, offsets: Iterable[QueueKey]) -> None:
        """Let a broker create a group and its retry topic, by which operators' tools find it.

        A heartbeat does that. It is taken back at once: a member of the group would get a share of its queues.
        """
        topics: dict[str, set[str]] = {}
        for key in offsets:
            topics.setdefault(self._master(key.store), set()).add(key.topic)
        for address, names in topics.items():
            if (group, address) in self._introduced:
                continue
            subscribed = [SubscriptionData(topic=one, sub_version=int(time.time() * 1000)) for one in sorted(names)]
            consumer = ConsumerData(group_name=group, consume_type="CONSUME_ACTIVELY", subscription_data_set=subscribed)
            data = HeartbeatData(client_id=self._cluster.client_id, consumer_data_set=[consumer])
            header = HeartbeatRequestHeader()
            await self._cluster.request(address, RequestCode.HEART_BEAT, header, body=encode_body(data))
            leave = UnregisterClientRequestHeader(client_id=self._cluster.client_id, consumer_group=group)
            await self._cluster.request(address, RequestCode.UNREGISTER_CLIENT, leave)
            self._introduced.add((group, address))

    def _master(self, broker: str) -> str:
        address = self.table.master(broker)
        if address is None:
            raise BrokerAwayError(f"broker {broker} has no master now: offsets are committed when it is back")
        return address

    # --- requests

    async def _ask(
        self, key: QueueKey, code: RequestCode, header: Header, *, checked: bool = True
    ) -> tuple[str, Command]:
        """Return the answer about a queue, and the address that gave it; with `checked` its code is 0."""
        deadline = time.monotonic() + self._timeout_s
        pause = _FIRST_PAUSE_S
        while True:
            reasons: list[str] = []
            for address in self.table.addresses(key.store, time.monotonic()):
                try:
                    reply = await self._cluster.ask(address, code, header)
                except UnreachableError as error:
                    self.table.failed(address, time.monotonic())
                    reasons.append(str(error))
                    continue
                if reply.code in _BUSY:
                    reasons.append(f"{address}: {reply.remark}")
                    continue
                if checked and reply.code != ResponseCode.SUCCESS:
                    raise RequestRefusedError(address, code, reply.code, reply.remark)
                return address, reply
            if time.monotonic() >= deadline:
                why = "; ".join(reasons) or "no NameServer knows its address"
                raise BrokerAwayError(
                    f"broker {key.store} does not answer for topic {key.topic}: {why}; start it, or one of its slaves "
                    "(option networkTimeout is the longest wait)"
                )
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE_S)
            await self._look_up(key.topic)


_PULLED: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)


class _Unit(msgspec.Struct):
    size: int = msgspec.field(name="physicSize", default=0)


class _Units(msgspec.Struct):
    units: list[_Unit] | None = msgspec.field(name="queueData", default=None)


def _unit_sizes(body: bytes) -> list[int]:
    try:
        return [one.size for one in msgspec.json.decode(body, type=_Units).units or ()]
    except msgspec.DecodeError:
        return []
