"""The queues that a push consumer holds: gained and lost by rebalancing, with their offsets and locks.

RocketMQ's source: client/impl/consumer/RebalanceImpl.java, RebalancePushImpl.java,
client/impl/factory/MQClientInstance.java (resetOffset).
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from rocketflow.client.consume.membership import client_ids
from rocketflow.client.consume.rebalance import assigned_queues, changes
from rocketflow.client.errors import ClientError, NoRouteError
from rocketflow.client.push.held_queue import HeldQueue
from rocketflow.client.routes import subscribe_queues

if TYPE_CHECKING:
    from rocketflow.client.cluster import Cluster
    from rocketflow.client.consume.membership import GroupMembership
    from rocketflow.client.consume.offset_stores import OffsetStore
    from rocketflow.client.consume.start_positions import StartPositions
    from rocketflow.client.push.options import PushOptions
    from rocketflow.client.push.pulling import Pulling
    from rocketflow.client.push.queue_locks import QueueLocks
    from rocketflow.remoting.bodies import MessageQueue

LOG: Final = logging.getLogger("rocketflow.client")

_MISSING_ROUNDS: Final = 10
"""A topic without a route is asked for that often at once; it may be about to be created."""


class Holdings:
    """Holds the queues that the strategy gives to this client.

    `rebalance` computes them again, `persist` and `relock` are to be called at intervals. A queue that is lost is
    dropped at once; if the listener is orderly it stays locked until the call that runs has ended.
    """

    def __init__(
        self,
        options: PushOptions,
        cluster: Cluster,
        membership: GroupMembership,
        store: OffsetStore,
        starts: StartPositions,
        locks: QueueLocks | None,
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._membership = membership
        self._store = store
        self._starts = starts
        self._locks = locks
        self._held: dict[MessageQueue, HeldQueue] = {}
        self._releasing: dict[MessageQueue, asyncio.Task[None]] = {}
        self._late: set[MessageQueue] = set()
        self._missing: dict[str, int] = defaultdict(int)
        self._pulling: Pulling | None = None
        self._wake: Callable[[], None] = lambda: None

    def start(self, pulling: Pulling, wake: Callable[[], None]) -> None:
        """Read queues by `pulling` from now on; `wake` asks for a rebalance."""
        self._pulling, self._wake = pulling, wake

    async def load(self) -> None:
        """Load offsets that are stored locally. Raises OffsetFileError."""
        await self._store.load()

    def unload(self) -> None:
        """Let another consumer of this host use what `load` has loaded."""
        self._store.close()

    def queues(self) -> dict[MessageQueue, HeldQueue]:
        """Return the queues that are held."""
        return dict(self._held)

    # --- rebalancing

    async def rebalance(self) -> bool:
        """Hold the queues that are this client's now; return whether all of them could be computed and held."""
        complete = True
        subscribed = self._membership.subscriptions()
        for topic in subscribed:
            try:
                wanted = await self._wanted(topic)
            except NoRouteError as error:
                complete &= self._is_missing(topic, error)
                continue
            except ClientError as error:
                LOG.warning("group %s: the queues of topic %s stay as they are: %s", self._options.group, topic, error)
                complete = False
                continue
            except Exception:  # a user's strategy may raise anything
                LOG.exception("group %s: the queues of topic %s stay as they are", self._options.group, topic)
                complete = False
                continue
            self._missing.pop(topic, None)
            complete &= await self._hold_only(topic, wanted)
        for queue in [one for one in self._held if one.topic not in subscribed]:
            self._release(queue)
        return complete and not self._releasing

    async def _wanted(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that are this client's. Raises ClientError."""
        queues = subscribe_queues(topic, await self._cluster.route(topic))
        if self._options.broadcasting:
            return queues
        members = await client_ids(self._cluster, topic, self._options.group)
        if self._cluster.client_id not in members:
            await self._cluster.send_heartbeats()
            raise ClientError("the broker does not know this client yet")
        return assigned_queues(self._options.strategy, self._cluster.client_id, queues, members)

    def _is_missing(self, topic: str, error: NoRouteError) -> bool:
        """Count a round in which a topic had no route; return whether it is not worth to ask again soon."""
        self._missing[topic] += 1
        if self._missing[topic] == _MISSING_ROUNDS:
            LOG.warning("group %s: nothing is read of topic %s: %s", self._options.group, topic, error)
        return self._missing[topic] >= _MISSING_ROUNDS

    async def _hold_only(self, topic: str, wanted: Collection[MessageQueue]) -> bool:
        held = [one for one in self._held if one.topic == topic]
        added, removed = changes(held, wanted)
        for queue in removed:
            self._release(queue)
        free = [one for one in added if one not in self._releasing]
        taken = await self._take(free)
        if taken or removed:
            self._membership.renew(topic)
            await self._cluster.send_heartbeats()  # a pull of a version that the broker does not know is refused
            LOG.info(
                "group %s: %d queues of topic %s were gained, %d lost", self._options.group, len(taken), topic,
                len(removed),
            )  # fmt: skip
        for one in taken:
            self._begin(one)
        if taken and self._options.broadcasting:
            await self.persist()  # no broker knows where the group began: a kill must not move it to the queues' end
        return len(taken) == len(added)

    async def _take(self, queues: Collection[MessageQueue]) -> list[HeldQueue]:
        """Lock queues if need be, and find out where to start them; return those for which that succeeded."""
        locked: dict[MessageQueue, float] = {}
        if self._locks is not None and queues:
            locked, _ = await self._locks.lock(queues)
            queues = [one for one in queues if one in locked]
        taken = []
        for queue in queues:
            self._store.remove(queue)
            try:
                start = await self._store.stored_offset(queue)
                if start is None:
                    start = await self._starts.start_of(queue)
            except ClientError as error:
                LOG.warning("group %s: %s cannot be read yet: %s", self._options.group, queue, error)
                continue
            held = HeldQueue(queue, start, self._options.queue_limits)
            if queue in locked:
                held.set_locked(locked[queue])
            taken.append(held)
        return taken

    def _begin(self, held: HeldQueue) -> None:
        self._held[held.queue] = held
        held.read_by(self._cluster.spawn(self._pull(held)))

    async def _pull(self, held: HeldQueue) -> None:
        assert self._pulling is not None
        try:
            offset = await self._pulling.pull_until_moved(held)
        except Exception:
            self._release(held.queue)  # a rebalance takes it again
            self._wake()
            raise
        if offset is not None:
            await self.reset({held.queue: offset})

    # --- queues that are dropped

    def _release(self, queue: MessageQueue, offset: int | None = None, *, persists: bool = True) -> None:
        """Drop a queue; its offset is persisted (`offset` if given), and it is unlocked once no call works on it."""
        held = self._held.pop(queue)
        held.drop()

        if held.consuming.locked():
            self._late.add(queue)  # its lock is renewed until the call has ended

        async def release() -> None:
            try:
                async with held.consuming:
                    self._late.discard(queue)
                    if persists:
                        await self._persist_released(held, offset)
                    self._store.remove(queue)
                    if self._locks is not None:
                        await self._locks.unlock([queue])
            finally:
                self._releasing.pop(queue, None)

        self._releasing[queue] = self._cluster.spawn(release())

    async def _persist_released(self, held: HeldQueue, offset: int | None) -> None:
        if offset is None:
            self._store.update(held.queue, held.messages.commit_offset)
        else:
            self._store.update(held.queue, offset, only_increase=False)
        try:
            await self._store.persist([held.queue])
        except ClientError as error:
            LOG.warning("group %s: the offset of %s was not stored: %s", self._options.group, held.queue, error)

    async def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Drop queues that are held, store other offsets for them, and ask for a rebalance, which takes them again."""
        queues = [one for one in offsets if one in self._held]
        for queue in queues:
            self._release(queue, offsets[queue])
        await asyncio.gather(*(self._releasing[one] for one in queues if one in self._releasing))
        self._wake()

    # --- at intervals

    async def persist(self) -> None:
        """Store the offsets of all queues that are held; failures are logged."""
        by_broker: dict[str, list[MessageQueue]] = defaultdict(list)
        for queue, held in self._held.items():
            self._store.update(queue, held.messages.commit_offset)
            by_broker[queue.broker_name].append(queue)
        for broker, queues in by_broker.items():
            try:
                await self._store.persist(queues)
            except ClientError as error:
                LOG.warning("group %s: offsets at %s were not stored: %s", self._options.group, broker, error)

    async def relock(self) -> None:
        """Renew the locks of all queues; those that another client has now are dropped."""
        if self._locks is None or not (self._held or self._late):
            return
        asked = dict(self._held)
        locked, unknown = await self._locks.lock([*asked, *self._late])
        lost = [one for one in asked if one not in locked and one not in unknown]
        for queue, held in asked.items():
            if queue in locked and self._held.get(queue) is held:
                held.set_locked(locked[queue])
        for queue in lost:
            if self._held.get(queue) is asked[queue]:
                LOG.warning("group %s: another client locks %s", self._options.group, queue)
                self._release(queue, persists=False)
        if lost:
            self._wake()

    async def stop_pulls(self) -> None:
        """End all pulls."""
        await asyncio.gather(*(one.stop_reading() for one in self._held.values()))

    async def close(self) -> None:
        """Store all offsets and unlock all queues, once no listener works on them any more."""
        await self._settled(self._releasing.values())
        await self.persist()
        if self._locks is not None:
            await self._locks.unlock_all()  # those of a rebalance that was cancelled too
        for held in self._held.values():
            held.drop()
        self._held.clear()
        self.unload()

    async def _settled(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        found = list(tasks)
        if found:
            await asyncio.wait(found, timeout=self._options.drain_s)
