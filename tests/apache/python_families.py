"""The families of messaging, each as a small program with RocketFlow's Python client, for any broker."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import rocketflow.client.sync as plain
from rocketflow.arrow import pull_arrow
from rocketflow.client import (
    ClientOptions,
    ConsumeContext,
    ConsumeFrom,
    ConsumeStatus,
    Message,
    Producer,
    ProducerOptions,
    PullConsumer,
    PullOptions,
    PushConsumer,
    PushOptions,
    ReceivedMessage,
    SendStatus,
)
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.produce import TransactionProducer, TransactionState, by_sharding_key, reply_to
from rocketflow.client.produce.trace import TRACE_TOPIC
from rocketflow.remoting.bodies import MessageQueue
from rocketflow_store.spi.table_rows import TopicConfig
from tests.support.trials import environment

FAMILY_SECONDS: Final = 120.0
_QUIET_SECONDS: Final = 0.5
"""How long no further message has to come after those that are expected."""


class Servers:
    """A cluster with one broker, names of topics and groups that no other family uses, and a folder for offsets."""

    def __init__(self, names: str, broker: str, home: Path, *, commits_once: bool = True) -> None:
        """Take addresses; without `commits_once` the broker may store a transaction twice."""
        self.names, self.broker, self.home, self.commits_once = names, broker, home, commits_once
        self._numbers = itertools.count()

    def new_name(self, kind: str) -> str:
        """Return a name for a topic or a group."""
        return f"python-{kind}-{next(self._numbers)}"

    async def topic(self, queues: int = 4, **attributes: str) -> str:
        """Create a topic, wait until the NameServer has its route, and return its name."""
        topic = self.new_name("topic")
        config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, attributes=attributes)
        async with AdminClient(ClientOptions(name_servers=self.names)) as admin:
            await admin.create_topic(self.broker, config)
            await until(lambda: has_route(admin, topic))
        return topic

    def producer(self, **more: Any) -> Producer:
        """Return a producer."""
        return Producer(ProducerOptions(name_servers=self.names, group="python-producers", send_timeout_s=20, **more))

    @asynccontextmanager
    async def push(self, topic: str, listener: Listener, expression: str = "*", **more: Any) -> AsyncIterator[str]:
        """Run a push consumer of a topic from its first message; give its group."""
        kind = more.pop("expression_type", "TAG")
        group = more.pop("group", None) or self.new_name("group")
        options = PushOptions(name_servers=self.names, group=group, consume_from=ConsumeFrom.FIRST, **more)
        consumer = PushConsumer(options, listener)
        await consumer.subscribe(topic, expression, expression_type=kind)
        async with consumer:
            yield group


Listener = Callable[[list[ReceivedMessage], ConsumeContext], Awaitable[ConsumeStatus | None]]


async def has_route(admin: AdminClient, topic: str) -> bool:
    """Return whether the NameServer knows a topic."""
    return topic in await admin.topics()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition holds; the family's time limits the wait."""
    while not await condition():
        await asyncio.sleep(0.05)


