"""Push consumers at RocketFlow's broker: every feature that a user sees."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.client.consume.allocation import Averagely
from rocketflow.client.consume.corrections import CorrectionReason, OffsetCorrection
from rocketflow.client.consume.membership import now_ms
from rocketflow.client.consume.offset_stores import local_offset_path
from rocketflow.client.errors import ClientStateError, NoNameServerError, RequestRefusedError
from rocketflow.client.push import (
    ConsumeContext,
    ConsumeStatus,
    PushConsumer,
    PushOptions,
    QueueLimits,
)
from rocketflow.remoting.bodies import MessageQueue
from rocketflow_store.spi.messages import ReceivedMessage
from tests.support.ports import free_port
from tests.support.pushing import Noted, committed, consuming, make_topic, operator, options, put, until

Message = ReceivedMessage
LATER = ConsumeStatus.RECONSUME_LATER


def texts(count: int, start: int = 0) -> list[str]:
    return [str(one) for one in range(start, start + count)]


def test_backlog_is_consumed_once_and_the_next_consumer_goes_on_there(names: str) -> None:
    async def consume() -> None:
        await make_topic(names, "backlog")
        await put(names, "backlog", texts(200))
        first, second = Noted(), Noted()
        async with consuming(options(names, "g-backlog", batch=7), first, "backlog"):
            await until(lambda: len(first.messages) >= 200)
        assert first.counts() == Counter(texts(200))
        assert max(first.calls) == 7
        assert sum((await committed(names, "g-backlog", "backlog")).values()) == 200
        await put(names, "backlog", texts(10, 200))
        async with consuming(options(names, "g-backlog"), second, "backlog"):
            await until(lambda: len(second.messages) >= 10)
        assert second.counts() == Counter(texts(10, 200))

    run(consume())


def test_failed_message_comes_again_under_its_topic_and_becomes_a_dead_letter(
    names: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(message: Message, context: ConsumeContext) -> ConsumeStatus | None:
        if message.body == b"1":
            raise ValueError("this one fails")
        return LATER if message.body == b"2" and message.reconsume_times == 0 else None

    async def consume() -> None:
        await make_topic(names, "retried", 1)
        await put(names, "retried", texts(4), queues=1, properties={"TAGS": "x", "own": "kept"})
        noted, dead = Noted(act), Noted()
        made = options(names, "g-retried", max_reconsume=1)
        async with (
            consuming(made, noted, "retried"),
            consuming(options(names, "g-dead"), dead, "%DLQ%g-retried"),
        ):
            await until(lambda: bool(dead.messages))
            await until(lambda: noted.counts()["2"] == 2)
        assert noted.counts() == {"0": 1, "1": 2, "2": 2, "3": 1}
        assert dead.bodies == ["1"]
        again = [one for one in noted.messages if one.reconsume_times]
        assert sorted(one.body for one in again) == [b"1", b"2"]
        for one in again:
            assert (one.topic, one.message_id, one.tags) == ("retried", f"retried-{one.body.decode()}", "x")
            assert one.properties["own"] == "kept"
        assert list((await committed(names, "g-retried", "retried")).values()) == [4]

    with caplog.at_level(logging.WARNING, "rocketflow.client"):
        run(consume())
    assert "the listener raised for 1 messages of retried, broker-a queue 0 (retried-1)" in caplog.text
    assert "this one fails" in caplog.text


def test_listener_can_make_a_message_a_dead_letter_at_once(names: str) -> None:
    async def act(_message: Message, context: ConsumeContext) -> ConsumeStatus:
        context.delay_level = -1
        return LATER

    async def consume() -> None:
        await make_topic(names, "poison", 1)
        await put(names, "poison", ["bad"], queues=1)
        noted, dead = Noted(act), Noted()
        async with (
            consuming(options(names, "g-poison"), noted, "poison"),
            consuming(options(names, "g-poison-dead"), dead, "%DLQ%g-poison"),
        ):
            await until(lambda: dead.bodies == ["bad"])
        assert len(noted.messages) == 1

    run(consume())


def test_strategy_that_raises_is_asked_again(names: str, caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Averagely):
        calls = 0

        def allocate(
            self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
        ) -> list[MessageQueue]:
            self.calls += 1
            if self.calls == 1:
                raise ZeroDivisionError("the user's own")
            return super().allocate(client_id, queues, client_ids)

    async def consume() -> None:
        await make_topic(names, "divided")
        await put(names, "divided", texts(4))
        noted = Noted()
        async with consuming(options(names, "g-divided", strategy=Failing()), noted, "divided"):
            await until(lambda: len(noted.messages) == 4)

    with caplog.at_level(logging.ERROR, "rocketflow.client"):
        run(consume())
    assert "the user's own" in caplog.text


def test_messages_after_the_ack_index_are_retried_and_others_are_not(names: str) -> None:
    async def act(_message: Message, context: ConsumeContext) -> None:
        context.ack_index = 1

    async def consume() -> None:
        await make_topic(names, "acks", 1)
        await put(names, "acks", texts(4), queues=1)
        noted = Noted(act)
        async with consuming(options(names, "g-acks", batch=4, concurrency=1), noted, "acks"):
            await until(lambda: sum(noted.counts().values()) >= 6)
        assert noted.counts() == {"0": 1, "1": 1, "2": 2, "3": 2}

    run(consume())


def test_call_that_takes_too_long_is_cancelled_and_its_message_retried(
    names: str, caplog: pytest.LogCaptureFixture
) -> None:
    cancelled = []

    async def act(message: Message, _context: ConsumeContext) -> None:
        if message.body == b"1" and not message.reconsume_times:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                cancelled.append(message)
                raise

    async def consume() -> None:
        await make_topic(names, "hanging", 1)
        await put(names, "hanging", texts(3), queues=1)
        noted = Noted(act)
        made = options(names, "g-hanging", concurrency=1, consume_timeout_s=0.4)
        async with consuming(made, noted, "hanging"):
            await until(lambda: noted.counts()["1"] == 2)
        assert noted.counts() == {"0": 1, "1": 2, "2": 1}
        assert list((await committed(names, "g-hanging", "hanging")).values()) == [3]

    with caplog.at_level(logging.WARNING, "rocketflow.client"):
        run(consume())
    assert [one.body for one in cancelled] == [b"1"]
    assert "has worked on message hanging-1 for" in caplog.text


def test_orderly_messages_keep_their_order_across_retries_and_dead_letters(names: str) -> None:
    failures: Counter[bytes] = Counter()

    async def act(message: Message, context: ConsumeContext) -> ConsumeStatus | None:
        context.suspend_s = 0.01
        failures[message.body] += 1
        if message.body == b"5" or (message.body == b"6" and failures[message.body] < 3):
            return LATER
        return None

    async def consume() -> None:
        await make_topic(names, "ordered", 2)
        await put(names, "ordered", texts(40), queues=2)
        noted, dead = Noted(act), Noted()
        made = options(names, "g-ordered", orderly=True, max_reconsume=4)
        async with (
            consuming(made, noted, "ordered"),
            consuming(options(names, "g-ordered-dead"), dead, "%DLQ%g-ordered"),
        ):
            await until(lambda: len(set(noted.bodies)) == 40 and bool(dead.messages))
        by_queue: dict[int, list[int]] = defaultdict(list)
        for one in noted.messages:
            by_queue[one.queue_id].append(int(one.body))
        assert by_queue[0] == [0, 2, 4, 6, 6, *range(6, 40, 2)]
        assert by_queue[1] == [1, 3, 5, 5, 5, 5, *range(5, 40, 2)]
        assert dead.bodies == ["5"]
        assert sum((await committed(names, "g-ordered", "ordered")).values()) == 40

    run(consume())


def test_queues_are_shared_and_the_rest_is_taken_over(names: str) -> None:
    async def consume() -> None:
        await make_topic(names, "shared")
        one, two = Noted(), Noted()
        async with consuming(options(names, "g-shared"), one, "shared") as stays:
            async with consuming(options(names, "g-shared"), two, "shared") as leaves:
                await until(lambda: len(leaves.queues()) == 3 or len(leaves.queues()) == 2)
                await until(lambda: _topics(stays) == 2 and _topics(leaves) == 2)
                await put(names, "shared", texts(100))
                await until(lambda: len(one.messages) + len(two.messages) >= 100)
                assert len(one.messages) == len(two.messages) == 50
            await until(lambda: _topics(stays) == 4)
            await put(names, "shared", texts(100, 100))
            await until(lambda: len(one.messages) + len(two.messages) >= 200)
        assert one.counts() + two.counts() == Counter(texts(200))

    def _topics(consumer: PushConsumer) -> int:
        return sum(queue.topic == "shared" for queue in consumer.queues())

    run(consume())


def test_orderly_queue_that_moves_is_consumed_by_one_client_at_a_time(names: str) -> None:
    running: Counter[int] = Counter()
    order: dict[int, list[int]] = defaultdict(list)

    overlaps: list[Message] = []
    slow: set[int] = set()

    async def act(message: Message, _context: ConsumeContext) -> None:
        running[message.queue_id] += 1
        if running[message.queue_id] > 1:
            overlaps.append(message)
        seconds = 0.01
        if message.queue_id in slow:
            slow.discard(message.queue_id)
            seconds = 2.5  # the queue is assigned to another client meanwhile
        await asyncio.sleep(seconds)
        order[message.queue_id].append(message.queue_offset)
        running[message.queue_id] -= 1

    async def feed(sent: list[int], is_enough: asyncio.Event) -> None:
        while not is_enough.is_set():
            await put(names, "moving", texts(8, 8 * len(sent)))
            sent.append(8)

    async def consume() -> None:
        await make_topic(names, "moving")
        made = options(names, "g-moving", orderly=True)
        one, two, three = Noted(act), Noted(act), Noted(act)
        sent: list[int] = []
        is_enough = asyncio.Event()
        feeding = asyncio.ensure_future(feed(sent, is_enough))
        async with consuming(made, one, "moving"):
            await until(lambda: len(one.messages) >= 10)
            slow.update(range(4))
            await until(lambda: not slow)
            async with consuming(made, two, "moving"):
                await until(lambda: len(two.messages) >= 10)
                async with consuming(made, three, "moving"):
                    await until(lambda: len(three.messages) >= 10)
            is_enough.set()
            await feeding
            await until(lambda: sum(len(found) for found in order.values()) >= sum(sent))
        assert not overlaps
        each = sum(sent) // 4
        # each message once and in order, for its queue moves only after a call has ended and its offset was stored
        assert order == {queue: list(range(each)) for queue in range(4)}

    run(consume())


def test_every_client_of_a_broadcasting_group_gets_all_messages(names: str, tmp_path: Path) -> None:
    async def consume() -> None:
        await make_topic(names, "broadcast")
        await put(names, "broadcast", texts(20))

        def made(instance: str) -> PushOptions:
            return options(names, "g-cast", broadcasting=True, instance_name=instance, offset_dir=tmp_path)

        async def fail(_message: Message, _context: ConsumeContext) -> ConsumeStatus:
            return LATER  # it is not retried

        one, two, again = Noted(), Noted(fail), Noted()
        async with consuming(made("one"), one, "broadcast") as first, consuming(made("two"), two, "broadcast"):
            await until(lambda: len(one.messages) >= 20 and len(two.messages) >= 20)
            assert all(queue.topic == "broadcast" for queue in first.queues())
            client = first.client_id
        assert one.counts() == two.counts() == Counter(texts(20))
        assert (tmp_path / client / "g-cast" / local_offset_path(client, "g-cast").name).exists()
        await put(names, "broadcast", texts(4, 20))
        async with consuming(made("one"), again, "broadcast"):
            await until(lambda: len(again.messages) >= 4)
        assert again.counts() == Counter(texts(4, 20))

    run(consume())


@pytest.mark.parametrize("kind", ["default", "restart", "broadcasting"])
def test_topic_created_again_under_a_consumer_is_an_event_and_is_read_from_its_beginning_by_option(
    names: str, kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic, found = f"again-{kind}", list[OffsetCorrection]()

    async def consume() -> None:
        await make_topic(names, topic, 2)
        await put(names, topic, texts(20), queues=2)
        noted = Noted()
        made = options(
            *(names, f"g-{topic}"), restart_recreated=kind != "default", broadcasting=kind == "broadcasting",
            offset_dir=tmp_path, offset_corrected=found.append,
        )  # fmt: skip
        async with consuming(made, noted, topic) as consumer, operator(names) as client:
            await until(lambda: len(noted.messages) == 20)
            (address,) = await client.masters(topic)
            await client.delete_topic_at(address, topic)
            await make_topic(names, topic, 2)
            await put(names, topic, texts(20, 20), queues=2)  # as many as before: no offset is out of range
            await until(lambda: consumer.recreated == 2)
            await put(names, topic, texts(2, 40), queues=2)
            await until(lambda: len(noted.messages) == (22 if kind == "default" else 42))
        assert noted.counts() == Counter(
            texts(20) + texts(2 if kind == "default" else 22, 40 if kind == "default" else 20)
        )

    run(consume())
    assert [one.reason for one in found] == [CorrectionReason.RECREATED] * 2
    events = [one.getMessage() for one in caplog.records if getattr(one, "rf_code", "") == "RF-RECREATED"]
    assert len(events) == 2
    assert ("set restart_recreated" in events[0]) == (kind == "default")


def test_reset_by_an_operator_is_logged_as_such(names: str, caplog: pytest.LogCaptureFixture) -> None:
    async def consume() -> None:
        await make_topic(names, "reset-named", 1)
        await put(names, "reset-named", texts(4), queues=1)
        noted = Noted()
        async with consuming(options(names, "g-reset-named"), noted, "reset-named"), operator(names) as client:
            await until(lambda: len(noted.messages) == 4)
            await client.reset_offset_by_time("g-reset-named", "reset-named", 0)
            await put(names, "reset-named", ["4"], queues=1)  # ends the pull under way
            await until(lambda: len(noted.messages) == 9)

    run(consume())
    assert "an operator has reset the offset of reset-named, broker-a queue 0 from " in caplog.text
    assert "out of range" not in caplog.text


def test_tags_and_sql_select_messages(names: str) -> None:
    async def consume() -> None:
        await make_topic(names, "selected")
        for number, tag in enumerate(["a", "b", "c"]):
            await put(names, "selected", texts(4, 10 * number), properties={"TAGS": tag, "n": str(number)})
        tags, sql, wrong = Noted(), Noted(), Noted()
        by_tags = PushConsumer(options(names, "g-tags"), tags)
        await by_tags.subscribe("selected", "a || c")
        by_sql = PushConsumer(options(names, "g-sql"), sql)
        await by_sql.subscribe("selected", "n BETWEEN 1 AND 5 AND TAGS <> 'c'", expression_type="SQL92")
        async with by_tags, by_sql:
            await until(lambda: len(tags.messages) >= 8 and len(sql.messages) >= 4)
        assert tags.counts() == Counter(texts(4) + texts(4, 20))
        assert sql.counts() == Counter(texts(4, 10))
        assert sum((await committed(names, "g-tags", "selected")).values()) == 12
        refused = PushConsumer(options(names, "g-wrong"), wrong)
        await refused.subscribe("selected", "n >", expression_type="SQL92")
        with pytest.raises(RequestRefusedError, match="CHECK_CLIENT_CONFIG"):
            await refused.start()

    run(consume())


def test_client_that_subscribes_differently_is_reported(names: str, caplog: pytest.LogCaptureFixture) -> None:
    async def consume() -> None:
        await make_topic(names, "disputed")
        made = options(names, "g-disputed", heartbeat_s=0.1)
        one, two = PushConsumer(made, Noted()), PushConsumer(made, Noted())
        await one.subscribe("disputed", "a")
        await two.subscribe("disputed", "b")
        async with one:
            await asyncio.sleep(0.3)
            assert one.conflicts() == []
            async with two:
                await until(lambda: bool(one.conflicts() or two.conflicts()))
                (found,) = one.conflicts() or two.conflicts()
                assert found.startswith("topic disputed: this client subscribes to '")
            await until(lambda: one.conflicts() == [])

    with caplog.at_level(logging.ERROR, "rocketflow.client"):
        run(consume())
    assert "group g-disputed: all clients of a group have to subscribe alike: topic disputed" in caplog.text


@pytest.mark.parametrize("others", [1, 2])
def test_subscription_counts_after_a_client_with_a_clock_ahead_has_left(
    names: str, others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def consume() -> None:
        topic, group = f"ahead-{others}", f"g-ahead-{others}"
        await make_topic(names, topic)
        made = options(names, group, heartbeat_s=0.1)
        ahead, noted = PushConsumer(made, Noted()), Noted()
        with monkeypatch.context() as patched:
            patched.setattr("rocketflow.client.push.push_consumer.now_ms", lambda: now_ms() + 3_600_000)
            await ahead.subscribe(topic, "old")
        consumers = [PushConsumer(made, noted) for _ in range(others)]
        async with AsyncExitStack() as running:
            await ahead.start()
            for one in consumers:
                await one.subscribe(topic, "new")
                await running.enter_async_context(one)
            await until(lambda: any(one.conflicts() for one in [ahead, *consumers]))
            await ahead.close()
            await until(lambda: not any(one.conflicts() for one in consumers))
            async with operator(names) as client:
                subscriptions = (await client.consumer_connection(group)).subscription_table
            assert subscriptions[topic].sub_string == "new"
            await put(names, topic, texts(20), properties={"TAGS": "new"})
            await put(names, topic, texts(4), properties={"TAGS": "old"})  # ends the pulls that wait for `old`
            await until(lambda: set(noted.bodies) == set(texts(20)))

    run(consume())


def test_subscriptions_change_while_the_consumer_runs(names: str) -> None:
    async def consume() -> None:
        await make_topic(names, "early")
        await make_topic(names, "late")
        await put(names, "early", texts(4))
        await put(names, "late", texts(4, 10))
        noted = Noted()
        async with consuming(options(names, "g-change"), noted, "early") as consumer:
            await until(lambda: len(noted.messages) == 4)
            await consumer.subscribe("late")
            await until(lambda: len(noted.messages) == 8)
            await consumer.unsubscribe("early")
            await until(lambda: not any(queue.topic == "early" for queue in consumer.queues()))
            await put(names, "early", ["unread"])
            await put(names, "late", ["read"])
            await until(lambda: "read" in noted.bodies)
        assert "unread" not in noted.bodies

    run(consume())


def test_close_waits_for_calls_that_run_and_stores_their_offsets(names: str) -> None:
    ended: list[str] = []
    began = asyncio.Event()

    async def act(message: Message, _context: ConsumeContext) -> None:
        began.set()
        await asyncio.sleep(0.3)
        ended.append(message.body.decode())

    async def consume(group: str, *, orderly: bool) -> None:
        ended.clear()
        began.clear()
        noted = Noted(act)
        async with consuming(options(names, group, orderly=orderly, concurrency=1), noted, "drained"):
            await began.wait()
        assert ended == noted.bodies != []
        stored = await committed(names, group, "drained")
        assert sum(stored.values()) == len(ended)
        async with operator(names) as client:
            with pytest.raises(Exception, match="no consumer of group"):
                await client.consumer_connection(group)

    async def both() -> None:
        await make_topic(names, "drained", 1)
        await put(names, "drained", texts(50), queues=1)
        await consume("g-drained", orderly=False)
        await consume("g-drained-orderly", orderly=True)

    run(both())


def test_close_gives_up_on_a_call_that_hangs(names: str, caplog: pytest.LogCaptureFixture) -> None:
    async def act(_message: Message, _context: ConsumeContext) -> None:
        await asyncio.sleep(600)

    async def consume() -> None:
        await make_topic(names, "stuck", 1)
        await put(names, "stuck", texts(1), queues=1)
        for orderly in (False, True):
            noted = Noted(act)
            made = options(names, f"g-stuck-{orderly}", orderly=orderly, drain_s=0.1)
            async with consuming(made, noted, "stuck"):
                await until(lambda found=noted: bool(found.messages))
            assert sum((await committed(names, made.group, "stuck")).values()) == 0

    with caplog.at_level(logging.WARNING, "rocketflow.client"):
        run(consume())
    assert caplog.text.count("1 calls of the listener did not end in 0.1 s") == 2


def test_queue_is_read_no_further_than_its_limits(names: str) -> None:
    let = asyncio.Event()

    async def act(_message: Message, _context: ConsumeContext) -> None:
        await let.wait()

    async def consume() -> None:
        await make_topic(names, "limited", 1)
        await put(names, "limited", texts(200), queues=1)
        noted = Noted(act)
        made = options(names, "g-limited", limits=QueueLimits(messages=50), pull_batch=16, concurrency=3)
        async with consuming(made, noted, "limited") as consumer, operator(names) as client:

            async def cached() -> int:
                info = await client.running_info("g-limited", consumer.client_id)
                return sum(one["cachedMsgCount"] for one in info["mqTable"].values())

            await until(lambda: len(noted.messages) == 3)

            async def is_full() -> bool:
                return await cached() >= 50

            await until(is_full)
            assert await cached() <= 50 + 16
            assert len(noted.messages) == 3
            let.set()
            await until(lambda: len(noted.messages) == 200)
        assert noted.counts() == Counter(texts(200))

    run(consume())


def test_suspended_consumer_reads_nothing(names: str) -> None:
    async def consume() -> None:
        await make_topic(names, "paused", 1)
        noted = Noted()
        async with consuming(options(names, "g-paused"), noted, "paused") as consumer:
            await put(names, "paused", ["before"], queues=1)
            await until(lambda: noted.bodies == ["before"])
            consumer.suspend()
            await put(names, "paused", ["ends the pull under way"], queues=1)
            await until(lambda: len(noted.bodies) == 2)
            await put(names, "paused", ["after"], queues=1)
            await asyncio.sleep(0.2)
            assert len(noted.bodies) == 2
            consumer.resume()
            await until(lambda: noted.bodies[2:] == ["after"])

    run(consume())


def test_topic_that_is_created_later_is_read_then(names: str) -> None:
    async def consume() -> None:
        noted = Noted()
        async with consuming(options(names, "g-unborn"), noted, "unborn"):
            await make_topic(names, "unborn")
            await put(names, "unborn", texts(3))
            await until(lambda: len(noted.messages) == 3)

    run(consume())


def test_name_server_that_is_away_and_a_second_start_are_errors(names: str) -> None:
    async def consume() -> None:
        away = f"127.0.0.1:{free_port()}"
        consumer = PushConsumer(options(away, "g-away"), Noted())
        await consumer.subscribe("any")
        with pytest.raises(NoNameServerError, match=away):
            await consumer.start()
        await consumer.close()
        async with consuming(options(names, "g-twice"), Noted()) as started:
            with pytest.raises(ClientStateError, match="started already"):
                await started.start()

    run(consume())
