"""Offsets of a group: the next message to consume of each queue, kept at the brokers or in a local file.

RocketMQ's source: client/consumer/store/RemoteBrokerOffsetStore.java, LocalFileOffsetStore.java,
OffsetSerializeWrapper.java.
"""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import logging
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from rocketflow.client.consume.rebalance import sorted_queues
from rocketflow.client.errors import ClientError, RequestRefusedError
from rocketflow.client.ids import make_client_id
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
    from rocketflow.client.options import ClientOptions

LOG: Final = logging.getLogger("rocketflow.client")

PERSIST_SECONDS: Final = 5.0
"""How often consumers persist the offsets of their queues."""

_DEFAULT_INSTANCE: Final = "DEFAULT"
"""The instance name of RocketMQ's clients; a broadcasting consumer keeps it, all others replace it."""


class OffsetFileError(ClientError):
    """A local file of offsets and its copy are damaged, or another consumer of this host uses them."""


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

    async def persist(self, queues: Iterable[MessageQueue]) -> None:
        """Store the offsets of those queues that have one, and wait until they are stored. Raises ClientError."""

    def remove(self, queue: MessageQueue) -> None:
        """Forget the offset of a queue in memory."""

    def close(self) -> None:
        """Let another consumer use what `load` has locked."""


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
        self._sending: defaultdict[MessageQueue, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def load(self) -> None:
        """Load nothing: brokers are asked for each queue."""

    def close(self) -> None:
        """Do nothing: brokers know who reads a queue."""

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

    async def persist(self, queues: Iterable[MessageQueue]) -> None:
        """Send each offset to its broker (15); one that fails does not keep the others.

        Apache's brokers handle the requests of one connection in several threads. So an offset is sent once the one
        before it was answered: a broker would otherwise keep the older one, if it handles that later.
        """
        outcomes = await asyncio.gather(*map(self._send, list(queues)), return_exceptions=True)
        for one in outcomes:
            if one is not None:
                raise one

    async def _send(self, queue: MessageQueue) -> None:
        async with self._sending[queue]:
            offset = self._offsets.get(queue)
            if offset is None:  # none yet, or the queue was released meanwhile: another client may commit its offsets
                return
            header = UpdateConsumerOffsetRequestHeader(
                consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
            )
            await self._cluster.request(await self._address(queue), RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def _address(self, queue: MessageQueue) -> str:
        await self._cluster.route(queue.topic)
        return self._cluster.broker_address(queue.broker_name, or_any=True)


class LocalOffsetStore(_InMemory):
    """Offsets in RocketMQ's `offsets.json`: broadcasting consumers; the version before is in `offsets.json.bak`.

    `load` locks the first of `paths` that no other consumer of this host uses, `close` unlocks it.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        super().__init__()
        self._paths = paths
        self._path = Path()
        self._lock_fd: int | None = None
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Lock a file and read it, or its copy where the file is missing, empty or damaged.

        Raises OffsetFileError if neither can be read, or other consumers use all of the files.
        """
        self._path, self._lock_fd = await asyncio.to_thread(_take, self._paths)
        try:
            self._offsets = await asyncio.to_thread(_read, self._path)
        except OffsetFileError:
            self.close()
            raise

    def close(self) -> None:
        """Unlock the file."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    async def stored_offset(self, queue: MessageQueue) -> int | None:
        """Return the offset of a queue as it was loaded or updated since."""
        return self._offsets.get(queue)

    async def persist(self, queues: Iterable[MessageQueue]) -> None:
        """Write the offsets of all queues, those of earlier runs too. Raises OffsetFileError."""
        async with self._lock:
            await asyncio.to_thread(_write, self._path, dict(self._offsets))

    def remove(self, queue: MessageQueue) -> None:
        """Keep the offset: this client's file is its only copy."""


def local_offset_path(client_id: str, group: str, directory: Path | None = None) -> Path:
    """Return the file of a client and group, in the home directory as RocketMQ's if `directory` is None."""
    return (directory or Path.home() / ".rocketmq_offsets") / client_id / group / "offsets.json"


def local_offset_paths(options: ClientOptions, group: str, directory: Path | None) -> Iterator[Path]:
    """Yield the file of a broadcasting consumer, and those that it uses while others of its host use that one.

    The names have no part that changes with each start, so that a consumer continues after it. Without an instance
    name the first is that of a Java client with default options, ADDRESS@DEFAULT, then follow DEFAULT-2, DEFAULT-3, ...
    """

    def path(instance: str) -> Path:
        return local_offset_path(make_client_id(instance, options.unit_name), group, directory)

    yield path(options.instance_name or _DEFAULT_INSTANCE)
    if not options.instance_name:
        for number in itertools.count(2):
            yield path(f"{_DEFAULT_INSTANCE}-{number}")


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


def _take(paths: Iterable[Path]) -> tuple[Path, int | None]:
    """Return the first file that no other consumer locks, and the descriptor that locks it from now on."""
    used = None
    for path in paths:
        try:
            fd = _locked(path)
        except BlockingIOError:
            used = used or path
            continue
        except OSError as error:
            LOG.warning("%s cannot be locked: %s; no other consumer of this host may use it", path, error)
            fd = None
        if used is not None:
            LOG.warning(
                "another consumer of this host and group uses %s; the offsets of this one are in %s: set instance_name "
                "so that each continues after its own offsets, in whatever order they start", used, path,
            )  # fmt: skip
        return path, fd
    raise OffsetFileError(f"{used}: another consumer of this host uses these offsets: give each its own instance_name")


def _locked(path: Path) -> int:
    """Lock the place of a file, which is created, until the descriptor is closed or the process ends, however it ends.

    Raises BlockingIOError if another consumer has locked it.
    """
    if not path.parent.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        for one in itertools.islice(path.parents, 1, 4):
            _sync_directory(one)
    fd = os.open(path.with_name("offsets.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


def _write(path: Path, offsets: dict[MessageQueue, int]) -> None:
    """Replace the file, so that after a crash at any moment it or its copy is complete."""
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
        _sync_directory(path.parent)
    except OSError as error:
        raise OffsetFileError(f"{path}: the offsets cannot be written: {error}") from None


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _copy_of(path: Path) -> Path:
    return path.with_name(path.name + ".bak")
