"""The lite pull consumer against a NameServer and a broker of RocketFlow."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rocketflow.aio.loop import run
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.admin.figures import queue_table
from rocketflow.client.cluster import Cluster
from rocketflow.client.consume.corrections import CorrectionReason, OffsetCorrection
from rocketflow.client.consume.idempotent import Idempotent, SqliteKeys
from rocketflow.client.consume.offset_stores import RemoteOffsetStore
from rocketflow.client.consume.start_positions import ConsumeFrom
from rocketflow.client.consume.subscriptions import SQL92
from rocketflow.client.errors import ClientError, ClientStateError, NoRouteError, RequestRefusedError
from rocketflow.client.pull.consumer import PullConsumer, QueueNotAssignedError
from rocketflow.client.pull.options import PullListener, PullOptions
from rocketflow.client.pull.queue_buffer import Answer
from rocketflow.client.sync import pull_consumer as sync
from rocketflow.remoting.bodies import MessageQueue
from rocketflow_store.spi.messages import ReceivedMessage
from rocketflow_store.spi.table_rows import TopicConfig
from tests.support.client_cluster import ClientCluster, queue_of
from tests.support.pushing import until


def options(servers: ClientCluster, **more: Any) -> PullOptions:
    values = {"group": servers.new_name(), "start": ConsumeFrom.FIRST, "name_servers": servers.names.address}
    return PullOptions(**{**values, "timeout_s": 30, **more})


def bodies(messages: Iterable[ReceivedMessage]) -> list[str]:
    return [one.body.decode() for one in messages]


async def polled(consumer: PullConsumer, count: int) -> list[str]:
    """Poll until `count` messages were returned, and return their bodies in order."""
    found: list[str] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += bodies(await consumer.poll(5))
    return found


async def until_assigned(consumer: PullConsumer, count: int) -> None:
    async with asyncio.timeout(60):
        while len(consumer.assignment()) != count:
            await asyncio.sleep(0.05)


async def stored(servers: ClientCluster, group: str, queue: MessageQueue) -> int | None:
    """Return the offset of a group at the broker."""
    cluster = Cluster(servers.client_options)
    try:
        return await RemoteOffsetStore(cluster, group).stored_offset(queue)
    finally:
        await cluster.close()


def test_subscribed_topic_is_read_and_committed_by_the_end(servers: ClientCluster) -> None:
    async def call() -> None:
        topic, wanted = await servers.new_topic(), options(servers)
        await servers.send(topic, ["a", "b"], 0)
        await servers.send(topic, ["c"], 1)
        async with PullConsumer(wanted) as consumer:
            await consumer.subscribe(topic)
            assert sorted(await polled(consumer, 3)) == ["a", "b", "c"]
            assert consumer.assignment() == [queue_of(topic, 0), queue_of(topic, 1)]
            assert not await consumer.committed(queue_of(topic))
        assert await stored(servers, wanted.group, queue_of(topic)) == 2
        async with PullConsumer(wanted) as consumer:
            await consumer.subscribe(topic)
            await servers.send(topic, ["d"], 0)
            assert await polled(consumer, 1) == ["d"]

    run(call())


def test_messages_of_the_last_poll_are_not_committed_after_an_exception(servers: ClientCluster) -> None:
    async def call() -> None:
        topic, wanted = await servers.new_topic(), options(servers)
        await servers.send(topic, ["a", "b", "c"])

        async def read() -> None:
            async with PullConsumer(wanted) as consumer:
                await consumer.subscribe(topic)
                assert bodies(await consumer.poll(30, max_messages=2)) == ["a", "b"]
                assert bodies(await consumer.poll(30)) == ["c"]
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await read()
        assert await stored(servers, wanted.group, queue_of(topic)) == 2

    run(call())


def test_auto_commit_stores_what_earlier_polls_returned(servers: ClientCluster) -> None:
    async def call() -> None:
        queue, wanted = queue_of(await servers.new_topic()), options(servers, commit_interval_s=0.05)
        await servers.send(queue.topic, ["a", "b"])
        async with PullConsumer(wanted) as consumer:
            await consumer.assign([queue])
            assert bodies(await consumer.poll(30, max_messages=1)) == ["a"]
            assert bodies(await consumer.poll(30, max_messages=1)) == ["b"]
            async with asyncio.timeout(60):
                while await consumer.committed(queue) != 1:
                    await asyncio.sleep(0.02)

    run(call())


def test_manual_commit_stores_positions_or_given_offsets(servers: ClientCluster) -> None:
    async def call() -> None:
        queue, wanted = queue_of(await servers.new_topic()), options(servers, auto_commit=False)
        await servers.send(queue.topic, ["a", "b", "c"])
        async with PullConsumer(wanted) as consumer:
            await consumer.assign([queue])
            await consumer.poll(30, max_messages=2)
            await consumer.commit()
            assert (consumer.position(queue), await consumer.committed(queue)) == (2, 2)
            await consumer.commit({queue: 1})
            assert await consumer.committed(queue) == 1
            await consumer.poll(30)
        assert await stored(servers, wanted.group, queue) == 1

    run(call())


def test_seeks_move_the_position_and_a_commit_may_go_back(servers: ClientCluster) -> None:
    async def call() -> None:
        queue = queue_of(await servers.new_topic())
        await servers.send(queue.topic, ["a", "b"])
        await asyncio.sleep(0.002)
        between_ms = int(time.time() * 1000)
        await asyncio.sleep(0.002)
        await servers.send(queue.topic, ["c"])
        async with PullConsumer(options(servers, auto_commit=False)) as consumer:
            await consumer.assign([queue])
            assert await polled(consumer, 3) == ["a", "b", "c"]
            await consumer.commit()
            await consumer.seek_to_time(queue, between_ms)
            assert await polled(consumer, 1) == ["c"]
            await consumer.seek_to_begin(queue)
            assert bodies(await consumer.poll(30, max_messages=1)) == ["a"]
            await consumer.commit()
            assert await consumer.committed(queue) == 1
            await consumer.seek_to_end(queue)
            assert consumer.position(queue) == 3
            assert await consumer.poll(0) == []
            consumer.seek(queue, 1)
            assert await polled(consumer, 2) == ["b", "c"]

    run(call())


def test_paused_queue_is_not_returned_until_it_is_resumed(servers: ClientCluster) -> None:
    async def call() -> None:
        topic = await servers.new_topic()
        one, two = queue_of(topic, 0), queue_of(topic, 1)
        await servers.send(topic, ["a"], 0)
        await servers.send(topic, ["b"], 1)
        async with PullConsumer(options(servers)) as consumer:
            await consumer.assign([one, two])
            consumer.pause(one)
            assert await polled(consumer, 1) == ["b"]
            assert await consumer.poll(0.2) == []
            consumer.resume(one)
            assert await polled(consumer, 1) == ["a"]

    run(call())


def test_queues_are_shared_among_the_clients_of_a_group_and_move_when_one_ends(servers: ClientCluster) -> None:
    async def call() -> None:
        topic, group = await servers.new_topic(4), servers.new_name()
        changed: list[tuple[int, int]] = []

        class Noted(PullListener):
            def queues_changed(self, added: list[MessageQueue], removed: list[MessageQueue]) -> None:
                changed.append((len(added), len(removed)))

        first = PullConsumer(options(servers, group=group, instance_name="a", listener=Noted()))
        second = PullConsumer(options(servers, group=group, instance_name="b"))
        await first.start()
        await first.subscribe(topic)
        await until_assigned(first, 4)
        await second.start()
        await second.subscribe(topic)
        await until_assigned(first, 2)
        await until_assigned(second, 2)
        assert not set(first.assignment()) & set(second.assignment())
        for k in range(4):
            await servers.send(topic, [f"m{k}"], k)
        found = await polled(first, 2) + await polled(second, 2)
        assert sorted(found) == ["m0", "m1", "m2", "m3"]
        await second.close()
        await until_assigned(first, 4)
        assert await first.poll(0.2) == []
        await first.close()
        assert changed == [(4, 0), (0, 2), (2, 0)]

    run(call())


def test_new_queues_of_a_topic_are_read_after_the_route_has_changed(servers: ClientCluster) -> None:
    async def call() -> None:
        topic = await servers.new_topic(1)
        async with PullConsumer(options(servers, route_refresh_s=0.2)) as consumer:
            await consumer.subscribe(topic)
            await until_assigned(consumer, 1)
            async with AdminClient(servers.client_options) as admin:
                config = TopicConfig(topic_name=topic, read_queue_nums=3, write_queue_nums=3)
                await admin.create_topic(servers.broker.address, config)
            await until_assigned(consumer, 3)

    run(call())


def test_tags_and_sql_select_messages(servers: ClientCluster) -> None:
    async def call() -> None:
        topic = await servers.new_topic()
        for k, tag in enumerate(("red", "green", "blue")):
            await servers.send(topic, [tag], properties={"TAGS": tag, "n": str(k)})
        async with PullConsumer(options(servers)) as consumer:
            await consumer.subscribe(topic, "red || blue")
            assert await polled(consumer, 2) == ["red", "blue"]
            await consumer.subscribe(topic, "n = 1", SQL92)
            assert consumer.position(queue_of(topic)) == 3
            consumer.seek(queue_of(topic), 0)
            assert await polled(consumer, 1) == ["green"]
            await consumer.unsubscribe(topic)
            assert consumer.assignment() == []

    run(call())


def test_assigned_queues_are_replaced_and_those_that_stay_keep_their_positions(servers: ClientCluster) -> None:
    async def call() -> None:
        topic = await servers.new_topic(3)
        for k in range(3):
            for tag in ("red", "green"):
                await servers.send(topic, [f"{tag}{k}"], k, {"TAGS": tag})
        async with PullConsumer(options(servers)) as consumer:
            await consumer.assign([queue_of(topic, 0), queue_of(topic, 1)])
            consumer.pause(queue_of(topic, 1))
            assert bodies(await consumer.poll(30, max_messages=1)) == ["red0"]
            await consumer.assign([queue_of(topic, 0), queue_of(topic, 2)], "green")
            assert consumer.assignment() == [queue_of(topic, 0), queue_of(topic, 2)]
            assert consumer.position(queue_of(topic, 0)) == 1
            assert sorted(await polled(consumer, 2)) == ["green0", "green2"]
            await consumer.assign([])
            assert consumer.assignment() == []

    run(call())


def test_trimmed_position_is_reported_and_corrected(servers: ClientCluster) -> None:
    async def call() -> None:
        queue, found = queue_of(await servers.new_topic()), []
        await servers.send(queue.topic, ["a", "b"])

        class Noted(PullListener):
            def offset_corrected(self, correction: OffsetCorrection) -> None:
                found.append(correction)
                raise ZeroDivisionError  # a listener that fails does no harm

        async with PullConsumer(options(servers, listener=Noted())) as consumer:
            await consumer.assign([queue])
            consumer.seek(queue, 99)
            async with asyncio.timeout(60):
                while not found:
                    await asyncio.sleep(0.02)
            assert found == [OffsetCorrection(queue, 99, 2, 0, 2)]
            await servers.send(queue.topic, ["c"])
            assert await polled(consumer, 1) == ["c"]

    run(call())


def test_reset_by_an_operator_moves_the_consumer_and_its_commits(servers: ClientCluster) -> None:
    async def call() -> None:
        queue, reset = queue_of(await servers.new_topic()), asyncio.Event()
        await servers.send(queue.topic, ["a", "b", "c"])

        class Noted(PullListener):
            def offset_corrected(self, correction: OffsetCorrection) -> None:
                assert correction == OffsetCorrection(queue, 3, 0, 0, 3, CorrectionReason.RESET)
                reset.set()

        wanted = options(servers, suspend_s=1, commit_interval_s=0.05, listener=Noted())
        async with PullConsumer(wanted) as consumer:
            await consumer.assign([queue])
            assert await polled(consumer, 3) == ["a", "b", "c"]
            await consumer.commit()
            async with AdminClient(servers.client_options) as admin:
                await admin.reset_offset_by_time(wanted.group, queue.topic, 0)
            await asyncio.wait_for(reset.wait(), 60)
            await asyncio.sleep(0.3)  # some commits
            assert await consumer.committed(queue) == 0
            assert await polled(consumer, 3) == ["a", "b", "c"]

    run(call())


@pytest.mark.parametrize("restart", [False, True])
def test_topic_that_was_created_again_is_reported_and_read_as_the_option_says(
    servers: ClientCluster, restart: bool
) -> None:
    async def call() -> None:
        queue, found = queue_of(await servers.new_topic()), []
        await servers.send(queue.topic, ["a", "b", "c"])

        class Noted(PullListener):
            def offset_corrected(self, correction: OffsetCorrection) -> None:
                found.append(correction)

        async with PullConsumer(options(servers, listener=Noted(), restart_recreated=restart)) as consumer:
            await consumer.assign([queue])
            assert await polled(consumer, 3) == ["a", "b", "c"]
            async with servers.admin() as admin:
                await admin.delete_topic_at(servers.broker.address, queue.topic)
            with pytest.raises(RequestRefusedError, match="not exist, apply first"):
                await consumer.poll(30)
            await servers.create_topic(queue.topic, 2)
            await servers.send(queue.topic, ["d", "e", "f"])
            async with asyncio.timeout(60):
                while not found:
                    await asyncio.sleep(0.02)
            asked = 0 if restart else 3
            assert found == [OffsetCorrection(queue, 3, asked, 0, 3, CorrectionReason.RECREATED)]
            assert consumer.recreated == 1
            await servers.send(queue.topic, ["g"])
            assert await polled(consumer, 4 - asked) == ["d", "e", "f", "g"][asked:]

    run(call())


def test_prefetch_stops_at_its_limits(servers: ClientCluster) -> None:
    async def call() -> None:
        queue = queue_of(await servers.new_topic())
        for _ in range(6):
            await servers.send(queue.topic, ["x" * 100] * 10)
        for more in ({"prefetch_messages": 15}, {"prefetch_bytes": 3000}):
            async with PullConsumer(options(servers, pull_batch=10, **more)) as consumer:
                await consumer.assign([queue])
                await consumer.poll(30, max_messages=1)
                await asyncio.sleep(0.3)
                before = consumer.waiting_bytes
                await asyncio.sleep(0.3)
                assert 0 < consumer.waiting_bytes == before < 7000
                assert len(await polled(consumer, 59)) == 59

    run(call())


def test_error_of_a_decoder_is_raised_after_what_was_decoded_and_the_position_stays(servers: ClientCluster) -> None:
    async def call() -> None:
        queue = queue_of(await servers.new_topic())
        for name in "abc":
            await servers.send(queue.topic, [name])

        def decode(answer: Answer) -> tuple[int, int]:
            if answer.from_offset == 1 and not is_fine:
                raise ZeroDivisionError
            return answer.from_offset, answer.to_offset

        async with PullConsumer(options(servers, pull_batch=1, auto_commit=False)) as consumer:
            is_fine = False
            await consumer.assign([queue])
            assert await consumer.poll_answers(decode, 30, max_bytes=1) == [(0, 1)]
            for _ in range(2):
                with pytest.raises(ZeroDivisionError):
                    await consumer.poll_answers(decode, 30, max_bytes=1)
            assert consumer.position(queue) == 1
            is_fine = True
            assert await consumer.poll_answers(decode, 30, max_bytes=1) == [(1, 2)]

    run(call())


def test_refusals_of_pulls_are_raised_by_poll(servers: ClientCluster) -> None:
    async def call() -> None:
        topic = await servers.new_topic()
        async with PullConsumer(options(servers)) as consumer:
            await consumer.assign([queue_of(topic, 7)])
            with pytest.raises(RequestRefusedError, match="PULL_MESSAGE"):
                await consumer.poll(30)

    run(call())


def test_wrong_calls_have_errors_that_say_what_to_do(servers: ClientCluster) -> None:
    async def call() -> None:
        topic = await servers.new_topic()
        async with PullConsumer(options(servers)) as consumer:
            with pytest.raises(NoRouteError, match="'nowhere'"):
                await consumer.subscribe("nowhere")
            await consumer.assign([queue_of(topic)])
            with pytest.raises(ClientStateError, match="use one of the two"):
                await consumer.subscribe(topic)
            with pytest.raises(QueueNotAssignedError, match="assignment"):
                consumer.position(queue_of(topic, 1))
            with pytest.raises(ClientError, match="-1"):
                consumer.seek(queue_of(topic), -1)
        with pytest.raises(ClientStateError, match="not started, or closed"):
            await consumer.poll()
        await consumer.close()
        async with PullConsumer(options(servers)) as consumer:
            await consumer.subscribe(topic)
            with pytest.raises(ClientStateError, match="use one of the two"):
                await consumer.assign([queue_of(topic)])
            with pytest.raises(RequestRefusedError, match="CHECK_CLIENT_CONFIG"):
                await consumer.subscribe(topic, "a >", SQL92)

    run(call())


@pytest.mark.parametrize("wrong", [{"group": ""}, {"pull_batch": 0}, {"prefetch_bytes": -1}])
def test_options_that_make_no_sense_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ClientError, match=next(iter(wrong))):
        PullOptions(**{"group": "g", **wrong})


def test_synchronous_consumer_has_the_same_calls(servers: ClientCluster) -> None:
    topic, wanted = run(servers.new_topic()), options(servers)
    queue = queue_of(topic)
    run(servers.send(topic, ["a", "b"]))
    with sync.PullConsumer(wanted) as consumer:
        assert consumer.queues(topic) == [queue, queue_of(topic, 1)]
        consumer.subscribe(topic)
        assert bodies(consumer.poll(30, max_messages=1)) == ["a"]
        consumer.commit()
        assert (consumer.position(queue), consumer.committed(queue)) == (1, 1)
        consumer.seek_to_begin(queue)
        assert bodies(consumer.poll(30)) == ["a", "b"]
        consumer.seek_to_end(queue)
        consumer.seek_to_time(queue, 0)
        consumer.seek(queue, 1)
        consumer.pause(queue)
        assert consumer.poll(0) == []
        consumer.resume(queue)
        assert bodies(consumer.poll(30)) == ["b"]
        assert consumer.assignment() == [queue, queue_of(topic, 1)]
        consumer.unsubscribe(topic)
    not_here = {"abort", "waiting_bytes"}
    public = {name for name in vars(PullConsumer) if not name.startswith("_")}
    assert public - not_here <= set(dir(sync.PullConsumer))


def test_synchronous_consumer_does_not_commit_the_last_poll_after_an_exception(servers: ClientCluster) -> None:
    topic, wanted = run(servers.new_topic()), options(servers)
    run(servers.send(topic, ["a"]))

    def read() -> None:
        with sync.PullConsumer(wanted) as consumer:
            consumer.assign([queue_of(topic)])
            assert bodies(consumer.poll(30)) == ["a"]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        read()
    assert not run(stored(servers, wanted.group, queue_of(topic)))


def test_messages_that_are_delivered_again_are_handled_once(servers: ClientCluster, tmp_path: Path) -> None:
    topic, wanted, handled = run(servers.new_topic()), options(servers), list[str]()
    for name in ("a", "b", "c"):
        run(servers.send(topic, [name], properties={"UNIQ_KEY": f"key-{name}"}))

    def handle(message: ReceivedMessage, connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE IF NOT EXISTS seen (body TEXT)")
        connection.execute("INSERT INTO seen VALUES (?)", (message.body.decode(),))
        handled.append(message.body.decode())
        if len(handled) == 3:
            raise ZeroDivisionError

    def read(keys: SqliteKeys) -> None:
        with sync.PullConsumer(wanted) as consumer:
            consumer.assign([queue_of(topic)])
            listener = Idempotent(handle, keys)
            found = 0
            while found < 3:
                messages = consumer.poll(30)
                listener(messages)
                found += len(messages)

    with SqliteKeys(tmp_path / "user.db", "group") as keys:
        with pytest.raises(ZeroDivisionError):
            read(keys)
        read(keys)
        assert handled == ["a", "b", "c", "c"]
    with sqlite3.connect(tmp_path / "user.db") as connection:
        assert [one for (one,) in connection.execute("SELECT body FROM seen ORDER BY body")] == ["a", "b", "c"]


def test_client_that_subscribes_differently_is_reported(
    servers: ClientCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def call() -> None:
        topic, wanted = await servers.new_topic(), options(servers, heartbeat_s=0.1)
        async with PullConsumer(wanted) as one:
            await one.subscribe(topic, "x")
            async with PullConsumer(wanted) as two:
                await two.subscribe(topic, "y")
                await until(lambda: bool(one.conflicts() or two.conflicts()))
                (found,) = one.conflicts() or two.conflicts()
                assert found.startswith(f"topic {topic}: this client subscribes to '")
            await until(lambda: one.conflicts() == [])
        assert f"group {wanted.group}: all clients of a group have to subscribe alike: topic {topic}" in caplog.text

    run(call())


def test_clients_whose_callers_share_out_topics_are_in_no_conflict(servers: ClientCluster) -> None:
    async def call() -> None:
        topics, wanted = [await servers.new_topic() for _ in range(2)], options(servers, heartbeat_s=0.05)
        async with PullConsumer(wanted) as one, PullConsumer(wanted) as two:
            await one.assign([queue_of(topics[0])])
            await two.assign([queue_of(topics[1])])
            await asyncio.sleep(0.3)
            assert one.conflicts() == two.conflicts() == []

    run(call())


def test_consumer_reports_what_it_reads(servers: ClientCluster) -> None:
    async def call() -> None:
        topic, wanted = await servers.new_topic(), options(servers)
        await servers.send(topic, ["a", "b", "c"], 0)
        async with PullConsumer(wanted) as consumer, servers.admin() as admin:
            await consumer.subscribe(topic)
            assert await polled(consumer, 3) == ["a", "b", "c"]
            await consumer.commit()
            (member,) = (await admin.consumer_connection(wanted.group)).connection_set
            info = await admin.running_info(wanted.group, member.client_id)
            stacks = (await admin.running_info(wanted.group, member.client_id, stacks=True))["jstack"]
        assert info["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
        assert info["properties"]["consumerGroup"] == wanted.group
        assert [(one["topic"], one["subString"]) for one in info["subscriptionSet"]] == [(topic, "*")]
        queues = queue_table(info, "mqTable", dict)
        assert [(one, queues[one]["commitOffset"], queues[one]["cachedMsgCount"]) for one in queues] == [
            (queue_of(topic, 0), 3, 0),
            (queue_of(topic, 1), 0, 0),
        ]
        assert "jstack" not in info
        assert "thread " in stacks

    run(call())
