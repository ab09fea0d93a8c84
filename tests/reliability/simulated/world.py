"""NameServers, brokers, producers and consumers as simulated processes of one loop."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from rocketflow.broker.service import Broker
from rocketflow.broker.settings import load_broker_settings
from rocketflow.client import ClientOptions, Message, ProducerOptions, TransactionProducer
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.errors import ClientError
from rocketflow.client.produce.transactions import TransactionState
from rocketflow.client.push import ConsumeContext, ConsumeFrom, ConsumeStatus, PushConsumer, PushOptions
from rocketflow.namesrv.service import NameServer
from rocketflow.namesrv.settings import load_namesrv_settings
from rocketflow.remoting.bodies import MessageQueue
from rocketflow_store import StoreReader
from rocketflow_store.spi.messages import ReceivedMessage
from rocketflow_store.spi.table_rows import TopicConfig
from tests.reliability.simulated.history import History, Place
from tests.support.checker import disorder, findings
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_loop import Node, SimulatedLoop
from tests.support.simulated_network import SimulatedNetwork

TOPIC: Final = "simulated"
GROUP: Final = "readers"
QUEUES: Final = 2
"""Of each broker."""

NAME_SERVERS: Final = {"names-a": 9876, "names-b": 9877}
BROKERS: Final = {"broker-a": 10_911, "broker-b": 10_921}
"""Nodes and their ports."""

NAMES: Final = ";".join(f"127.0.0.1:{port}" for port in NAME_SERVERS.values())
_PAUSE_S: Final = 1.0
_TRANSACTIONS: Final = 0.15
_RETRIES: Final = 0.05
_SLOW_CALLS: Final = 0.02
"""The longest pause of a producer, and shares of its messages and of calls of a listener."""

_CALLS_S: Final = {False: (0.0, 0.001, 0.02), True: (0.0, 1.0, 3.0)}
"""Times of the other calls, of concurrent and of orderly listeners: messages of orderly ones pile up."""

SMALL: Final = {
    "mappedFileSizeCommitLog": "1048576",
    "mappedFileSizeConsumeQueue": "20000",
    "maxHashSlotNum": "100",
    "maxIndexNum": "400",
    "messageDelayLevel": "1s 5s 10s 30s",
    "autoCreateTopicEnable": "false",
    "transactionTimeOut": "3000",
    "transactionCheckInterval": "5000",
    "transactionCheckMax": "1000",
}


class Stores:
    """The directories of the brokers' stores: one that is killed leaves another one for the next start.

    With `loses_power`, messages are synced before they are acknowledged, and a broker that is killed silently leaves
    what a power loss leaves of its files.
    """

    def __init__(self, directory: Path, seed: int, *, loses_power: bool) -> None:
        self._directory = directory
        self._loses_power = loses_power
        self._random = random.Random(f"{seed} disks")
        self._numbers: dict[str, int] = {}
        self._disks: dict[str, SimulatedDisk] = {}
        self._layers = ExitStack()

    def settings(self, name: str) -> dict[str, str]:
        """Return a broker's settings of its store."""
        if name not in self._numbers:
            self._numbers[name] = 0
            if self._loses_power:
                self._path(name).mkdir()
                self._use(name, SimulatedDisk(self._path(name)))
        flush = {"flushDiskType": "SYNC_FLUSH"} if self._loses_power else {}
        return {"storePathRootDir": str(self._path(name)), **flush}

    def killed(self, name: str, *, silently: bool) -> None:
        """Make the directory that a killed broker leaves."""
        before = self._path(name)
        self._numbers[name] += 1
        after = self._path(name)
        if not self._loses_power:
            shutil.copytree(before, after)
            return
        state = self._disks[name].freeze()
        if silently:
            state.crash(after, self._random.randrange(1 << 30), self._random.choice((0.1, 0.5, 0.9)))
        self._use(name, SimulatedDisk(after) if silently else state.kill(after))

    def close(self) -> None:
        """Simulate no disk any more."""
        self._layers.close()

    def messages(self, topic: str) -> dict[Place, str]:
        """Return the bodies of a topic's messages in all stores; assert that the stores have no findings."""
        found: dict[Place, str] = {}
        for name in self._numbers:
            path = self._path(name)
            assert findings(path) == []
            assert disorder(path, topic) == []
            with StoreReader(path) as reader:
                for number in reader.queues(topic):
                    queue = MessageQueue(topic, name, number)
                    bounds = reader.bounds(topic, number)
                    for batch in reader.read(topic, number, *bounds, columns=["queueOffset", "body"]):
                        for row in batch.to_pylist():
                            found[Place(queue, row["queueOffset"])] = row["body"].decode()
        return found

    def _use(self, name: str, disk: SimulatedDisk) -> None:
        self._disks[name] = self._layers.enter_context(disk)

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}-{self._numbers[name]}"