class Collected:
    """A listener that collects messages."""

    def __init__(self) -> None:
        self.messages: list[ReceivedMessage] = []

    async def __call__(self, messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeStatus | None:
        self.messages += messages
        return None

    @property
    def bodies(self) -> list[str]:
        """Return the bodies in the order in which they came."""
        return [one.body.decode() for one in self.messages]

    async def are(self, bodies: Iterable[str]) -> None:
        """Wait until these bodies have come, in any order; AssertionError if further ones come."""
        wanted = sorted(bodies)

        async def all_came() -> bool:
            return len(self.messages) >= len(wanted)

        await until(all_came)
        await asyncio.sleep(_QUIET_SECONDS)
        assert sorted(self.bodies) == wanted, self.bodies


def texts(count: int, prefix: str = "m") -> list[str]:
    """Return different bodies."""
    return [f"{prefix}{number}" for number in range(count)]


def messages(topic: str, bodies: Sequence[str], **more: Any) -> list[Message]:
    """Return a message for each body."""
    return [Message(topic, one.encode(), **more) for one in bodies]


async def _arrive(servers: Servers, topic: str, bodies: Iterable[str]) -> list[ReceivedMessage]:
    collected = Collected()
    async with servers.push(topic, collected):
        await collected.are(bodies)
    return collected.messages


async def sync(servers: Servers) -> None:
    """Await each send; its result names queue and offset, and all properties arrive."""
    topic = await servers.topic()
    async with servers.producer() as producer:
        sent = [await producer.send(Message(topic, one.encode(), tags="a", keys=["k", one])) for one in texts(8)]
    assert {one.status for one in sent} == {SendStatus.SEND_OK}
    assert len({one.queue.queue_id for one in sent}) == 4, "the queues take turns"
    came = await _arrive(servers, topic, texts(8))
    assert sorted(one.message_id for one in came) == sorted(one.message_id for one in sent)
    assert {(one.tags, *one.keys[:1]) for one in came} == {("a", "k")}


async def asynchronous(servers: Servers) -> None:
    """Begin many sends at once and await their tasks; a large body travels compressed."""
    topic = await servers.topic()
    bodies = [*texts(99), "large" * 2_000]
    async with servers.producer() as producer:
        tasks = [await producer.send_async(one) for one in messages(topic, bodies)]
        assert {one.status for one in await asyncio.gather(*tasks)} == {SendStatus.SEND_OK}
    await _arrive(servers, topic, bodies)


async def one_way(servers: Servers) -> None:
    """Send without an answer."""
    topic = await servers.topic()
    async with servers.producer() as producer:
        await producer.queues(topic)
        for one in messages(topic, texts(8)):
            await producer.send_one_way(one)
    await _arrive(servers, topic, texts(8))


async def batch(servers: Servers) -> None:
    """Send a batch in one request: it is in one queue, in order."""
    topic = await servers.topic()
    async with servers.producer() as producer:
        sent = await producer.send_batch(messages(topic, texts(32), tags="b"))
    assert len(sent.message_id.split(",")) == 32
    came = sorted(await _arrive(servers, topic, texts(32)), key=lambda one: one.queue_offset)
    assert [one.body.decode() for one in came] == texts(32)
    assert {one.queue_id for one in came} == {sent.queue.queue_id}


async def inner_batch(servers: Servers) -> None:
    """Send a batch to a topic that stores it as one record: push and pull consumers get its messages, by offset."""
    topic = await servers.topic(queues=1, **{"queue.type": "BatchCQ"})
    async with servers.producer() as producer:
        await producer.send_batch(messages(topic, texts(20), tags="b"))
    came = await _arrive(servers, topic, texts(20))
    assert sorted((one.queue_offset, one.body.decode(), one.tags) for one in came) == [
        (number, body, "b") for number, body in enumerate(texts(20))
    ]
    options = PullOptions(name_servers=servers.names, group=servers.new_name("group"), start=ConsumeFrom.FIRST)
    async with PullConsumer(options) as consumer:
        await consumer.assign(await consumer.queues(topic))
        assert await _polled(consumer, 20) == texts(20)
        consumer.seek(consumer.assignment()[0], 7)
        assert await _polled(consumer, 13) == texts(20)[7:]


async def selector(servers: Servers) -> None:
    """Choose queues by sharding key: the messages of a key are in one queue."""
    topic = await servers.topic()
    async with servers.producer() as producer:
        for one in texts(12):
            await producer.send(Message(topic, one.encode(), sharding_key=f"s{len(one) % 3}"), to=by_sharding_key)
    queues: dict[str, set[int]] = {}
    for one in await _arrive(servers, topic, texts(12)):
        queues.setdefault(one.properties["__SHARDINGKEY"], set()).add(one.queue_id)
    assert {len(one) for one in queues.values()} == {1}


async def delay(servers: Servers) -> None:
    """Send with delay level 1: the message arrives a second later, in its topic."""
    await _arrives_late(servers, 0.9, delay_level=1)


async def timer(servers: Servers) -> None:
    """Send with a delay in milliseconds, and for a time."""
    await _arrives_late(servers, 1.0, delay_ms=2_000)
    await _arrives_late(servers, 1.0, deliver_at_ms=int(time.time() * 1000) + 2_000)


async def _arrives_late(servers: Servers, least_s: float, **when: int) -> None:
    topic = await servers.topic()
    collected = Collected()
    async with servers.push(topic, collected), servers.producer() as producer:
        began = time.monotonic()
        await producer.send(Message(topic, b"late", **when))
        await collected.are(["late"])
        took = time.monotonic() - began - _QUIET_SECONDS
    assert took >= least_s, took


async def push(servers: Servers) -> None:
    """Consume concurrently while messages are sent; the group's offsets are kept when its consumer starts again."""
    topic = await servers.topic()
    collected, again = Collected(), Collected()
    async with servers.producer() as producer:
        async with servers.push(topic, collected) as group:
            for one in messages(topic, texts(50)):
                await producer.send(one)
            await collected.are(texts(50))
        async with servers.push(topic, again, group=group):
            await producer.send(Message(topic, b"next"))
            await again.are(["next"])


async def tags(servers: Servers) -> None:
    """Consume two tags of three."""
    topic = await servers.topic()
    async with servers.producer() as producer:
        for one in ("a1", "b1", "c1", "a2"):
            await producer.send(Message(topic, one.encode(), tags=one[0]))
    collected = Collected()
    async with servers.push(topic, collected, "a || c"):
        await collected.are(["a1", "a2", "c1"])


async def sql(servers: Servers) -> None:
    """Consume by a condition on properties."""
    topic = await servers.topic()
    async with servers.producer() as producer:
        for number in range(6):
            await producer.send(Message(topic, str(number).encode(), properties={"n": str(number)}))
    collected = Collected()
    async with servers.push(topic, collected, "n >= 4", expression_type="SQL92"):
        await collected.are(["4", "5"])


async def broadcasting(servers: Servers) -> None:
    """Let two consumers of a group each consume all messages."""
    topic, group = await servers.topic(), servers.new_name("group")
    first, second = Collected(), Collected()
    async with (
        servers.push(topic, first, group=group, broadcasting=True, offset_dir=servers.home / "one"),
        servers.push(topic, second, group=group, broadcasting=True, offset_dir=servers.home / "two"),
        servers.producer() as producer,
    ):
        for one in messages(topic, texts(20)):
            await producer.send(one)
        await first.are(texts(20))
        await second.are(texts(20))


async def orderly(servers: Servers) -> None:
    """Consume queues in order, a failed message again before the next one."""
    topic = await servers.topic()
    async with servers.producer() as producer:
        for number in range(24):
            await producer.send(Message(topic, str(number).encode(), sharding_key=f"s{number % 3}"), to=by_sharding_key)
    came: dict[int, list[int]] = {}
    failed = False

    async def listen(batch: list[ReceivedMessage], context: ConsumeContext) -> ConsumeStatus:
        nonlocal failed
        if not failed:
            failed = True
            return ConsumeStatus.RECONSUME_LATER
        came.setdefault(context.queue.queue_id, []).extend(int(one.body) for one in batch)
        return ConsumeStatus.SUCCESS

    async def all_came() -> bool:
        return sum(map(len, came.values())) >= 24

    async with servers.push(topic, listen, orderly=True, suspend_s=0.1):
        await until(all_came)
    assert all(one == sorted(one) for one in came.values()), came
    assert sorted(itertools.chain(*came.values())) == list(range(24))


async def retry(servers: Servers) -> None:
    """Fail a message once: it comes again by the retry topic, with its topic and id."""
    topic = await servers.topic()
    tries: list[ReceivedMessage] = []

    async def listen(batch: list[ReceivedMessage], context: ConsumeContext) -> ConsumeStatus:
        tries.extend(batch)
        context.delay_level = 1
        return ConsumeStatus.SUCCESS if batch[0].reconsume_times else ConsumeStatus.RECONSUME_LATER

    async def came_again() -> bool:
        return len(tries) >= 2

    async with servers.push(topic, listen), servers.producer() as producer:
        await producer.send(Message(topic, b"again"))
        await until(came_again)
    assert [(one.topic, one.body, one.reconsume_times) for one in tries] == [(topic, b"again", 0), (topic, b"again", 1)]
    assert len({one.message_id for one in tries}) == 1


async def dlq(servers: Servers) -> None:
    """Fail a message for good: it becomes a dead letter."""
    topic = await servers.topic()

    async def listen(batch: list[ReceivedMessage], context: ConsumeContext) -> ConsumeStatus:
        context.delay_level = -1
        return ConsumeStatus.RECONSUME_LATER

    async with servers.push(topic, listen) as group, servers.producer() as producer:
        await producer.send(Message(topic, b"dead", keys=["d"]))
        async with AdminClient(ClientOptions(name_servers=servers.names)) as admin:
            dead = f"%DLQ%{group}"
            await until(lambda: has_route(admin, dead))
            queue = MessageQueue(dead, next(iter(await admin.topic_status(dead))).broker_name, 0)

            async def is_there() -> bool:
                return bool((await admin.pull(queue, 0)).messages)

            await until(is_there)
            (found,) = (await admin.pull(queue, 0)).messages
    assert (found.body, found.keys) == (b"dead", ["d"])


async def lite(servers: Servers) -> None:
    """Subscribe with a pull consumer, poll, commit; another one of the group goes on there."""
    topic, group = await servers.topic(), servers.new_name("group")
    options = PullOptions(name_servers=servers.names, group=group, start=ConsumeFrom.FIRST)
    async with servers.producer() as producer:
        for one in messages(topic, texts(20)):
            await producer.send(one)
        async with PullConsumer(options) as consumer:
            await consumer.subscribe(topic)
            assert sorted(await _polled(consumer, 20)) == sorted(texts(20))
        await producer.send(Message(topic, b"next"))
        async with PullConsumer(options) as consumer:
            await consumer.subscribe(topic)
            assert await _polled(consumer, 1) == ["next"]


async def assign(servers: Servers) -> None:
    """Assign a queue, seek, and seek to a time."""
    topic = await servers.topic(queues=1)
    async with servers.producer() as producer:
        for one in messages(topic, texts(10)):
            await producer.send(one)
    options = PullOptions(name_servers=servers.names, group=servers.new_name("group"), start=ConsumeFrom.FIRST)
    async with PullConsumer(options) as consumer:
        (queue,) = await consumer.queues(topic)
        await consumer.assign([queue])
        assert await _polled(consumer, 10) == texts(10)
        consumer.seek(queue, 7)
        assert await _polled(consumer, 3) == texts(10)[7:]
        await consumer.seek_to_time(queue, 0)
        assert await _polled(consumer, 10) == texts(10)


async def _polled(consumer: PullConsumer, count: int) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        found += [one.body.decode() for one in await consumer.poll()]
    return found


async def rebalance(servers: Servers) -> None:
    """Let two consumers share the queues of a topic; after one has left, the other reads all."""
    topic, group = await servers.topic(), servers.new_name("group")
    first, second = Collected(), Collected()
    async with servers.producer() as producer, servers.push(topic, first, group=group):
        async with servers.push(topic, second, group=group):
            bodies: list[str] = []
            while not first.messages or not second.messages:
                bodies.append(f"s{len(bodies)}")
                await producer.send(Message(topic, bodies[-1].encode()))
                await asyncio.sleep(0.02)

            async def all_came() -> bool:
                return {*first.bodies, *second.bodies} >= set(bodies)

            await until(all_came)
        seen = len(first.messages)
        for one in messages(topic, texts(8, "alone")):
            await producer.send(one)

        async def all_at_first() -> bool:
            return {*first.bodies[seen:]} >= {*texts(8, "alone")}

        await until(all_at_first)


async def query(servers: Servers) -> None:
    """Find messages by key, unique key and id."""
    topic = await servers.topic()
    async with servers.producer() as producer:
        sent = await producer.send(Message(topic, b"found", keys=["k1", "k2"]))
    async with AdminClient(ClientOptions(name_servers=servers.names)) as admin:

        async def is_indexed() -> bool:
            return bool(await admin.query_by_key(topic, "k2"))

        await until(is_indexed)
        by_key = await admin.query_by_key(topic, "k1")
        by_unique_key = await admin.query_by_unique_key(topic, sent.message_id)
        at = await admin.message_at(sent.offset_message_id)
    assert [one.body for one in (*by_key, *by_unique_key, at)] == [b"found"] * 3


async def recall(servers: Servers) -> None:
    """Cancel one of two timer messages before they are due."""
    topic = await servers.topic()
    collected = Collected()
    async with servers.push(topic, collected), servers.producer() as producer:
        sent = [await producer.send(one) for one in messages(topic, ["recalled", "kept"], delay_ms=3_000)]
        handle = sent[0].recall_handle
        assert handle is not None
        assert await producer.recall(topic, handle) == sent[0].message_id
        await collected.are(["kept"])


async def request(servers: Servers) -> None:
    """Send a message whose consumer replies."""
    topic = await servers.topic()

    async with servers.producer() as answering, servers.producer() as producer:

        async def listen(batch: list[ReceivedMessage], context: ConsumeContext) -> None:
            for one in batch:
                await answering.send(reply_to(one, b"re: " + one.body))

        async with servers.push(topic, listen):
            reply = await producer.request(Message(topic, b"question"), timeout_s=60)
    assert reply.body == b"re: question"


async def trace(servers: Servers) -> None:
    """Send and consume with trace: rows with the id and the key are in the trace topic."""
    topic = await servers.topic()
    collected = Collected()
    async with servers.push(TRACE_TOPIC, collected):
        async with servers.producer(trace_topic=TRACE_TOPIC) as producer:
            sent = await producer.send(Message(topic, b"traced", keys=["t1"]))

        async def came() -> bool:
            rows = [row for one in collected.bodies for row in one.split("\x02") if sent.message_id in row]
            return {row.split("\x01")[0] for row in rows} >= {"Pub", "SubBefore", "SubAfter"}

        async with servers.push(topic, Collected(), trace_topic=TRACE_TOPIC):
            await until(came)
    for found in (one for one in collected.messages if sent.message_id in one.body.decode()):
        assert {sent.message_id, "t1"} <= set(found.keys)


async def transaction(servers: Servers) -> None:
    """Commit, roll back, and leave undecided messages to the broker's check."""
    topic = await servers.topic()
    states = {
        "commit": TransactionState.COMMIT,
        "rollback": TransactionState.ROLLBACK,
        "commit-later": TransactionState.UNKNOWN,
        "rollback-later": TransactionState.UNKNOWN,
    }
    committed = {"commit", "commit-later"}
    checked: set[str] = set()

    async def execute(message: Message) -> TransactionState:
        return states[message.body.decode()]

    async def check(message: ReceivedMessage) -> TransactionState:
        checked.add(message.body.decode())
        return TransactionState.COMMIT if message.body.startswith(b"commit") else TransactionState.ROLLBACK

    async def both_checked() -> bool:
        return checked >= {"commit-later", "rollback-later"}

    options = ProducerOptions(name_servers=servers.names, group=servers.new_name("group"), send_timeout_s=20)
    collected = Collected()
    async with servers.push(topic, collected), TransactionProducer(options, check) as producer:
        for one in messages(topic, list(states)):
            await producer.send_in_transaction(one, execute)
        await until(both_checked)

        async def all_came() -> bool:
            return {*collected.bodies} >= committed

        await until(all_came)
        await asyncio.sleep(_QUIET_SECONDS)
        assert {*collected.bodies} == committed
        assert len(collected.bodies) == len(committed) or not servers.commits_once


async def synchronous(servers: Servers) -> None:
    """Use the clients with plain methods: send, consume with a listener, poll with a pull consumer."""
    topic = await servers.topic()
    came: list[str] = []

    def listen(received: list[ReceivedMessage], context: ConsumeContext) -> None:
        came.extend(one.body.decode() for one in received)

    def all_of_it() -> list[str]:
        names, start = servers.names, ConsumeFrom.FIRST
        with plain.Producer(ProducerOptions(name_servers=names, group="python-producers")) as producer:
            for one in messages(topic, texts(8)):
                producer.send(one)
        consumer = plain.PushConsumer(
            PushOptions(name_servers=names, group=f"{topic}-push", consume_from=start), listen
        )
        consumer.subscribe(topic)
        with consumer:
            while len(came) < 8:
                time.sleep(0.05)
        polled: list[str] = []
        with plain.PullConsumer(PullOptions(name_servers=names, group=f"{topic}-pull", start=start)) as puller:
            puller.subscribe(topic)
            while len(polled) < 8:
                polled += [one.body.decode() for one in puller.poll()]
        return polled

    assert sorted(await asyncio.to_thread(all_of_it)) == sorted(came) == texts(8)


async def arrow(servers: Servers) -> None:
    """Pull messages as Arrow columns, also compressed ones."""
    topic = await servers.topic()
    bodies = [*texts(20), "x" * 10_000]
    async with servers.producer() as producer:
        for one in messages(topic, bodies):
            await producer.send(one)
    found: list[bytes] = []
    options = PullOptions(name_servers=servers.names, group=servers.new_name("group"), start=ConsumeFrom.FIRST)
    async with PullConsumer(options) as consumer:
        await consumer.subscribe(topic)
        while len(found) < len(bodies):
            for batch in await pull_arrow(consumer, ["body", "queueOffset"]):
                found += batch.column("body").to_pylist()
    assert sorted(found) == sorted(one.encode() for one in bodies)


async def command_line(servers: Servers) -> None:
    """Send lines, and print them once for a group, by `rocketflow send` and `rocketflow consume`."""
    topic, group = await servers.topic(), servers.new_name("group")
    at = ("-n", servers.names, "--topic", topic)
    await _program("-m", "rocketflow", "send", *at, lines=texts(20))
    for wanted in (texts(20), []):
        printed = await _program("-m", "rocketflow", "consume", *at, "-g", group, "--json")
        assert sorted(json.loads(line)["body"] for line in printed) == sorted(wanted)


async def spark(servers: Servers) -> None:
    """Write, copy and read a topic by Spark."""
    source, target = await servers.topic(), await servers.topic()
    await _program("-m", "tests.apache.spark_family", servers.names, source, target, str(servers.home / "checkpoint"))


async def _program(*arguments: str, lines: Sequence[str] = ()) -> list[str]:
    """Run a Python program with lines as its input; return the lines that it prints, AssertionError if it fails."""
    pipe = asyncio.subprocess.PIPE
    running = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdin=pipe, stdout=pipe, stderr=pipe, env=environment()
    )
    out, errors = await running.communicate("".join(f"{line}\n" for line in lines).encode())
    assert running.returncode == 0, errors.decode()[-2000:]
    return out.decode().splitlines()


FAMILIES: Final[dict[str, Callable[[Servers], Awaitable[None]]]] = {
    "sync": sync,
    "async": asynchronous,
    "oneway": one_way,
    "batch": batch,
    "innerbatch": inner_batch,
    "selector": selector,
    "delay": delay,
    "push": push,
    "tags": tags,
    "broadcasting": broadcasting,
    "orderly": orderly,
    "sql": sql,
    "retry": retry,
    "dlq": dlq,
    "lite": lite,
    "query": query,
    "assign": assign,
    "rebalance": rebalance,
    "timer": timer,
    "recall": recall,
    "request": request,
    "trace": trace,
    "transaction": transaction,
    "plain methods": synchronous,
    "arrow": arrow,
    "command line": command_line,
    "spark": spark,
}
"""The families by the names that the programs of the other clients have for them."""


async def run_family(name: str, servers: Servers) -> str:
    """Run a family; return its line, `ok NAME` or `not ok NAME why`."""
    try:
        async with asyncio.timeout(FAMILY_SECONDS):
            await FAMILIES[name](servers)
    except Exception as error:  # a family may fail in any way; the others go on
        traceback.print_exc()
        return f"not ok {name} {type(error).__name__}: {error}"
    return f"ok {name}"
