"""Pulls of one queue, their four outcomes, and the headers that ask for them."""

from __future__ import annotations

import asyncio
import time

import pytest

from rocketflow.aio.loop import run
from rocketflow.client.cluster import Cluster
from rocketflow.client.consume.pulls import Puller, PullRequest, PullResult, request_header
from rocketflow.client.consume.start_positions import Bound, ConsumeFrom, StartPositions, bound_of
from rocketflow.client.consume.subscriptions import SQL92, subscription
from rocketflow.client.errors import NoRouteError, RequestRefusedError
from rocketflow.client.pull_status import PullStatus
from rocketflow.remoting.bodies import MessageQueue, SubscriptionData
from tests.support.client_cluster import ClientCluster, queue_of

ALL = subscription("T", version=1)
QUEUE = MessageQueue("T", "b", 3)


def pull_of(
    queue: MessageQueue, offset: int, wanted: SubscriptionData | None = None, suspend_s: float = 0.0
) -> PullRequest:
    return PullRequest(
        queue=queue,
        offset=offset,
        subscription=wanted or subscription(queue.topic, version=1),
        suspend_s=suspend_s,
        with_subscription=True,
    )


async def pulled(servers: ClientCluster, pull: PullRequest) -> PullResult:
    cluster = Cluster(servers.client_options)
    try:
        return await Puller(cluster, servers.new_name()).pull(pull)
    finally:
        await cluster.close()


@pytest.mark.parametrize(
    ("pull", "at_master", "flags"),
    [
        (PullRequest(queue=QUEUE, offset=5, subscription=ALL), True, 2),
        (PullRequest(queue=QUEUE, offset=5, subscription=ALL, commit_offset=4), True, 3),
        (PullRequest(queue=QUEUE, offset=5, subscription=ALL, commit_offset=4), False, 2),
        (PullRequest(queue=QUEUE, offset=5, subscription=ALL, with_subscription=True, suspend_s=0), True, 4),
    ],
)
def test_flags_of_a_pull_say_what_the_broker_shall_do(pull: PullRequest, at_master: bool, flags: int) -> None:
    header = request_header("g", pull, at_master=at_master)
    assert header.sys_flag == flags
    assert (header.queue_id, header.queue_offset, header.suspend_timeout_millis) == (3, 5, int(pull.suspend_s * 1000))
    assert header.subscription == ("*" if flags & 4 else None)


def test_messages_are_decoded_with_the_bounds_of_their_queue(servers: ClientCluster) -> None:
    async def call() -> None:
        queue = queue_of(await servers.new_topic())
        await servers.send(queue.topic, ["a", "b", "c"])
        found = await pulled(servers, pull_of(queue, 1))
        assert (found.status, found.next_offset, found.min_offset, found.max_offset) == (PullStatus.FOUND, 3, 0, 3)
        messages = found.messages()
        assert [(one.body, one.queue_offset, one.broker_name) for one in messages] == [
            (b"b", 1, "broker-a"),
            (b"c", 2, "broker-a"),
        ]
        assert (messages[0].properties["MIN_OFFSET"], messages[0].properties["MAX_OFFSET"]) == ("0", "3")

    run(call())


def test_messages_whose_tag_only_has_the_same_hash_are_skipped(servers: ClientCluster) -> None:
    async def call() -> None:
        queue = queue_of(await servers.new_topic())
        for tag in ("Aa", "BB", "C"):
            await servers.send(queue.topic, [tag], properties={"TAGS": tag})
        found = await pulled(servers, pull_of(queue, 0, subscription(queue.topic, "Aa || C", version=1)))
        assert [one.body for one in found.messages()] == [b"Aa", b"C"]
        assert b"BB" in found.records

    run(call())


def test_sql_is_evaluated_by_the_broker_and_refused_where_it_is_wrong(servers: ClientCluster) -> None:
    async def call() -> None:
        queue = queue_of(await servers.new_topic())
        await servers.send(queue.topic, ["low"], properties={"n": "1"})
        await servers.send(queue.topic, ["high"], properties={"n": "9"})
        wanted = subscription(queue.topic, "n > 5", version=1, expression_type=SQL92)
        assert [one.body for one in (await pulled(servers, pull_of(queue, 0, wanted))).messages()] == [b"high"]
        wrong = subscription(queue.topic, "n >", version=1, expression_type=SQL92)
        with pytest.raises(RequestRefusedError):
            await pulled(servers, pull_of(queue, 0, wrong))

    run(call())


def test_pull_without_a_new_message_waits_for_one(servers: ClientCluster) -> None:
    async def call() -> None:
        queue = queue_of(await servers.new_topic())
        assert (await pulled(servers, pull_of(queue, 0))).status is PullStatus.NO_NEW_MSG
        waiting = asyncio.create_task(pulled(servers, pull_of(queue, 0, suspend_s=20)))
        await servers.send(queue.topic, ["late"])
        assert [one.body for one in (await waiting).messages()] == [b"late"]

    run(call())


def test_offset_outside_the_queue_is_corrected(servers: ClientCluster) -> None:
    async def call() -> None:
        queue = queue_of(await servers.new_topic())
        await servers.send(queue.topic, ["a", "b"])
        found = await pulled(servers, pull_of(queue, 99))
        assert (found.status, found.next_offset, found.messages()) == (PullStatus.OFFSET_ILLEGAL, 2, [])

    run(call())


def test_unknown_topic_and_queue_are_errors(servers: ClientCluster) -> None:
    async def call() -> None:
        with pytest.raises(NoRouteError, match="'nowhere'"):
            await pulled(servers, pull_of(queue_of("nowhere"), 0))
        with pytest.raises(RequestRefusedError, match="PULL_MESSAGE"):
            await pulled(servers, pull_of(queue_of(await servers.new_topic(), 7), 0))

    run(call())


def test_start_of_a_queue_follows_the_start_position(servers: ClientCluster) -> None:
    async def call() -> None:
        queue = queue_of(await servers.new_topic())
        await servers.send(queue.topic, ["a", "b"])
        await asyncio.sleep(0.002)
        between_ms = int(time.time() * 1000)
        await asyncio.sleep(0.002)
        await servers.send(queue.topic, ["c"])
        cluster = Cluster(servers.client_options)
        starts = [
            await StartPositions(cluster, where, between_ms).start_of(queue)
            for where in (ConsumeFrom.FIRST, ConsumeFrom.LAST, ConsumeFrom.TIMESTAMP)
        ]
        assert starts == [0, 3, 2]
        assert await StartPositions(cluster, ConsumeFrom.TIMESTAMP).start_of(queue) == 0
        await cluster.close()

    run(call())


def test_retry_topics_are_read_from_the_start() -> None:
    assert [bound_of("%RETRY%g", one) for one in ConsumeFrom] == [Bound.ZERO, Bound.ZERO, Bound.END]