class World:
    """The simulated cluster. Its nodes are known by name; one that is started again is another node."""

    def __init__(
        self, loop: SimulatedLoop, network: SimulatedNetwork, directory: Path, stores: Stores, seed: int, orderly: bool
    ) -> None:
        self.loop, self.network = loop, network
        self.random = random.Random(f"{seed} faults")
        self.history = History(loop.time)
        self._directory = directory
        self.orderly = orderly
        self._nodes: dict[str, Node] = {}
        self._all_nodes: list[Node] = []
        self._stops: dict[str, asyncio.Event] = {}
        self._mains: dict[str, asyncio.Task[Any]] = {}
        self.stores = stores
        self._starts = 0
        self._states: dict[str, TransactionState] = {}
        self.is_quiet = False
        """Set it and producers send nothing more, but answer questions about transactions."""

    # --- nodes

    def node(self, name: str) -> Node:
        """Return the living node of a name."""
        return self._nodes[name]

    def alive(self, kind: str) -> list[str]:
        """Return the names of the living nodes of a kind."""
        return sorted(name for name in self._nodes if name.startswith(kind))

    def _start(self, name: str, main: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
        node = self._nodes[name] = Node(name, self.loop)
        self._all_nodes.append(node)
        stop = self._stops[name] = asyncio.Event()
        self._mains[name] = node.spawn(main(stop))

    def start_name_server(self, name: str) -> None:
        """Start a NameServer."""
        given = {"listenPort": str(NAME_SERVERS[name]), "kvConfigPath": str(self._directory / f"{name}.json")}
        settings = load_namesrv_settings(None, given, {})
        self._start(name, lambda stop: _serve(NameServer(settings), stop))

    def start_broker(self, name: str) -> None:
        """Start a broker on the store that the broker of this name before has left."""
        given = {
            **SMALL,
            "brokerName": name,
            "listenPort": str(BROKERS[name]),
            "namesrvAddr": NAMES,
            **self.stores.settings(name),
        }
        settings = load_broker_settings(None, given, {})
        self._start(name, lambda stop: _serve(Broker(*settings), stop))

    def start_producer(self, name: str) -> None:
        """Start a producer that sends until it is stopped."""
        self._start(name, lambda stop: self._produce(name, stop))

    def start_consumer(self) -> None:
        """Start a further consumer of the group."""
        self._starts += 1
        name = f"consumer{self._starts}"
        self._start(name, lambda stop: self._consume(name, stop))

    def kill(self, name: str, *, silently: bool = False) -> None:
        """Kill a node: it runs no further step. A broker's store is what its files hold at this moment."""
        node = self._nodes.pop(name)
        node.kill()
        self.network.kill(node, silently=silently)
        self.history.killed(name)
        if name in BROKERS:
            self.stores.killed(name, silently=silently)

    async def stop(self, name: str) -> None:
        """Let a node end in order; faults do not find it meanwhile."""
        del self._nodes[name]
        self._stops[name].set()
        await self._mains[name]

    def check(self) -> None:
        """Raise what has ended a node that was not stopped."""
        for name in self._nodes:
            main = self._mains[name]
            if main.done():
                main.result()
                raise AssertionError(f"{name} has ended")

    async def abandon(self) -> None:
        """End the tasks of all nodes, of killed ones as well, so that they release their files."""
        self.network.join_all()
        for node in self._all_nodes:
            node.revive()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- what nodes run

    async def _produce(self, name: str, stop: asyncio.Event) -> None:
        rng = random.Random(f"{name} {self.random.random()}")
        options = ProducerOptions(group="writers", name_servers=NAMES, instance_name=name)
        number = 0
        async with TransactionProducer(options, self._state) as producer:
            while not stop.is_set():
                await asyncio.sleep(rng.uniform(0, _PAUSE_S))
                if self.is_quiet:
                    continue
                body = f"{name}-{number}"
                number += 1
                self.history.sends(body)
                try:
                    if not self.orderly and rng.random() < _TRANSACTIONS:
                        await producer.send_in_transaction(Message(TOPIC, body.encode()), self._execute(rng))
                    else:
                        sent = await producer.send(Message(TOPIC, body.encode()))
                        self.history.stored(body, Place(sent.queue, sent.queue_offset))
                except ClientError as error:
                    self.history.failed(body, error)

    def _execute(self, rng: random.Random) -> Callable[[Message], Awaitable[TransactionState]]:
        """Return a local transaction that ends by chance, and whose state the producer may not know at first."""

        async def execute(message: Message) -> TransactionState:
            body, commits = message.body.decode(), rng.random() < 0.7
            self._states[body] = TransactionState.COMMIT if commits else TransactionState.ROLLBACK
            self.history.decided(body, commits=commits)
            return TransactionState.UNKNOWN if rng.random() < 0.5 else self._states[body]

        return execute

    async def _state(self, message: ReceivedMessage) -> TransactionState:
        """Answer a broker's question; a half message that was not acknowledged has no local transaction."""
        return self._states.get(message.body.decode(), TransactionState.ROLLBACK)

    async def _consume(self, name: str, stop: asyncio.Event) -> None:
        rng = random.Random(f"{name} {self.random.random()}")

        async def listen(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeStatus:
            (message,) = messages
            call = self.history.begins(name, message.body.decode(), Place(context.queue, message.queue_offset))
            is_slow = rng.random() < _SLOW_CALLS
            await asyncio.sleep(rng.uniform(1.0, 20.0) if is_slow else rng.choice(_CALLS_S[self.orderly]))
            succeeded = self.orderly or rng.random() >= _RETRIES
            self.history.ends(call, succeeded=succeeded)
            return ConsumeStatus.SUCCESS if succeeded else ConsumeStatus.RECONSUME_LATER

        options = PushOptions(
            group=GROUP,
            name_servers=NAMES,
            instance_name=name,
            orderly=self.orderly,
            concurrency=rng.choice((1, 20)),
            consume_from=ConsumeFrom.FIRST,
        )
        consumer = PushConsumer(options, listen)
        await consumer.subscribe(TOPIC)
        while True:
            try:
                await consumer.start()
                break
            except ClientError:
                await asyncio.sleep(1.0)
        try:
            await stop.wait()
        finally:
            await consumer.close()


async def _serve(server: Broker | NameServer, stop: asyncio.Event) -> None:
    await server.start()
    try:
        await stop.wait()
    finally:
        await server.stop()


async def make_topic(world: World) -> None:
    """Create the topic at all brokers, from a node of its own, and wait for the routes."""

    async def create() -> None:
        async with AdminClient(ClientOptions(name_servers=NAMES, timeout_s=10)) as admin:
            config = TopicConfig(topic_name=TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
            for port in BROKERS.values():
                await admin.create_topic(f"127.0.0.1:{port}", config)
            while not await _has_all_routes(admin):
                await asyncio.sleep(0.1)

    await Node("operator", world.loop).spawn(create())


async def _has_all_routes(admin: AdminClient) -> bool:
    try:
        return len((await admin.cluster.ask_route(TOPIC)).queue_datas) == len(BROKERS)
    except ClientError:
        return False
