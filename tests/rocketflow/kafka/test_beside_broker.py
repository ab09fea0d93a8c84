"""Bridges into a store that a broker of RocketFlow serves: every message is copied once, through the broker."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow.kafka.into_store.store_port import read_last_commit
from rocketflow_store import StoreLockedError
from tests.rocketflow.kafka.bridging import Sent, Topics, bridge, bridge_process, finished, stored
from tests.support.lost_answers import answers_lost
from tests.support.ports import free_port
from tests.support.servers import running_broker, store_of
from tests.support.trials import FULL, LEVEL, SEED

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(3600 if FULL else 300)]
Name = Callable[[str], str]
MESSAGES = 200_000 if FULL else 3_000
KILLS = 20 if FULL else 2


def numbered(first: int, end: int) -> list[Sent]:
    return [Sent(b"k", b"%d" % number) for number in range(first, end)]


def copied(store: Path, topic: str) -> dict[int, list[int]]:
    return {queue: [int(body) for body, _ in rows] for queue, rows in stored(str(store), topic).items()}


def test_bridge_commits_through_the_broker(topics: Topics, tmp_path: Path, name: Name) -> None:
    source = name("served")
    topics.create(source, **{"max.message.bytes": str(8 << 20)})
    topics.send(source, numbered(0, 100))
    asked = ["--topics", source, "--id", source]
    with running_broker(tmp_path) as broker:
        store = store_of(broker)
        done = bridge("kafka-to-store", topics.address, str(store), *asked)
        assert (done.rows, done.progress) == (100, {source: {"0": 50, "1": 50}})
        topics.grow(source, 3)
        topics.send(source, numbered(100, 110), partition=2)
        topics.send(source, [Sent(b"k", b"B" * (5 << 20))], partition=1, max_request_size=8 << 20)
        with answers_lost(broker, 1, passed=1) as proxy:  # the last commit is known, the new one is not
            again = bridge("kafka-to-store", topics.address, str(store), *asked, "--on-refused", "quarantine")
        assert proxy.losses == 0
        assert again.progress == {source: {"0": 50, "1": 51, "2": 10}}
        assert (again.rows, again.quarantined) == (10, 1)
        assert copied(store, source) == {0: [*range(0, 100, 2)], 1: [*range(1, 100, 2)], 2: [*range(100, 110)]}
        table = json.loads((store / "config/topics.json").read_text())["topicConfigTable"]
        assert table[source]["writeQueueNums"] == 3
        assert len(stored(str(store), "KAFKA_QUARANTINE")[0]) == 1
        assert [one for one in (store / "rocketflow/staging").glob("*/*") if one.is_dir()] == []
        with pytest.raises(StoreLockedError, match="stop the broker first") as error:
            bridge("kafka-to-store", topics.address, str(store), *asked, "--hold-store", "--lock-timeout-ms", "0")
        assert error.value.exit_code == 75
        broker.stop_in_order()


@pytest.mark.skipif(LEVEL == "sample", reason="kills of both are sampled apart: RF_FAULTS=1 runs it")
def test_killed_brokers_and_bridges_neither_lose_nor_duplicate_messages(
    topics: Topics, tmp_path: Path, name: Name
) -> None:
    source, rng, port = name("killed"), random.Random(SEED), free_port((-2, 1))
    topics.create(source)
    topics.send(source, numbered(0, MESSAGES))
    asked = ["--topics", source, "--id", source, "--max-batch-rows", "20", "--commit-interval-ms", "20"]
    asked += ["--kafka-option", "max_partition_fetch_bytes=50000", "--lock-timeout-ms", "60000"]
    store = str(tmp_path / "store")
    for number in range(KILLS):
        with running_broker(tmp_path, port=port) as broker:
            process = bridge_process("kafka-to-store", topics.address, store, *asked)
            before, deadline = read_last_commit(store, f"kafka-bridge:{source}"), time.monotonic() + 30
            while read_last_commit(store, f"kafka-bridge:{source}") == before and time.monotonic() < deadline:
                time.sleep(0.02)
            time.sleep(rng.uniform(0, 0.3))
            if number % 2:
                process.send_signal(signal.SIGKILL)
            broker.kill()
            if not number % 2:  # the bridge goes on by itself
                time.sleep(rng.uniform(0, 1))
                assert process.poll() is None, f"seed {SEED}: {process.communicate()[1]}"
                process.send_signal(signal.SIGKILL)
            process.communicate()
    with running_broker(tmp_path, port=port) as broker:
        code, done, error = finished(
            bridge_process("kafka-to-store", topics.address, store, *asked, "--until-caught-up"), 1800 if FULL else 120
        )
        assert code == 0, f"seed {SEED}: {error}"
        broker.stop_in_order()
    assert done["progress"] == {source: {"0": MESSAGES // 2, "1": MESSAGES // 2}}
    assert copied(Path(store), source) == {one: [*range(one, MESSAGES, 2)] for one in (0, 1)}, f"seed {SEED}"
