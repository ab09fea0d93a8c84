"""Bridges and brokers are killed at any time: every message is copied once, in the order of its partition."""

from __future__ import annotations

import collections
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.errors import KafkaError
from kafka.structs import MemberState

from rocketflow.kafka.bridge import run_bridge
from rocketflow.kafka.into_store.consumer_session import ConsumerSession, Polled
from rocketflow.kafka.into_store.copy_in import KafkaToStore
from rocketflow.kafka.into_store.store_port import read_last_commit
from rocketflow.kafka.shared import run_state
from rocketflow.kafka.shared.run_state import StopRequest
from rocketflow.kafka.shared.topic_record import offsets_alone
from rocketflow_store import StoreReader
from tests.rocketflow.kafka.bridging import Sent, Topics, bridge, bridge_process, finished, options, stored
from tests.support.kafka_broker import KafkaBroker
from tests.support.output_fields import check_fields
from tests.support.trials import FULL, LEVEL, SEED

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(3600 if FULL else 600)]
Name = Callable[[str], str]
KILLS = 25 if FULL else 1
MESSAGES = 1_000_000 if FULL else 3_000 if LEVEL == "sample" else 6_000


def numbered(count: int) -> list[Sent]:
    return [Sent(b"key-%d" % (number % 97), b"%d" % number) for number in range(count)]


def copied(store: str, topic: str) -> dict[int, list[int]]:
    """Return the numbers in the copied bodies by queue, in store order; a body has its message's number."""
    found: dict[int, list[int]] = collections.defaultdict(list)
    with StoreReader(store) as reader:
        for queue in reader.queues(topic):
            low, high = reader.bounds(topic, queue)
            for batch in reader.read(topic, queue, low, high, ["body"]):
                found[queue] += [int(body) for body in batch.column(0).to_pylist()]
    return found


def killed_runs(
    start: Callable[[], subprocess.Popen[str]], progress: Callable[[], object], rng: random.Random, kills: int
) -> int:
    """Start and kill `kills` processes: one in five while it starts, the others at a random time after their first
    commit. Return how many had committed."""
    struck = 0
    for _ in range(kills):
        before, process = progress(), start()
        early = rng.random() < 0.2
        deadline = time.monotonic() + (rng.uniform(0.2, 3.0) if early else 60.0)
        while time.monotonic() < deadline and process.poll() is None and progress() == before:
            time.sleep(0.01)
        struck += progress() != before
        time.sleep(rng.uniform(0.0, 0.5))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    return struck


