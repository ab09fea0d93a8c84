"""The turns of a topic's queues."""

from __future__ import annotations

from collections import Counter

from rocketflow.client.produce.faults import BrokerFaults
from rocketflow.client.produce.topic_queues import TopicQueues
from rocketflow.remoting.bodies import BrokerData, QueueData, TopicRouteData


def topic_queues(*brokers: str, count: int = 3) -> TopicQueues:
    route = TopicRouteData(
        broker_datas=[BrokerData(broker_name=one, broker_addrs={"0": f"{one}:1", "1": f"{one}:2"}) for one in brokers],
        queue_datas=[QueueData(broker_name=one, perm=6, read_queue_nums=4, write_queue_nums=count) for one in brokers],
    )
    return TopicQueues("t", route)


def test_queues_take_turns() -> None:
    queues = topic_queues("a", "b")
    assert Counter(queues.next() for _ in range(12)) == dict.fromkeys(queues.queues, 2)
    assert queues.address("b") == "b:1"
    assert queues.address("c") is None


def test_the_broker_that_failed_last_is_skipped() -> None:
    queues = topic_queues("a", "b", "c")
    assert {queues.next("b").broker_name for _ in range(30)} == {"a", "c"}


def test_the_only_broker_is_tried_again() -> None:
    assert {topic_queues("a").next("a").broker_name for _ in range(6)} == {"a"}


def test_faults_choose_available_then_reachable_then_any_brokers() -> None:
    queues, faults = topic_queues("a", "b", "c"), BrokerFaults()
    faults.note("a", 600, 0)
    assert {queues.next("", faults, 100).broker_name for _ in range(30)} == {"b", "c"}
    assert {queues.next("b", faults, 100).broker_name for _ in range(30)} == {"c"}
    faults.note("b", 0, 0, failed=True)
    faults.note("c", 0, 0, is_refused=True)
    assert {queues.next("", faults, 100).broker_name for _ in range(30)} == {"a", "b"}
    faults.note("a", 0, 0, is_refused=True)
    faults.note("b", 0, 0, is_refused=True)
    assert {queues.next("", faults, 100).broker_name for _ in range(30)} == {"a", "b", "c"}
