"""Row N13 with the Java client: the broker is killed while a transactional producer sends without a pause."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import pytest

from rocketflow_store import StoreReader
from rocketflow_store.fsck.verify import verify_store
from tests.apache.clients import all_ok, jars, java_families, own_broker
from tests.support.checker import Verdict
from tests.support.ports import free_port
from tests.support.results import Tally, measured
from tests.support.servers import RunningServer, no_traceback, running, until
from tests.support.transaction_load import QUICK_CHECKS
from tests.support.trials import LEVEL, seeds

pytestmark = [
    *(pytest.mark.apache, pytest.mark.slow, pytest.mark.timeout(1_800)),
    pytest.mark.skipif(LEVEL == "sample", reason="restarts a broker beside a Java producer: RF_FAULTS=1 runs it"),
]

VERSION: Final = "5.3.3"
TOPIC: Final = "TransactionKills"
COMMITS_A_LIFE: Final = 100
"""A broker commits at least as many messages before it is killed, and at most four times as many."""
WAIT_SECONDS: Final = 120.0


def committed(store: Path) -> Counter[int]:
    """Return how often consumers get each message."""
    found: Counter[int] = Counter()
    with StoreReader(store) as reader:
        for queue in reader.queues(TOPIC) if TOPIC in reader.topics() else []:
            for rows in reader.read(TOPIC, queue, *reader.bounds(TOPIC, queue), columns=["body"]):
                found.update(int(one.removeprefix(b"message ")) for one in rows["body"].to_pylist())
    return found


def kill(broker: RunningServer, store: Path, producer: Future[dict[str, str]], commits: int) -> None:
    """Kill a broker once it has committed some messages more."""
    goal = committed(store).total() + commits
    assert until(lambda: producer.done() or committed(store).total() >= goal, WAIT_SECONDS)
    assert not producer.done(), producer.result()
    broker.process.send_signal(signal.SIGKILL)
    broker.process.wait(30)
    no_traceback(broker)


def test_no_transaction_of_the_java_client_is_lost_or_undone_when_the_broker_is_killed(
    tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    counts = tally("N13", "transactions of the Java client, SIGKILL")
    jars(VERSION)
    port, store, enough = free_port((-2, 1)), tmp_path / "store", tmp_path / "enough"
    kills = seeds(3, 20)

    def broker() -> AbstractContextManager[RunningServer]:
        return own_broker(tmp_path, names.address, *QUICK_CHECKS, "flushConsumerOffsetInterval=500", port=port)

    with (
        running("namesrv", tmp_path, "--set", f"kvConfigPath={tmp_path}/kv.json") as names,
        ThreadPoolExecutor(1) as pool,
    ):
        given = {"until": str(enough)}
        start = lambda: java_families(TOPIC, VERSION, names.address, ["kills"], tmp_path, properties=given)  # noqa: E731
        producer = pool.submit(start)
        try:
            for seed in kills:
                with broker() as killed:
                    kill(killed, store, producer, random.Random(seed).randrange(COMMITS_A_LIFE, 4 * COMMITS_A_LIFE))
            with broker() as last:
                enough.touch()
                said = producer.result()
                last.stop_in_order()
        finally:
            enough.touch()
    found = committed(store)
    verdict = Verdict(
        phantom=sorted(number for number in found if number % 3 == 0),
        findings=[str(one) for one in verify_store(store).findings],
    )
    doubles = sum(times - 1 for times in found.values())
    facts = {"kills": len(kills), "messages": len(found), "doubles": doubles}
    measured("javaTransactionKills", **facts)
    assert said == all_ok(["kills"]), facts
    counts.trial(verdict, f"seeds {kills}: {facts}")
