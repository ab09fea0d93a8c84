"""Row S05: torn at any byte, the last sink commit is complete or absent; the last batch ends at a record."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.commits.batch_commit import SinkBatch, commit_batch, last_commit
from rocketflow_store.commits.staged_part import batch_directory, stage
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.layout.store_meta import gives_record_crc
from rocketflow_store.records.encoding.encode import BatchEncoder
from tests.support.checker import Place, check
from tests.support.results import Tally
from tests.support.trials import FULL, LEVEL, SEED, some
from tests.support.workload import body

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 13, mapped_file_size_consume_queue=400, max_hash_slot_num=50, max_index_num=200
)

PARTS = 4 if FULL else 1
"""The sweep over the bytes of a commit takes most of an hour: test processes share it."""


def log_bytes(store: Path) -> bytes:
    return b"".join(one.read_bytes() for one in sorted((store / "commitlog").iterdir()))


def tear(old: Path, image: Path, log: bytes, *, other_writer: bool) -> None:
    """Write the old store with this log, after an unclean stop of another writer or an orderly one of RocketFlow's."""
    shutil.rmtree(image, ignore_errors=True)
    shutil.copytree(old, image)
    size = CONFIG.mapped_file_size_commit_log
    for base in range(0, len(log), size):
        (image / "commitlog" / f"{base:020d}").write_bytes(log[base : base + size])
    if other_writer:
        (image / "abort").write_text("1")


def commit(path: Path, batch_id: int, rows: int) -> int:
    """Commit a batch of numbered rows; return the begin of its envelope."""
    with MessageStore.open(path, CONFIG) as store:
        config = StoreConfig(enabled_append_prop_crc=gives_record_crc(store.paths))
        encoder = BatchEncoder(config, lambda _: 3, default_topic="out", row_hashes=True)
        batch = pa.RecordBatch.from_pydict({"body": [b"%d/%d" % (batch_id, row) for row in range(rows)]})
        directory = batch_directory(store.paths.staging, "q", batch_id)
        part = stage(encoder.encode(batch, 1), directory, "p0")
        return commit_batch(store, SinkBatch("q", "q", batch_id, "run", 1, [part])).begin_offset


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("other_writer", [False, True])
def test_torn_commit_is_complete_or_absent(
    tmp_path: Path, other_writer: bool, part: int, tally: Callable[..., Tally]
) -> None:
    counts = tally("S05", f"commit, {'foreign' if other_writer else 'own'} writer")
    old, new, image = tmp_path / "old", tmp_path / "new", tmp_path / "image"
    commit(old, 0, 20)
    shutil.copytree(old, new)
    begin = commit(new, 1, 60)
    after = log_bytes(new)
    before = log_bytes(old).ljust(len(after), b"\0")
    with StoreReader(new) as reader:
        end = reader.max_phy_offset
    rng = random.Random(SEED)
    sample = range(begin + part, end, PARTS) if FULL else rng.sample(range(begin, end), some(40))
    outcomes = set()
    for cut in sorted({begin, begin + 1, *range(end, end - 24, -5 if LEVEL == "sample" else -1), *sample}):
        tear(old, image, after[:cut] + before[cut:], other_writer=other_writer)
        with MessageStore.open(image) as store:
            rows = sum(store.max_offset("out", queue) for queue in store.queues("out"))
            last = last_commit(store, "q")
            assert last is not None
            assert rows == (20 if last.batch_id == 0 else 80), (cut, SEED)
            outcomes.add(last.batch_id)
            assert store.put_message(Message("out", b"next", queue_id=0)).stored
        assert verify_store(image).findings == [], (cut, SEED)
        counts.trial(None, f"seed {SEED}, byte {cut - begin}")
    assert outcomes == {0, 1}


def test_torn_batch_ends_at_a_record(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """A batch that was not acknowledged: a prefix of it stays, without holes, and all earlier messages."""
    counts = tally("S05", "batch")
    old, new, image = tmp_path / "old", tmp_path / "new", tmp_path / "image"
    with MessageStore.open(old, CONFIG) as store:
        store.put_messages([Message("t", body(number), queue_id=0) for number in range(20)])
    shutil.copytree(old, new)
    with MessageStore.open(new, CONFIG) as store:
        begin = store.max_phy_offset
        rows = pa.RecordBatch.from_pydict({"body": [body(number) for number in range(20, 50)]})
        store.append_batch(rows.append_column("queueId", pa.array([0] * 30, pa.int32())), "t")
        end = store.max_phy_offset
    after = log_bytes(new)
    before = log_bytes(old).ljust(len(after), b"\0")
    acked: dict[int, Place] = {number: (0, number) for number in range(20)}
    rng = random.Random(SEED)
    lengths = set()
    for cut in range(begin, end) if FULL else sorted({begin, end, *rng.sample(range(begin, end), some(80))}):
        tear(old, image, after[:cut] + before[cut:], other_writer=True)
        with MessageStore.open(image) as store:
            length = store.max_offset("t", 0)
            lengths.add(length)
            assert store.put_message(Message("t", body(50), queue_id=0)).queue_offset == length
        here = {**acked, **{number: (0, number) for number in range(20, length)}, 50: (0, length)}
        counts.trial(check(image, here, set(here)), f"seed {SEED}, byte {cut - begin}")
    assert {20, 49} <= lengths if FULL else len(lengths) > some(80) // 3
