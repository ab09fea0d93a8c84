"""The queues that a read knows while brokers come and go."""

from __future__ import annotations

from rocketflow.remoting.bodies import BrokerData, QueueData, TopicRouteData
from rocketflow.spark.source.network.queue_table import QueueTable
from rocketflow.spark.source.stream_offset import QueueKey


def route(**brokers: dict[str, str]) -> TopicRouteData:
    return TopicRouteData(
        broker_datas=[BrokerData(broker_name=name, broker_addrs=at) for name, at in brokers.items()],
        queue_datas=[QueueData(broker_name=name, perm=6, read_queue_nums=2, write_queue_nums=2) for name in brokers],
    )


def keys(*brokers: str) -> list[QueueKey]:
    return [QueueKey(name, "t", queue) for name in brokers for queue in (0, 1)]


def test_queues_of_a_broker_that_is_away_stay_and_those_that_it_lost_go() -> None:
    table = QueueTable()
    table.take_route("t", route(a={"0": "h:1"}, b={"0": "h:2"}), ())
    assert table.of_topic("t") == keys("a", "b")
    alone = route(a={"0": "h:1"})
    assert table.lacks("t", alone)
    table.take_route("t", alone, ["a"])
    assert table.of_topic("t") == keys("a", "b")
    assert table.addresses("b", 0) == ["h:2"]
    table.take_route("t", alone, ["a", "b"])
    assert table.of_topic("t") == keys("a")
    table.take_route("t", None, ["a", "b"])
    assert table.of_topic("t") == []


def test_queues_of_a_checkpoint_stay_until_their_broker_is_known() -> None:
    table = QueueTable()
    table.expect([QueueKey("away", "t", 0)])
    table.take_route("t", route(a={"0": "h:1"}), ["a"])
    assert table.of_topic("t") == [*keys("a"), QueueKey("away", "t", 0)]
    assert table.addresses("away", 0) == []


def test_a_master_is_asked_first_unless_it_failed_shortly_before() -> None:
    table = QueueTable()
    table.take_route("t", route(a={"1": "slave:1", "0": "master:1"}), ())
    assert table.addresses("a", 100) == ["master:1", "slave:1"]
    table.failed("master:1", 100)
    assert table.addresses("a", 104) == ["slave:1", "master:1"]
    assert table.addresses("a", 106) == ["master:1", "slave:1"]
    assert table.failures == 1
    assert table.is_slave("a", "slave:1")
    table.take_route("t", route(a={"1": "slave:1"}), ())
    assert table.is_slave("a", "slave:1")
    assert table.master("a") is None
