"""Row S05: the last sink commit torn at a byte; all of it is there afterwards, or nothing."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.columnar.encode import BatchEncoder
from rocketflow_store.sink_commit import SinkBatch, commit_batch, last_commit
from rocketflow_store.staged_part import batch_directory, stage
from rocketflow_store.verify import verify_store
from tests.reliability.trials import FULL, SEED

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 13, mapped_file_size_consume_queue=400, max_hash_slot_num=50, max_index_num=200
)


def commit(path: Path, batch_id: int, rows: int) -> int:
    """Commit a batch of numbered rows; where its envelope begins."""
    with MessageStore.open(path, CONFIG) as store:
        encoder = BatchEncoder(CONFIG, lambda _: 3, default_topic="out", row_hashes=True)
        batch = pa.RecordBatch.from_pydict({"body": [b"%d/%d" % (batch_id, row) for row in range(rows)]})
        directory = batch_directory(store.paths.staging, "q", batch_id)
        part = stage(encoder.encode(batch, 1, {}), directory, "p0")
        return commit_batch(store, SinkBatch("q", "q", batch_id, "run", 1, [part])).begin_offset


@pytest.mark.parametrize("seen_by", ["our writer", "another writer"])
def test_a_torn_commit_is_there_wholly_or_not_at_all(tmp_path: Path, seen_by: str) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    commit(old, 0, 20)
    shutil.copytree(old, new)
    begin = commit(new, 1, 60)
    before = b"".join(one.read_bytes() for one in sorted((old / "commitlog").iterdir()))
    after = b"".join(one.read_bytes() for one in sorted((new / "commitlog").iterdir()))
    with StoreReader(new) as reader:
        end = reader.max_phy_offset
    before = before.ljust(len(after), b"\0")
    rng = random.Random(SEED)
    sample = range(begin, end) if FULL else rng.sample(range(begin, end), 40)
    cuts = sorted({begin, begin + 1, end - 1, end, *sample})
    outcomes = set()
    for cut in cuts:
        image = tmp_path / "image"
        shutil.rmtree(image, ignore_errors=True)
        shutil.copytree(old, image)
        torn = after[:cut] + before[cut:]
        size = CONFIG.mapped_file_size_commit_log
        for base in range(0, len(torn), size):
            (image / "commitlog" / f"{base:020d}").write_bytes(torn[base : base + size])
        if seen_by == "another writer":
            (image / "abort").write_text("1")
        with MessageStore.open(image) as store:
            rows = sum(store.max_offset("out", queue) for queue in store.queues("out"))
            last = last_commit(store, "q")
            assert last is not None
            assert rows == (20 if last.batch_id == 0 else 80), (cut, SEED)
            outcomes.add(last.batch_id)
            assert store.put_message(Message("out", b"next", queue_id=0)).stored
        assert verify_store(image).findings == [], (cut, SEED)
    assert outcomes == {0, 1}
