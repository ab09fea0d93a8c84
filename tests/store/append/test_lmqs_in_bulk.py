"""LMQs of bulk appends: they get the same units as with a put of each message."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from rocketflow.spark.requeue.delay_driver import DueRange, stage_range
from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.commits.batch_commit import SinkBatch, commit_batch
from rocketflow_store.commits.staged_part import load, stage
from rocketflow_store.delivery.delay.delivery import deliver_due
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import CorruptRecordError, MessageRejectedError
from rocketflow_store.model.status import PutMessageStatus
from rocketflow_store.records.arrow.chunking import chunks
from rocketflow_store.records.encoding import encode
from rocketflow_store.records.encoding.encode import BatchEncoder
from rocketflow_store.records.encoding.lmq_offsets import DIGITS

NOW = 1_700_000_000_000
CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 15,
    mapped_file_size_consume_queue=400,
    max_hash_slot_num=50,
    max_index_num=400,
    enable_lmq=True,
    enable_multi_dispatch=True,
)
NAMES = ["%LMQ%a", "%LMQ%b", "%LMQ%c", "plain", "%LMQ%../../evil"]
SCHEMA = pa.schema([("body", pa.binary()), ("queueId", pa.int32()), ("properties", pa.map_(pa.string(), pa.string()))])


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Split batches into several chunks, so that each chunk continues the offsets of the one before."""
    monkeypatch.setattr(encode, "chunks", partial(chunks, max_bytes=700))


def messages(seed: int, count: int = 200) -> list[tuple[bytes, dict[str, str]]]:
    rng = random.Random(seed)
    found = []
    for number in range(count):
        named = rng.choices(NAMES, k=rng.choice([0, 0, 1, 2, 3]))
        properties = {"INNER_MULTI_DISPATCH": ",".join(named)} if named else {}
        if rng.random() < 0.3:
            properties |= {"other": "x" * rng.randrange(40), "INNER_MULTI_QUEUE_OFFSET": "7"}
        found.append((b"message %d" % number, properties))
    return found


def rows(found: list[tuple[bytes, dict[str, str]]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([body for body, _ in found], pa.binary()),
            pa.array([0] * len(found), pa.int32()),
            pa.array([list(properties.items()) for _, properties in found], SCHEMA.field(2).type),
        ],
        schema=SCHEMA,
    )


def bodies_by_queue(store: MessageStore | StoreReader) -> dict[tuple[str, int], list[bytes]]:
    """Return the bodies of each (topic, queue id)."""
    found = {}
    for topic in [one for one in store.topics() if not one.startswith("SCHEDULE")]:
        for queue_id in store.queues(topic):
            low, high = store.bounds(topic, queue_id)
            bodies: list[bytes] = []
            while low + len(bodies) < high:
                got = store.get_message(topic, queue_id, low + len(bodies)).messages
                assert got, (topic, queue_id, low + len(bodies), high)
                bodies += [one.body for one in got]
            found[topic, queue_id] = bodies
    return found


def one_by_one(path: Path, seed: int) -> dict[tuple[str, int], list[bytes]]:
    with MessageStore.open(path, CONFIG) as store:
        for body, properties in messages(seed):
            assert store.put_message(Message("t", body, properties=properties, queue_id=0)).stored
        return bodies_by_queue(store)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("crc", [False, True])
def test_batch_gets_the_same_queue_offsets_as_single_puts(tmp_path: Path, seed: int, crc: bool) -> None:
    wanted = one_by_one(tmp_path / "one", seed)
    assert {"%LMQ%a", "%LMQ%b", "%LMQ%c"} < {topic for topic, _ in wanted}
    path, config = tmp_path / "s", replace(CONFIG, enabled_append_prop_crc=crc)
    with MessageStore.open(path, config) as store:
        store.append_batch(rows(messages(seed)[:150]), topic="t")
        store.append_batch(rows(messages(seed)[150:]), topic="t")
        assert bodies_by_queue(store) == wanted
        (sixth,) = store.get_message("%LMQ%a", 0, 5, 1).messages
        assert f"{5:0{DIGITS}d}" in sixth.properties["INNER_MULTI_QUEUE_OFFSET"].split(",")
        assert store.put_message(Message("t", b"next", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})).stored
        (last,) = store.get_message("%LMQ%a", 0, len(wanted["%LMQ%a", 0])).messages
        assert last.body == b"next"
    assert verify_store(path, config).clean
    shutil.rmtree(path / "consumequeue")
    with MessageStore.open(path, config) as store:
        assert {key: bodies for key, bodies in bodies_by_queue(store).items() if key[0] != "t"} == {
            key: bodies + [b"next"] * (key == ("%LMQ%a", 0)) for key, bodies in wanted.items() if key[0] != "t"
        }


