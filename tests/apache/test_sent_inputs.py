"""Sends with rules of their own have the outcomes of `sent_inputs` at RocketMQ's brokers, whose store we then serve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.remoting.bodies import decode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.headers.admin import GetTopicConfigRequestHeader
from rocketflow.remoting.headers.header import Header
from rocketflow_store import StoreReader
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.spi.table_rows import TopicConfig
from tests.apache.judge import VERSIONS_5
from tests.apache.test_apache_opens_rocketflow_stores import SIZES
from tests.support.real_broker import RealBroker
from tests.support.request_headers import pull_header, send_header
from tests.support.sent_inputs import (
    DELIVERED,
    INPUTS,
    LEVELS,
    OF_ROCKETMQ,
    PRIORITY,
    Ask,
    create_topics,
    delivered,
    outcomes,
)
from tests.support.servers import running_broker, wait_for_a_broker
from tests.support.trials import LEVEL

pytestmark = [
    pytest.mark.apache,
    pytest.mark.slow,
    pytest.mark.skipif(LEVEL == "sample", reason="starts brokers of RocketMQ: RF_FAULTS=1 runs it"),
]

SETTINGS = f"autoCreateTopicEnable=true\nwaitTimeMillsInSendQueue=20000\nmessageDelayLevel={LEVELS}\n"
SINCE_5_4 = ("priority", "lite")


@pytest.mark.parametrize("version", VERSIONS_5)
def test_sends_have_these_outcomes_at_rocketmq_and_its_topics_are_served_without_loss(
    version: str, tmp_path: Path
) -> None:
    """A store of 5.5.0 has topics with priorities: RocketFlow's broker opens it, and adds to its queues."""
    store = tmp_path / "store"
    known = {name: own for name, own in OF_ROCKETMQ.items() if version >= "5.4" or name not in SINCE_5_4}

    async def at_rocketmq(ask: Ask) -> None:
        await create_topics(ask, known)
        assert await delivered(ask, store) == DELIVERED
        found = await outcomes(ask, store)
        wanted = {name: one.outcome_in(version) for name, one in INPUTS.items()}
        assert {name: (found[name], one) for name, one in wanted.items() if found[name] != one} == {}

    with RealBroker(version, store, SIZES, tmp_path / "work", SETTINGS) as apache:
        wait_for_a_broker(f"127.0.0.1:{apache.names_port}")
        _asked(f"127.0.0.1:{apache.port}", at_rocketmq)
    written = _messages(store)
    assert written["priority"] >= 5
    assert verify_store(store).findings == []

    async def at_rocketflow(ask: Ask) -> None:
        for name, own in known.items():
            answer = await ask(RequestCode.GET_TOPIC_CONFIG, GetTopicConfigRequestHeader(topic=name))
            assert decode_body(answer.body, TopicConfig).attributes == own
        sent = await ask(RequestCode.SEND_MESSAGE, send_header("priority", 1, properties=f"{PRIORITY}\x010\x02"), b"x")
        assert (sent.code, sent.fields["queueId"]) == (ResponseCode.SUCCESS, "1")
        pulled = 0
        for queue_id in range(4):
            answer = await ask(RequestCode.PULL_MESSAGE, pull_header("priority", queue_id))
            pulled += int(answer.fields["nextBeginOffset"]) if answer.code == ResponseCode.SUCCESS else 0
        assert pulled == written["priority"] + 1

    with running_broker(tmp_path, f"brokerName={SIZES.broker_name}", f"messageDelayLevel={LEVELS}") as broker:
        _asked(broker.address, at_rocketflow)
    assert not {name: count for name, count in written.items() if _messages(store)[name] < count}
    assert verify_store(store).findings == []


def _asked(address: str, trial: Callable[[Ask], Awaitable[None]]) -> None:
    async def main() -> None:
        peers = Peers()

        async def ask(code: int, header: Header | None = None, body: bytes = b"") -> Command:
            return await peers.request(address, code, header, body=body, timeout_s=30)

        try:
            await trial(ask)
        finally:
            await peers.close()

    run(main())


def _messages(store: Path) -> Counter[str]:
    """Return the number of messages that the queues of each topic end with."""
    found: Counter[str] = Counter()
    with StoreReader(store) as reader:
        for topic in reader.topics():
            found[topic] = sum(reader.bounds(topic, queue_id)[1] for queue_id in reader.queues(topic))
    return found
