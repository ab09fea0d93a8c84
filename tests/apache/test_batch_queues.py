"""BatchCQ topics: RocketFlow and Apache RocketMQ 5.x read each other's messages and dispatch to equal bytes."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.format.batch_body import BatchEntry, encode_batch_body
from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.config_files import ConfigFiles
from rocketflow_store.model.message import MessageBatch
from rocketflow_store.model.system_flags import INNER_BATCH_FLAG
from rocketflow_store.spi.table_rows import TopicConfig
from tests.apache.judge import VERSIONS_5, ApacheStore, versions
from tests.support.java_programs import compiled
from tests.support.trials import LEVEL

pytestmark = pytest.mark.apache

SIZES = StoreConfig(
    mapped_file_size_commit_log=1 << 15,
    mapped_file_size_consume_queue=2000,
    mapper_file_size_batch_consume_queue=20 * BATCH_UNIT_SIZE,
    max_hash_slot_num=500,
    max_index_num=2000,
)
QUEUES = (("batches", 0), ("batches", 1), ("more", 0))
COUNTS = [3, 1, 40, 2, 7]


class BatchJudge(ApacheStore):
    """Apache's store with BatchCQ topics."""

    def __init__(self, version: str) -> None:
        super().__init__(version)
        self._classes = compiled("BatchJudge", version, self._lib)

    def ask(self, store: Path, config: StoreConfig, lines: list[str]) -> list[list[str]]:
        sizes = (
            config.mapped_file_size_commit_log,
            config.mapped_file_size_consume_queue,
            config.mapper_file_size_batch_consume_queue,
            config.max_hash_slot_num,
            config.max_index_num,
        )
        return self.run("BatchJudge", [str(store), *map(str, sizes), "batches,more"], store.parent, lines)


@pytest.fixture(scope="module", params=versions("5.5.0", of=VERSIONS_5))
def apache(request: pytest.FixtureRequest) -> BatchJudge:
    """Provide the judges; RocketMQ has BatchCQ topics since 5.0."""
    return BatchJudge(request.param)


def batch_body(number: int) -> bytes:
    count = COUNTS[number % len(COUNTS)]
    return encode_batch_body(
        BatchEntry(n, b"%d of %d " % (n, number) * (1 + number % 5), b"KEYS\x01k%d\x02" % n) for n in range(count)
    )


def puts(first: int, stop: int) -> list[str]:
    """Return PUT lines for Apache: batches, and a single message at every tenth place."""
    lines = []
    for number in range(first, stop):
        topic, queue_id = QUEUES[number % 3]
        if number % 10 == 9:
            lines.append(f"ONE\t{topic}\t{queue_id}\t{base64.b64encode(b'one %d' % number).decode()}\tb")
        else:
            body = base64.b64encode(batch_body(number)).decode()
            lines.append(f"BATCH\t{topic}\t{queue_id}\t{body}\t{COUNTS[number % len(COUNTS)]}\ta")
    return lines


def put_rocketflow(store: MessageStore, first: int, stop: int) -> None:
    """Put the messages of `puts` with RocketFlow."""
    for number in range(first, stop):
        topic, queue_id = QUEUES[number % 3]
        if number % 10 == 9:
            result = store.put_message(Message(topic, b"one %d" % number, tags="b", queue_id=queue_id))
        else:
            body = batch_body(number)
            result = store.put_message(MessageBatch(topic, body, {"TAGS": "a"}, queue_id=queue_id))
        assert result.stored, result


def make_topics(path: Path) -> None:
    with MessageStore.open(path, SIZES) as store:
        store.create_topic("batches", 2, queue_type="BatchCQ")
        store.create_topic("more", 2, queue_type="BatchCQ")


def read_rocketflow(path: Path) -> dict[str, list[list[str]]]:
    """Return bounds, units and messages as RocketFlow reads them, in the judge's form."""
    found: dict[str, list[list[str]]] = {"BOUNDS": [], "UNIT": [], "MESSAGE": []}
    with StoreReader(path, SIZES) as reader:
        for topic, queue_id in QUEUES:
            name = [topic, str(queue_id)]
            low, high = reader.bounds(topic, queue_id)
            found["BOUNDS"].append([*name, str(low), str(high)])
            queue = reader.find_batch(topic, queue_id)
            assert queue is not None
            for unit in queue.units(queue.first_unit, queue.end_unit):
                fields = ("msg_base_offset", "phy_offset", "msg_size", "tags_code", "batch_size")
                found["UNIT"].append([*name, *(str(unit[field]) for field in fields)])
            offset = low
            while offset < high:
                got = reader.get_message(topic, queue_id, offset, 1)
                (one,) = got.messages
                properties = "".join(f"{key}\x01{value}\x02" for key, value in one.properties.items())
                found["MESSAGE"].append(
                    [
                        *name,
                        *map(str, (one.queue_offset, one.phy_offset, one.store_size, one.store_timestamp)),
                        *map(str, (one.sys_flag, one.body_crc)),
                        base64.b64encode(one.stored_body).decode(),
                        "\x02".join(sorted(properties.split("\x02"))),
                        str(got.next_begin_offset),
                    ]
                )
                offset = got.next_begin_offset
    return found


