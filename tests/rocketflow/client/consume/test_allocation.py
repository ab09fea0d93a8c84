"""The six strategies divide queues as RocketMQ's classes do."""

from __future__ import annotations

import pytest

from rocketflow.client.consume.allocation import (
    AllocationError,
    AllocationStrategy,
    Averagely,
    AveragelyByCircle,
    ConsistentHash,
    MachineRoomNearby,
)
from rocketflow.remoting.bodies import MessageQueue
from tests.support.consumer_rules import answer, kept

QUEUES = [MessageQueue("TopicA", f"broker-{name}", k) for name in "ab" for k in range(4)]


def test_kept_answers_of_rocketmq_are_repeated() -> None:
    cases = kept()
    assert len(cases) > 100
    assert [(line, answer(line)) for line, _ in cases] == cases


@pytest.mark.parametrize("strategy", [Averagely(), AveragelyByCircle(), ConsistentHash(3)])
def test_clients_together_hold_every_queue_once(strategy: AllocationStrategy) -> None:
    for count in range(1, 12):
        clients = [f"c{k:02}" for k in range(count)]
        held = [queue for one in clients for queue in strategy.allocate(one, QUEUES, clients)]
        assert sorted(held) == QUEUES


def test_strategies_have_rocketmq_s_names() -> None:
    nearby = MachineRoomNearby(AveragelyByCircle(), lambda queue: queue.broker_name, lambda client: client)
    assert nearby.name == "MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE"


def test_wrong_inputs_are_refused() -> None:
    with pytest.raises(AllocationError, match="virtual_nodes is 0"):
        ConsistentHash(0)
    with pytest.raises(AllocationError, match="broker-a"):
        MachineRoomNearby(Averagely(), lambda queue: "", lambda client: "r").allocate("c", QUEUES, ["c"])
