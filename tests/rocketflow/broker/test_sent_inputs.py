"""Sends with rules of their own have the outcome that they have at RocketMQ's broker, or one that is explained."""

from __future__ import annotations

from pathlib import Path

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.remoting.command import Command
from rocketflow.remoting.headers.header import Header
from rocketflow_store import StoreReader
from rocketflow_store.fsck.verify import verify_store
from tests.rocketflow.broker.test_client_properties import PATIENT
from tests.rocketflow.broker.test_operator_requests import ASK_SECONDS
from tests.support.sent_inputs import DELIVERED, INPUTS, LEVELS, create_topics, delivered, outcomes, write_topics
from tests.support.servers import running_broker


def test_sends_have_the_outcome_that_they_have_at_rocketmq_or_an_explained_one(tmp_path: Path) -> None:
    """The store has topics that RocketMQ wrote, with attributes that RocketFlow gives no topic."""
    store = tmp_path / "store"
    write_topics(store)

    async def trial() -> None:
        peers = Peers()

        async def ask(code: int, header: Header | None = None, body: bytes = b"") -> Command:
            return await peers.request(broker.address, code, header, body=body, timeout_s=ASK_SECONDS)

        try:
            await create_topics(ask, {})
            assert await delivered(ask, store) == DELIVERED
            found = await outcomes(ask, store)
            wanted = {name: one.own_outcome for name, one in INPUTS.items()}
            assert {name: (found[name], one) for name, one in wanted.items() if found[name] != one} == {}
        finally:
            await peers.close()

    settings = ("timerWheelEnable=true", f"messageDelayLevel={LEVELS}", "brokerClusterName=RF", *PATIENT)
    with running_broker(tmp_path, *settings) as broker:
        run(trial())
        broker.kill()
    reported = broker.log.read_text()
    for name, why in (("compacted", "cleanup.policy=COMPACTION"), ("priority", "=PRIORITY"), ("lite", "=LITE")):
        assert f"topic {name}: attribute" in reported
        assert f"{why} is not supported" in reported
    assert verify_store(store).findings == []
    with StoreReader(store) as reader:
        assert sum(len(reader.get_message("priority", one, 0).messages) for one in range(4)) == 5