def read_apache(apache: BatchJudge, path: Path, lines: list[str] | None = None) -> dict[str, list[list[str]]]:
    """Send `lines` (puts) to Apache; return bounds, units and messages as it reads them."""
    lines = lines or []
    answers = apache.ask(path, SIZES, [*lines, *(f"READ\t{topic}\t{queue_id}" for topic, queue_id in QUEUES)])
    assert [one[1] for one in answers if one[0] == "PUT"] == ["PUT_OK"] * len(lines)
    assert not [one for one in answers if one[0] == "STUCK"], answers
    found: dict[str, list[list[str]]] = {"BOUNDS": [], "UNIT": [], "MESSAGE": []}
    for kind, *fields in answers:
        if kind == "MESSAGE":
            fields[9] = "\x02".join(sorted(base64.b64decode(fields[9]).decode().split("\x02")))
        if kind in found:
            found[kind].append(fields)
    return found


def queue_files(path: Path) -> dict[str, bytes]:
    return {
        str(one.relative_to(path)): one.read_bytes()
        for one in sorted((path / "batchconsumequeue").rglob("*"))
        if one.is_file()
    }


@pytest.mark.skipif(LEVEL == "sample", reason="the other direction is sampled: RF_FAULTS=1 runs it")
def test_rocketflow_reads_and_rebuilds_batch_queues_of_apache(apache: BatchJudge, tmp_path: Path) -> None:
    """Units, bounds and messages are equal; queues recovered from Apache's log equal Apache's byte for byte."""
    path = tmp_path / "s"
    judged = read_apache(apache, path, puts(0, 200))
    expected = read_rocketflow(path)
    assert len(expected["MESSAGE"]) == len(expected["UNIT"]) == 200
    assert sum(int(one[6]) & INNER_BATCH_FLAG != 0 for one in expected["MESSAGE"]) == 180
    assert judged == expected
    assert verify_store(path, SIZES).findings == []
    before = queue_files(path)
    assert len(before) == 12
    shutil.rmtree(path / "batchconsumequeue")
    (path / "abort").touch()
    topics = ConfigFiles(path / "config").topics  # a broker has it, its store alone does not
    for name in ("batches", "more"):
        topics.put(TopicConfig(name, 2, 2, attributes={"queue.type": "BatchCQ"}))
    with MessageStore.open(path, SIZES) as store:
        assert store.recovery.dispatched == 200
        assert queue_files(path) == before
        put_rocketflow(store, 200, 260)
    expected = read_rocketflow(path)
    assert read_apache(apache, path) == expected
    assert len(expected["MESSAGE"]) == 260
    assert verify_store(path, SIZES).findings == []


def test_apache_reads_and_rebuilds_batch_queues_of_rocketflow(apache: BatchJudge, tmp_path: Path) -> None:
    """Apache reads the same, appends after it, and recovers the same queues from RocketFlow's log."""
    path = tmp_path / "s"
    make_topics(path)
    with MessageStore.open(path, SIZES) as store:
        put_rocketflow(store, 0, 200)
    expected, before = read_rocketflow(path), queue_files(path)
    assert read_apache(apache, path) == expected
    assert queue_files(path) == before
    shutil.rmtree(path / "batchconsumequeue")
    (path / "checkpoint").unlink()
    (path / "abort").touch()
    assert read_apache(apache, path) == expected
    assert queue_files(path) == before
    judged = read_apache(apache, path, puts(200, 260))
    expected = read_rocketflow(path)
    assert len(expected["MESSAGE"]) == 260
    assert judged == expected
    with MessageStore.open(path, SIZES) as store:
        assert set(store.recovery.healed) <= {"index"}, "Apache deletes index files after an unclean stop"
        put_rocketflow(store, 260, 270)
    assert verify_store(path, SIZES).findings == []


def test_lost_queue_of_a_rocketmq_store_is_rebuilt(apache: BatchJudge, tmp_path: Path) -> None:
    """No file of RocketFlow lists the queue: recovery finds it from the log alone."""
    original = tmp_path / "s"
    make_topics(original)
    shutil.rmtree(original / "rocketflow")
    apache.ask(original, SIZES, puts(0, 100))
    expected, before = read_rocketflow(original), queue_files(original)
    for stop in ("orderly", "abort"):
        path = tmp_path / stop
        shutil.copytree(original, path)
        shutil.rmtree(path / "batchconsumequeue" / "batches" / "1")
        if stop == "abort":
            (path / "abort").touch()
        with MessageStore.open(path, SIZES):
            pass
        assert queue_files(path) == before, stop
        assert read_rocketflow(path) == expected, stop
