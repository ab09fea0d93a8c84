"""Offsets of a group: the next message to consume of each queue, kept at the brokers or in a local file.

RocketMQ's source: client/consumer/store/RemoteBrokerOffsetStore.java, LocalFileOffsetStore.java,
OffsetSerializeWrapper.java.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from rocketflow.client.consume.rebalance import sorted_queues
from rocketflow.client.errors import ClientError, RequestRefusedError
from rocketflow.remoting import fastjson
from rocketflow.remoting.bodies import MessageQueue
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.errors import BodyError
from rocketflow.remoting.headers.offset import (
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)

if TYPE_CHECKING:
    from rocketflow.client.cluster import Cluster

LOG: Final = logging.getLogger("rocketflow.client")

PERSIST_SECONDS: Final = 5.0
"""How often consumers persist the offsets of their queues."""


class OffsetFileError(ClientError):
    """A local file of offsets and its copy are damaged."""


class OffsetStore(Protocol):
    """Keeps offsets in memory and persists them."""

    async def load(self) -> None:
        """Load what is stored locally. Raises OffsetFileError."""

    def update(self, queue: MessageQueue, offset: int, *, only_increase: bool = True) -> None:
        """Set the offset of a queue in memory; a smaller one only without `only_increase`."""

    def offset(self, queue: MessageQueue) -> int | None:
        """Return the offset of a queue in memory."""

    async def stored_offset(self, queue: MessageQueue) -> int | None:
        """Return the persisted offset of a queue, None if there is none. Raises ClientError."""

    async def persist(self, queues: Iterable[MessageQueue], *, confirmed: bool = False) -> None:
        """Store the offsets of those queues that have one; `confirmed` waits until they are stored.

        Raises ClientError, without `confirmed` only where a broker cannot be reached.
        """

    def remove(self, queue: MessageQueue) -> None:
        """Forget the offset of a queue in memory."""


class _InMemory:
    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}

    def update(self, queue: MessageQueue, offset: int, *, only_increase: bool = True) -> None:
        """Set the offset of a queue in memory; a smaller one only without `only_increase`."""
        if not only_increase or offset > self._offsets.get(queue, -1):
            self._offsets[queue] = offset

    def offset(self, queue: MessageQueue) -> int | None:
        """Return the offset of a queue in memory."""
        return self._offsets.get(queue)

    def remove(self, queue: MessageQueue) -> None:
        """Forget the offset of a queue in memory."""
        self._offsets.pop(queue, None)


class RemoteOffsetStore(_InMemory):
    """Offsets at the queues' brokers: clustering consumers."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        super().__init__()
        self._cluster = cluster
        self._group = group

    async def load(self) -> None:
        """Load nothing: brokers are asked for each queue."""

    async def stored_offset(self, queue: MessageQueue) -> int | None:
        """Ask the queue's broker (14). Raises RequestRefusedError, UnreachableError, NoBrokerAddressError."""
        header = QueryConsumerOffsetRequestHeader(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id
        )
        address = await self._address(queue)
        reply = await self._cluster.ask(address, RequestCode.QUERY_CONSUMER_OFFSET, header)
        if reply.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        if reply.code != ResponseCode.SUCCESS:
            raise RequestRefusedError(address, RequestCode.QUERY_CONSUMER_OFFSET, reply.code, reply.remark)
        return reply.header(QueryConsumerOffsetResponseHeader).offset

    async def persist(self, queues: Iterable[MessageQueue], *, confirmed: bool = False) -> None:
        """Send each offset to its broker (15), one-way unless `confirmed`; one that fails does not keep the others."""
        stored = [(one, self._offsets[one]) for one in queues if one in self._offsets]
        outcomes = await asyncio.gather(
            *(self._send(queue, offset, confirmed) for queue, offset in stored), return_exceptions=True
        )
        for one in outcomes:
            if one is not None:
                raise one

    async def _send(self, queue: MessageQueue, offset: int, confirmed: bool) -> None:
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
        )
        address = await self._address(queue)
        if confirmed:
            await self._cluster.request(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)
        else:
            await self._cluster.notify(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def _address(self, queue: MessageQueue) -> str:
        await self._cluster.route(queue.topic)
        return self._cluster.broker_address(queue.broker_name, or_any=True)


class LocalOffsetStore(_InMemory):
    """Offsets in RocketMQ's `offsets.json`: broadcasting consumers; the version before is in `offsets.json.bak`."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Read the file, or its copy where the file is missing, empty or damaged.

        Raises OffsetFileError if neither can be read.
        """
        self._offsets = await asyncio.to_thread(_read, self._path)

    async def stored_offset(self, queue: MessageQueue) -> int | None:
        """Return the offset of a queue as it was loaded or updated since."""
        return self._offsets.get(queue)

    async def persist(self, queues: Iterable[MessageQueue], *, confirmed: bool = False) -> None:
        """Write the offsets of all queues, those of earlier runs too. Raises OffsetFileError."""
        async with self._lock:
            await asyncio.to_thread(_write, self._path, dict(self._offsets))

    def remove(self, queue: MessageQueue) -> None:
        """Keep the offset: this client's file is its only copy."""


def local_offset_path(client_id: str, group: str) -> Path:
    """Return the file of a client and group, in the home directory as RocketMQ's."""
    return Path.home() / ".rocketmq_offsets" / client_id / group / "offsets.json"


def encode_offsets(offsets: dict[MessageQueue, int]) -> str:
    """Return the text of `offsets.json` as fastjson writes it."""
    entries = ",".join(
        f'{{\n\t\t\t"brokerName":{_quoted(queue.broker_name)},\n\t\t\t"queueId":{queue.queue_id},\n'
        f'\t\t\t"topic":{_quoted(queue.topic)}\n\t\t}}:{offsets[queue]}'
        for queue in sorted_queues(offsets)
    )
    return f'{{\n\t"offsetTable":{{{entries}\n\t}}\n}}'


def decode_offsets(data: bytes) -> dict[MessageQueue, int]:
    """Decode `offsets.json`. Raises BodyError."""
    body = fastjson.loads(data)
    table = body.get("offsetTable") if isinstance(body, dict) else None
    if not isinstance(table, dict):
        raise BodyError("it has no object offsetTable")
    found = {}
    for key, offset in table.items():
        named = dict(key) if isinstance(key, tuple) else {}
        topic, broker_name, queue_id = named.get("topic"), named.get("brokerName"), named.get("queueId")
        if not (isinstance(topic, str) and isinstance(broker_name, str)):
            raise BodyError(f"{key!r} is no queue")
        if not (isinstance(queue_id, int) and isinstance(offset, int)):
            raise BodyError(f"queue {queue_id!r} of topic {topic!r} has the offset {offset!r}")
        found[MessageQueue(topic, broker_name, queue_id)] = offset
    return found


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _read(path: Path) -> dict[MessageQueue, int]:
    """Read the file, or its copy; one that is missing or empty has no offsets."""
    damage = ""
    for one in (path, _copy_of(path)):
        try:
            data = one.read_bytes()
            found = decode_offsets(data) if data.strip() else {}
        except FileNotFoundError:
            continue
        except (BodyError, OSError) as error:
            damage = damage or f"{one} cannot be read: {error}"
            continue
        if found and damage:
            LOG.warning("%s; its offsets were read from %s", damage, one)
        if found:
            return found
    if damage:
        raise OffsetFileError(
            f"{damage}. Restore it or {_copy_of(path).name}, or remove both: the group then starts anew"
        )
    return {}


def _write(path: Path, offsets: dict[MessageQueue, int]) -> None:
    new = path.with_name(path.name + ".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with new.open("w", encoding="utf-8") as file:
            file.write(encode_offsets(offsets))
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            _copy_of(path).write_bytes(path.read_bytes())
        new.replace(path)
    except OSError as error:
        raise OffsetFileError(f"{path}: the offsets cannot be written: {error}") from None


def _copy_of(path: Path) -> Path:
    return path.with_name(path.name + ".bak")