@pytest.mark.parametrize("driver", ["store", "spark"])
def test_delayed_messages_reach_their_lmqs_on_delivery(tmp_path: Path, driver: str) -> None:
    clock = ManualClock(NOW)
    config = replace(CONFIG, clock=clock)
    wanted = one_by_one(tmp_path / "one", 5)
    path = tmp_path / "s"
    with MessageStore.open(path, config) as store:
        for body, properties in messages(5):
            message = Message("t", body, properties=properties, queue_id=0, delay_time_level=1)
            assert store.put_message(message).stored
        assert store.topics() == ["SCHEDULE_TOPIC_XXXX"], "an LMQ gets no unit before the delivery"
        clock.set(NOW + 5000)
        if driver == "store":
            assert deliver_due(store).rows == 200
    if driver == "spark":
        task = DueRange(str(path), config, 1, 0, 200, NOW + 5000, str(tmp_path / "staging"))
        parts = stage_range(task).parts
        with MessageStore.open(path, config) as store:
            digested = [replace(part, digest=0) for part in parts]
            commit_batch(store, SinkBatch("sink", "sink", 0, "run", 1, digested))
    with MessageStore.open(path, config) as store:
        found = bodies_by_queue(store)
        assert {key: found.get(key) for key in wanted} == wanted
    assert verify_store(path, config).clean


def test_batch_and_commit_exceeding_lmq_limit_are_refused(tmp_path: Path) -> None:
    config = replace(CONFIG, max_lmq_consume_queue_num=2)
    named = [(b"x", {"INNER_MULTI_DISPATCH": f"%LMQ%{name}"}) for name in "abc"]
    with MessageStore.open(tmp_path / "s", config) as store:
        with pytest.raises(MessageRejectedError, match="maxLmqConsumeQueueNum") as refused:
            store.append_batch(rows(named), topic="t")
        assert refused.value.status is PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
        assert store.topics() == []
        assert store.append_batch(rows(named[:2]), topic="t").rows == 2
        parts = [stage(_encoder(config).encode(rows(named[2:]), NOW), tmp_path / "staging", "p")]
        with pytest.raises(MessageRejectedError, match="maxLmqConsumeQueueNum"):
            commit_batch(store, SinkBatch("sink", "sink", 0, "run", 1, parts))
        assert store.append_batch(rows(named[:1]), topic="t").rows == 1
        assert bodies_by_queue(store) == {("%LMQ%a", 0): [b"x"] * 2, ("%LMQ%b", 0): [b"x"], ("t", 0): [b"x"] * 3}


def test_row_without_room_for_lmq_offsets_is_refused(tmp_path: Path) -> None:
    names = ",".join(f"%LMQ%{number}" for number in range(1300))
    with MessageStore.open(
        tmp_path / "s", replace(CONFIG, max_message_size=1 << 16, mapped_file_size_commit_log=1 << 17)
    ) as store:
        with pytest.raises(MessageRejectedError, match="INNER_MULTI_QUEUE_OFFSET") as refused:
            store.append_batch(rows([(b"fine", {}), (b"x", {"INNER_MULTI_DISPATCH": names})]), topic="t")
        assert (refused.value.status, refused.value.row) == (PutMessageStatus.PROPERTIES_SIZE_EXCEEDED, 1)
        with pytest.raises(MessageRejectedError, match="maxMessageSize"):
            store.append_batch(rows([(b"x" * (1 << 16), {"INNER_MULTI_DISPATCH": "%LMQ%a"})]), topic="t")
        assert store.topics() == []


def test_part_with_out_of_range_lmq_positions_is_corrupt(tmp_path: Path) -> None:
    part = stage(_encoder(CONFIG).encode(rows(messages(1, 20)), NOW), tmp_path, "p")
    assert part.inline is not None
    found = list(load(part, ()))
    assert sum(len(one.lmqs.names) for one in found if one.lmqs is not None) > 5
    for chunk in found:
        assert chunk.lmqs is not None
        wrong = replace(chunk, lmqs=replace(chunk.lmqs, at=chunk.lmqs.at + 10_000))
        if chunk.lmqs.names:
            break
    with pytest.raises(CorruptRecordError, match="LMQ"):
        list(load(stage([wrong], tmp_path, "p"), ()))


def _encoder(config: StoreConfig) -> BatchEncoder:
    return BatchEncoder(config, lambda _: 1, default_topic="t", row_hashes=True)
