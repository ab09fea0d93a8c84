"""Directories that RocketFlow wrote, opened and appended to by Apache RocketMQ 5.5.0, 5.3.3 and 4.9.7, then read."""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.backup.backup import backup_store
from rocketflow_store.format.batch_body import BatchEntry, encode_batch_body
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.layout.store_paths import StorePaths
from rocketflow_store.metadata.native.confirm import read_confirm
from rocketflow_store.model.message import MessageBatch
from tests.apache.judge import ApacheStore, read_with_rocketflow, versions
from tests.support.trials import LEVEL, ROOT, environment

pytestmark = pytest.mark.apache

SIZES = StoreConfig(
    mapped_file_size_commit_log=1 << 18, mapped_file_size_consume_queue=6000, max_hash_slot_num=500, max_index_num=2000
)


@pytest.fixture
def apache(version: str) -> ApacheStore:
    return ApacheStore(version)


def judged_by(*sample: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("version", versions(*sample))


def fill(path: Path) -> None:
    """Put messages by every write path, over several files."""
    with MessageStore.open(path, replace(SIZES, enable_lmq=True, enable_multi_dispatch=True)) as store:
        for number in range(30):
            entries = [
                BatchEntry(n, b"entry %d" % n, b"KEYS\x01e%d\x02TAGS\x01t\x02" % n)
                for n in range(20 if number % 3 else 90)
            ]
            batch = MessageBatch("batches", encode_batch_body(entries), {"CLUSTER": "c"}, queue_id=number % 2)
            assert store.put_message(batch).stored
            lmq = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"}
            assert store.put_message(Message("lmq", b"lmq %d" % number, tags="x", properties=lmq)).stored
        for number in range(400):
            assert store.put_message(
                Message("orders", b"one %d" % number, tags=f"t{number % 3}", keys=[f"k{number}"], properties={"é": "ü"})
            ).stored
        store.put_messages([Message("single", b"list %d" % n, queue_id=0, keys=["a", f"b{n}"]) for n in range(300)])
        rows = {"body": [b"row %d " % n * (n % 90) for n in range(1500)], "keys": [f"r{n}" for n in range(1500)]}
        store.append_batch(pa.RecordBatch.from_pydict(rows), topic="rows")
        lmqs = [[("INNER_MULTI_DISPATCH", "%LMQ%b,%LMQ%c")] if n % 3 else [] for n in range(60)]
        many = [pa.array([b"many %d" % n for n in range(60)]), pa.array(lmqs, pa.map_(pa.string(), pa.string()))]
        store.append_batch(pa.RecordBatch.from_arrays(many, names=["body", "properties"]), topic="lmq")


def check_and_append(apache: ApacheStore, path: Path, *, lost: int = 0) -> None:
    """Check that Apache reads the same messages and appends, and that RocketFlow reads and appends after it.

    Afterwards `store verify` finds `lost` lost messages and nothing else.
    """
    expected = read_with_rocketflow(path)
    queues = sorted({(topic, queue_id) for topic, queue_id, _ in expected})
    puts = [f"PUT\torders\t{n % 8}\t{base64.b64encode(b'apache %d' % n).decode()}\tat\tak{n}" for n in range(50)]
    lines = [*puts, "KEY\torders\tk7", "KEY\torders\tak49"]
    messages, answers = apache.read_and_put(path, SIZES, queues, lines)
    assert {one.place: one for one in messages} == expected
    assert [one[1] for one in answers if one[0] == "PUT"] == ["PUT_OK"] * 50
    assert len([one for one in answers if one[0] == "MESSAGE"]) == 2
    after = read_with_rocketflow(path)
    assert len(after) == len(expected) + 50
    assert {key: value for key, value in after.items() if key in expected} == expected
    with MessageStore.open(path) as store:
        assert [one.body for one in store.query_message("orders", "ak49")] == [b"apache 49"]
        before = store.max_offset("orders", 0)
        assert store.put_message(Message("orders", b"after apache", queue_id=0)).queue_offset == before
    assert [one.kind for one in verify_store(path).findings] == ["lost-message"] * lost


@judged_by("5.5.0", "4.9.7")
def test_apache_reads_every_write_path(apache: ApacheStore, tmp_path: Path) -> None:
    path = tmp_path / "s"
    fill(path)
    check_and_append(apache, path)


def crash_and_recover(path: Path) -> None:
    """Tear the end of the log, delete the index, and run RocketFlow's recovery."""
    last = sorted((path / "commitlog").iterdir())[-1]
    with StoreReader(path) as reader:
        end = reader.max_phy_offset - int(last.name)
    data = bytearray(last.read_bytes())
    data[end - 30 : end] = bytes(30)
    last.write_bytes(data)
    shutil.rmtree(path / "index")
    (path / "abort").write_text("1")
    with MessageStore.open(path, replace(SIZES)) as store:
        assert store.recovery.abort_found
        assert store.recovery.truncated_to < store.recovery.truncated_from or store.recovery.dispatched


@judged_by("5.3.3")
def test_apache_reads_a_backup_that_was_taken_beside_a_writer(apache: ApacheStore, tmp_path: Path) -> None:
    fill(tmp_path / "s")
    with MessageStore.open(tmp_path / "s", SIZES) as store:
        numbers = iter(range(1000))

        def append(_done: int, _total: int) -> None:
            assert store.put_message(Message("orders", b"later %d" % next(numbers), queue_id=0)).stored

        backup_store(tmp_path / "s", tmp_path / "backup", SIZES, progress=append)
        assert next(numbers) > 1
    check_and_append(apache, tmp_path / "backup")


@judged_by("5.3.3")
def test_apache_reads_a_store_recovered_by_rocketflow(apache: ApacheStore, tmp_path: Path) -> None:
    path = tmp_path / "s"
    fill(path)
    crash_and_recover(path)
    check_and_append(apache, path, lost=1)


@pytest.mark.skipif(LEVEL == "sample", reason="a Spark of its own: RF_FAULTS=1 runs it")
@pytest.mark.spark
@judged_by("5.5.0")
def test_apache_reads_commits_of_the_sink(apache: ApacheStore, tmp_path: Path, spark: object) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, SIZES):
        pass
    rows = spark.range(2000).selectExpr(  # type: ignore[attr-defined]
        "concat('spark ', id) AS body", "string(id) AS keys", "'orders' AS topic", "map('p', string(id)) AS properties"
    )
    rows.write.format("rocketflow").mode("append").option("path", str(path)).save()
    with MessageStore.open(path) as store:
        store.put_message(Message("orders", b"x", keys=["k7"], queue_id=0))
    check_and_append(apache, path)


@judged_by("4.9.7")
def test_confirm_of_a_killed_store_ends_when_apache_opens_it(apache: ApacheStore, tmp_path: Path) -> None:
    """The confirm offset is valid until another writer opens the directory, also if that keeps `abort` (4.9)."""
    path = tmp_path / "s"
    code = (
        "import os\nfrom rocketflow_store import *\n"
        "from tests.apache.test_apache_opens_rocketflow_stores import SIZES\n"
        f"MessageStore.open({str(path)!r}, SIZES).put_message(Message('orders', b'x', queue_id=0)); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment(), check=False)
    assert read_confirm(StorePaths(path)) is not None
    assert len(apache.read_each([path], SIZES, [("orders", 0)])[path] or ()) == 1
    assert read_confirm(StorePaths(path)) is None
