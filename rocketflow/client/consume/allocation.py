"""RocketMQ's six strategies that divide the queues of a topic among the clients of a group.

Every client of a group computes the same division from the same sorted queues and sorted client ids, so that clients
in Java and in Python may be mixed. RocketMQ's source: client/consumer/rebalance/*.java,
common/consistenthash/ConsistentHashRouter.java.
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, Protocol, TypeVar

from rocketflow.client.errors import ClientError
from rocketflow.remoting.bodies import MessageQueue

T = TypeVar("T")

_VIRTUAL_NODES: Final = 10


class AllocationError(ClientError):
    """A strategy cannot divide queues: an input is empty, or a queue or client belongs to no room."""


class AllocationStrategy(Protocol):
    """Divides queues among the clients of a group."""

    @property
    def name(self) -> str:
        """Return the strategy's name in RocketMQ."""

    def allocate(self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        """Return the queues of one client; none if its id is not among `client_ids`.

        `queues` and `client_ids` are sorted as `rebalance.sorted_queues` and `sorted_client_ids` do. Raises
        AllocationError where an argument is empty.
        """


class Averagely:
    """AVG, the default: a stretch of neighbouring queues for each client."""

    name = "AVG"

    def allocate(self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        """Return the client's stretch; the first clients have one queue more if they do not divide evenly."""
        if not _is_member(client_id, queues, client_ids):
            return []
        index = client_ids.index(client_id)
        each, more = divmod(len(queues), len(client_ids))
        start = index * each + min(index, more)
        return list(queues[start : start + each + (index < more)])


class AveragelyByCircle:
    """AVG_BY_CIRCLE: the queues are dealt out one by one."""

    name = "AVG_BY_CIRCLE"

    def allocate(self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        """Return every nth queue, where n is the number of clients."""
        if not _is_member(client_id, queues, client_ids):
            return []
        return list(queues[client_ids.index(client_id) :: len(client_ids)])


class ByConfig:
    """CONFIG: the queues that the user has chosen for this client."""

    name = "CONFIG"

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        self._queues = list(queues)

    def allocate(self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        """Return the chosen queues, whatever the arguments."""
        return list(self._queues)


class ByMachineRoom:
    """MACHINE_ROOM: only queues of brokers that are named `room@broker`, where `names` has the room."""

    name = "MACHINE_ROOM"

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)

    def allocate(self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        """Return the client's stretch of the room's queues, and one of those that remain."""
        if not _is_member(client_id, queues, client_ids):
            return []
        index, count = client_ids.index(client_id), len(client_ids)
        inside = [one for one in queues if self._is_inside(one.broker_name)]
        each, more = divmod(len(inside), count)
        found = inside[index * each : (index + 1) * each]
        return [*found, inside[index + each * count]] if more > index else found

    def _is_inside(self, broker_name: str) -> bool:
        parts = broker_name.rstrip("@").split("@")  # Java's split drops empty parts at the end
        return len(parts) == 2 and parts[0] in self._names


class MachineRoomNearby:
    """MACHINE_ROOM_NEARBY: queues of a room go to its clients; those of a room without clients to all.

    `room_of_queue` and `room_of_client` return the name of a room; `inner` divides the queues of each.
    """

    def __init__(
        self,
        inner: AllocationStrategy,
        room_of_queue: Callable[[MessageQueue], str],
        room_of_client: Callable[[str], str],
    ) -> None:
        self._inner = inner
        self._room_of_queue = room_of_queue
        self._room_of_client = room_of_client

    @property
    def name(self) -> str:
        """Return the strategy's name, which ends with that of the inner one."""
        return f"MACHINE_ROOM_NEARBY-{self._inner.name}"

    def allocate(self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        """Return the client's queues of its room, then those of each room without clients, by its name.

        Raises AllocationError too where a queue or a client has no room.
        """
        if not _is_member(client_id, queues, client_ids):
            return []
        queues_of = _by_room(queues, self._room_of_queue)
        clients_of = _by_room(client_ids, self._room_of_client)
        room = self._room_of_client(client_id)
        found = []
        if room in queues_of:
            found += self._inner.allocate(client_id, queues_of.pop(room), clients_of[room])
        for other in sorted(queues_of, key=utf16_order):
            if other not in clients_of:
                found += self._inner.allocate(client_id, queues_of[other], client_ids)
        return found


class ConsistentHash:
    """CONSISTENT_HASH: a client that joins or leaves moves few queues; the shares are uneven."""

    name = "CONSISTENT_HASH"

    def __init__(self, virtual_nodes: int = _VIRTUAL_NODES) -> None:
        """Take the number of points of each client on the ring. Raises AllocationError for none."""
        if virtual_nodes < 1:
            raise AllocationError(f"virtual_nodes is {virtual_nodes}; at least 1 is needed")
        self._virtual_nodes = virtual_nodes

    def allocate(self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        """Return the queues whose next point on the ring is one of the client's."""
        if not _is_member(client_id, queues, client_ids):
            return []
        ring = {_md5_head(f"{one}-{k}"): one for one in client_ids for k in range(self._virtual_nodes)}
        points = sorted(ring)
        return [
            one
            for one in queues
            if ring[points[bisect.bisect_left(points, _md5_head(_java_text(one))) % len(points)]] == client_id
        ]


def utf16_order(text: str) -> bytes:
    """Return a key that sorts texts as Java's String.compareTo does."""
    return text.encode("utf-16-be", "surrogatepass")


def _is_member(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> bool:
    if not client_id:
        raise AllocationError("the client id is empty")
    if not queues:
        raise AllocationError("there is no queue to divide")
    if not client_ids:
        raise AllocationError("there is no client to divide queues among")
    return client_id in client_ids


def _by_room(values: Iterable[T], room_of: Callable[[T], str]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {}
    for one in values:
        room = room_of(one)
        if not room:
            raise AllocationError(f"{one} belongs to no machine room")
        found.setdefault(room, []).append(one)
    return found


def _md5_head(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def _java_text(queue: MessageQueue) -> str:
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