def test_killed_bridges_neither_lose_nor_duplicate_messages(topics: Topics, store: str, name: Name) -> None:
    source, back = name("k.in-"), name("k.out-")
    topics.create(source, back)
    topics.send(source, numbered(MESSAGES))
    rng = random.Random(SEED)
    # small commits, so that kills hit many of them
    limits = ["--max-batch-bytes", "200000" if FULL else "20000", "--commit-interval-ms", "20", "--lock-timeout-ms"]
    into = ["--topics", source, "--id", source, *limits, "20000", "--kafka-option", "max_partition_fetch_bytes=50000"]
    wait = ["--max-batch-rows", "20000" if FULL else "700"]
    struck = killed_runs(
        lambda: bridge_process("kafka-to-store", topics.address, store, *into),
        lambda: progress_of(store, source),
        rng,
        KILLS,
    )
    code, done, error = finished(
        bridge_process("kafka-to-store", topics.address, store, *into, "--until-caught-up"), 1800 if FULL else 120
    )
    assert code == 0, f"seed {SEED}: {error}"
    check_fields("bridge kafka-to-store", done)
    queues = copied(store, source.replace(".", "|"))
    assert queues == {one: list(range(one, MESSAGES, 2)) for one in (0, 1)}, f"seed {SEED}"
    assert done["progress"] == {source: {"0": MESSAGES // 2, "1": MESSAGES // 2}}

    out = ["--topics", source, "--map", f"{back}={source.replace('.', '|')}", "--id", source, *limits, "20000", *wait]
    struck += killed_runs(
        lambda: bridge_process("store-to-kafka", topics.address, store, *out), lambda: topics.end(back), rng, KILLS
    )
    code, done, error = finished(
        bridge_process("store-to-kafka", topics.address, store, *out, "--until-caught-up"), 1800 if FULL else 120
    )
    assert code == 0, f"seed {SEED}: {error}"
    check_fields("bridge store-to-kafka", done)
    read = topics.read(back)
    got = {partition: [int(one.value or b"-1") for one in rows] for partition, rows in read.items()}
    assert got == {one: list(range(one, MESSAGES, 2)) for one in (0, 1)}, f"seed {SEED}"
    print(f"{2 * KILLS} kills, {struck} of bridges that had committed, {MESSAGES} messages: 0 lost, 0 duplicated")


def progress_of(store: str, bridge_id: str) -> object:
    """Return the progress in the last envelope of a bridge, or None."""
    last = read_last_commit(store, f"kafka-bridge:{bridge_id}")
    return None if last is None else last.progress


@pytest.mark.skipif(LEVEL == "sample", reason="killed bridges are sampled: RF_FAULTS=1 runs it")
def test_killed_broker_neither_loses_nor_duplicates_messages(
    broker: KafkaBroker, topics: Topics, tmp_path: Path, name: Name
) -> None:
    count, source, back = 2400 if FULL else 800, name("t"), name("back")
    topics.create(source, back)
    topics.send(source, numbered(count), batch_size=2000)
    filled, store = str(tmp_path / "filled"), str(tmp_path / "store")
    if FULL:
        bridge("kafka-to-store", topics.address, filled, "--topics", source, "--id", f"{source}-filled")
    slow = ["--topics", source, "--max-batch-rows", "100", "--kafka-option", "reconnect_backoff_max_ms=300"]
    slow += ["--kafka-option", "max_partition_fetch_bytes=2000", "--commit-interval-ms", "5", "--until-caught-up"]
    into = ["--max-batch-bytes", "6000", "--id", f"{source}-in"]
    out = ["--max-batch-bytes", "20000", "--id", f"{source}-out", "--map", f"{back}={source}"]
    running = [bridge_process("kafka-to-store", topics.address, store, *slow, *into)]
    if FULL:
        running.append(bridge_process("store-to-kafka", topics.address, filled, *slow, *out))
    await_first_commit(store, f"{source}-in")
    assert running[0].poll() is None
    broker.kill()
    broker.start()
    topics.connect()
    for process in running:
        code, done, error = finished(process)
        assert code == 0, error
        assert done["caughtUp"], error
    assert copied(store, source) == {one: list(range(one, count, 2)) for one in (0, 1)}
    if not FULL:
        return
    got = {partition: [int(one.value or b"") for one in rows] for partition, rows in topics.read(back).items()}
    assert got == {one: list(range(one, count, 2)) for one in (0, 1)}


def await_first_commit(store: str, bridge_id: str) -> None:
    """Wait for the first commit of a bridge."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if Path(store).exists() and read_last_commit(store, f"kafka-bridge:{bridge_id}") is not None:
            return
        time.sleep(0.02)
    raise AssertionError("no commit")


@pytest.mark.skipif(LEVEL == "sample", reason="a bridge of its own: RF_FAULTS=1 runs it")
def test_sharing_bridges_copy_each_message_once(topics: Topics, store: str, name: Name) -> None:
    source = name("t")
    topics.create(source, partitions=4)
    share = ["--topics", source, "--id", source, "--share", "--kafka-option", "session_timeout_ms=6000"]
    share += ["--max-batch-bytes", "20000", "--commit-interval-ms", "20", "--discover-ms", "300"]
    first = bridge_process("kafka-to-store", topics.address, store, *share)
    total, process = 0, first
    for number, second in enumerate(
        [lambda: bridge_process("kafka-to-store", topics.address, store, *share) for _ in range(2 if FULL else 1)]
    ):
        for partition in range(4):
            topics.send(source, [Sent(b"k", b"%d" % (total + one)) for one in range(400)], partition)
        total += 400
        other = second()
        await_progress(store, source, total // 2 if number else 1, process)
        process.send_signal(signal.SIGKILL if FULL else signal.SIGTERM)
        process.communicate()
        process = other
    for partition in range(4):  # only the last bridge can copy these
        topics.send(source, [Sent(b"k", b"%d" % (total + one)) for one in range(100)], partition)
    total += 100
    await_progress(store, source, total, process)
    asked = time.monotonic()
    process.send_signal(signal.SIGTERM)
    code, done, error = finished(process)
    assert (code, done["stopped"]) == (128 + signal.SIGTERM, "SIGTERM"), error
    assert time.monotonic() - asked < 10
    with StoreReader(store) as reader:
        assert reader.state == "clean"
    assert copied(store, source) == {one: list(range(total)) for one in range(4)}


def test_bridge_that_waits_for_its_group_reports_the_lag(
    topics: Topics, store: str, name: Name, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = name("t")
    topics.create(source)
    topics.send(source, numbered(40))
    monkeypatch.setattr(run_state, "REPORT_S", 0.1)
    asked = options("kafka-to-store", topics.address, store, "--topics", source, "--share", "--until-caught-up")
    member = KafkaConsumer(source, bootstrap_servers=topics.address, group_id=asked.group_id, enable_auto_commit=False,
                           auto_offset_reset="earliest")  # fmt: skip
    assert member.poll(60_000)  # a short poll may lose the assignment: findings/kafka-python-join-outlasts-poll.sh
    stop = StopRequest()
    with ThreadPoolExecutor(1) as pool:  # the other member does not join again: the group assigns nothing
        running = pool.submit(run_bridge, asked, stop)
        try:
            reported = ""
            deadline = time.monotonic() + 60
            while "waiting for the group" not in reported:
                assert not running.done()
                assert time.monotonic() < deadline, reported
                time.sleep(0.05)
                reported += capsys.readouterr().err
            assert "0 messages in 0 commits, 0/s, lag 40 messages, 0 ms, waiting for the group\n" in reported
            assert "lag 0 messages" not in reported
            member.close()
            done = running.result(60)
        finally:
            stop.asked.set()
    assert (done.rows, done.lag_messages, done.caught_up) == (40, 0, True)


def test_join_that_ends_between_two_polls_is_taken_up(topics: Topics, store: str, name: Name) -> None:
    source = name("t")
    topics.create(source)
    asked = options("kafka-to-store", topics.address, store, "--topics", source, "--share", "--discover-ms", "100")
    session = ConsumerSession(asked, StopRequest())
    other = KafkaConsumer(source, bootstrap_servers=topics.address, group_id=asked.group_id, enable_auto_commit=False)
    try:
        session.consumer.subscribe([source], listener=FromBegin(session.consumer))
        await_assignment(session, 2)  # the first member assigns the partitions of the group
        with ThreadPoolExecutor(1) as pool:
            shared = threading.Event()
            joining = pool.submit(poll_until, shared, other)
            try:
                await_assignment(session, 1)
            finally:
                shared.set()
            joining.result(60)
        topics.grow(source, 4)
        deadline = time.monotonic() + 60
        while session.consumer.group_metadata().state != MemberState.REBALANCING:  # the other member does not poll
            assert time.monotonic() < deadline
            session.poll(is_waiting=False)
        other.close()
        time.sleep(2)  # a commit to the store takes its time; meanwhile the group has only this member
        await_assignment(session, 4)
    finally:
        session.close()
        other.close()


def test_partitions_that_a_group_assigns_after_the_bridge_has_looked_are_copied(
    topics: Topics, store: str, name: Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = name("t")
    topics.create(source)
    topics.send(source, numbered(20))
    poll, pause = ConsumerSession.poll, ConsumerSession.pause

    def join_late(self: ConsumerSession, is_full: bool) -> None:
        pause(self, is_full)
        if not self.consumer.assignment():
            self.consumer.poll(1_000)

    def poll_later(self: ConsumerSession, *, is_waiting: bool) -> Polled:
        return poll(self, is_waiting=is_waiting) if self.consumer.assignment() else Polled()

    monkeypatch.setattr(ConsumerSession, "pause", join_late)
    monkeypatch.setattr(ConsumerSession, "poll", poll_later)
    done = bridge("kafka-to-store", topics.address, store, "--topics", source, "--share")
    assert (done.rows, done.caught_up) == (20, True)


class FromBegin(ConsumerRebalanceListener):  # type: ignore[misc]
    """Seeks assigned partitions to offset 0."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def on_partitions_revoked(self, revoked: Any) -> None:
        pass

    def on_partitions_assigned(self, assigned: Any) -> None:
        for partition in assigned:
            self._consumer.seek(partition, 0)


def poll_until(event: threading.Event, member: Any) -> None:
    """Let a member of a group poll until an event: another one may have to join twice, which needs all members."""
    while not event.is_set():
        member.poll(200)


def await_assignment(session: ConsumerSession, partitions: int) -> None:
    """Poll until the group has assigned this number of partitions."""
    deadline = time.monotonic() + 60
    while len(session.consumer.assignment()) != partitions:
        assert time.monotonic() < deadline, session.consumer.assignment()
        session.poll(is_waiting=False)


def test_unknown_positions_do_not_lose_messages(
    topics: Topics, store: str, name: Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, rng = name("t"), random.Random(SEED)
    topics.create(source, partitions=4)
    for partition in range(4):
        topics.send(source, numbered(300), partition, batch_size=2000)

    position = KafkaConsumer.position

    def forgetful(*given: Any, **options: Any) -> Any:
        if rng.random() < 0.8:
            raise KafkaError("not known yet")
        return position(*given, **options)

    monkeypatch.setattr(KafkaConsumer, "position", forgetful)
    asked = options("kafka-to-store", topics.address, store, "--topics", source, "--until-caught-up",
                    "--commit-interval-ms", "1", "--kafka-option", "max_partition_fetch_bytes=3000")  # fmt: skip
    assert KafkaToStore(asked, StopRequest()).run().rows == 1200, f"seed {SEED}"
    assert copied(store, source) == {one: list(range(300)) for one in range(4)}


def await_progress(store: str, topic: str, at_least: int, process: subprocess.Popen[str]) -> None:
    """Wait until every partition's committed offset is `at_least`, while the process keeps running."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        last = read_last_commit(store, f"kafka-bridge:{topic}")
        said = {} if last is None else last.progress.get(topic, {})
        if said and min(said.values()) >= at_least:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError(f"not copied up to {at_least}: {said}")


def test_new_partitions_and_topics_are_found_during_a_run(topics: Topics, store: str, name: Name) -> None:
    base = name("grow")
    topics.create(f"{base}.a", partitions=1)
    topics.send(f"{base}.a", numbered(10), 0)
    stop, found = StopRequest(), []
    asked = options("kafka-to-store", topics.address, store, "--topics-pattern", rf"{base}\..*", "--id", base,
                    "--discover-ms", "100", "--commit-interval-ms", "5")  # fmt: skip

    def run() -> None:
        from rocketflow.kafka.bridge import run_bridge

        found.append(run_bridge(asked, stop))

    thread = threading.Thread(target=run)
    thread.start()
    await_progress_of(store, base, {f"{base}.a": {"0": 10}})
    topics.grow(f"{base}.a", 3)
    topics.create(f"{base}.b", partitions=1)
    topics.send(f"{base}.b", numbered(7), 0)
    topics.send(f"{base}.a", numbered(5), 2)
    await_progress_of(store, base, {f"{base}.a": {"0": 10, "1": 0, "2": 5}, f"{base}.b": {"0": 7}})
    stop.asked.set()
    thread.join(20)
    assert found[0].rows == 22
    assert {queue: len(rows) for queue, rows in stored(store, f"{base}|a").items()} == {0: 10, 2: 5}


def await_progress_of(store: str, bridge_id: str, wanted: dict[str, dict[str, int]]) -> None:
    deadline, said = time.monotonic() + 60, None
    while time.monotonic() < deadline:
        last = read_last_commit(store, f"kafka-bridge:{bridge_id}")
        said = None if last is None else offsets_alone(last.progress)
        if said == wanted:
            return
        time.sleep(0.05)
    raise AssertionError(f"{said}, not {wanted}")
