"""Queues that consumers lock, without I/O: times are milliseconds that the caller passes in.

RocketMQ's source: broker/client/rebalance/RebalanceLockManager.java.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from rocketflow.remoting.bodies import MessageQueue

EXPIRY_MS: Final = 60_000
LIMIT: Final = 100_000


class _Lock(NamedTuple):
    client_id: str
    renewed_ms: int


class QueueLocks:
    """Locks of queues by group, at most LIMIT; a lock that is not renewed for EXPIRY_MS is free."""

    def __init__(self) -> None:
        self._locks: dict[str, dict[MessageQueue, _Lock]] = {}
        self._count = 0

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int) -> list[MessageQueue]:
        """Lock what is free or expired, renew what the client holds, and return the queues that it holds now."""
        locks = self._locks.get(group, {})
        if self._count >= LIMIT:
            self._drop_expired(now_ms)
        held = []
        for queue in queues:
            known = locks.get(queue)
            if known is None or known.client_id == client_id or known.renewed_ms + EXPIRY_MS < now_ms:
                if known is None and self._count >= LIMIT:
                    continue
                self._count += known is None
                locks[queue] = _Lock(client_id, now_ms)
                held.append(queue)
        if locks:
            self._locks[group] = locks
        return held

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Release the queues that the client holds."""
        locks = self._locks.get(group, {})
        for queue in queues:
            known = locks.get(queue)
            if known is not None and known.client_id == client_id:
                del locks[queue]
                self._count -= 1
        if not locks:
            self._locks.pop(group, None)

    def _drop_expired(self, now_ms: int) -> None:
        """Remove the locks that are free again."""
        for locks in self._locks.values():
            for queue in [queue for queue, one in locks.items() if one.renewed_ms + EXPIRY_MS < now_ms]:
                del locks[queue]
                self._count -= 1
        self._locks = {group: locks for group, locks in self._locks.items() if locks}

    def any_held(self, group: str, now_ms: int) -> bool:
        """Return whether a client holds a queue for the group."""
        return any(one.renewed_ms + EXPIRY_MS >= now_ms for one in self._locks.get(group, {}).values())
