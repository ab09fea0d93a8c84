"""CommitLog files of less than a page, which RocketMQ accepts: messages that fit are kept, others are refused.

RocketMQ 4.9.7, 5.3.3 and 5.5.0 run with files of any size; a message that does not fit is answered PUT_OK and lost.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.commits.batch_commit import SinkBatch, commit_batch
from rocketflow_store.commits.staged_part import batch_directory, stage
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.errors import MessageRejectedError, StoreConfigError
from rocketflow_store.rebuild.rebuild import rebuild_store
from rocketflow_store.records.encoding.encode import BatchEncoder
from tests.support.damage import CONFIG

SMALL = ((1000, {}), (3000, {"direct_io": True}), (3000, {"transient_store_pool_enable": True}))


def config_of(size: int, **settings: object) -> StoreConfig:
    return replace(CONFIG, mapped_file_size_commit_log=size, **settings)  # type: ignore[arg-type]


def bodies(path: Path) -> list[bytes]:
    with StoreReader(path) as reader:
        return sorted(
            body
            for topic, queue_id in reader.snapshot().queues
            for batch in reader.read(topic, queue_id, *reader.bounds(topic, queue_id), ["body"])
            for body in batch["body"].to_pylist()
            if topic in ("t", "rows")
        )


@pytest.mark.parametrize(("size", "settings"), SMALL, ids=str)
def test_store_with_small_log_files_keeps_every_message(tmp_path: Path, size: int, settings: dict[str, object]) -> None:
    path, rng, wanted = tmp_path / "s", random.Random(size), []
    for _ in range(2):
        with MessageStore.open(path, config_of(size, **settings)) as store:
            store.create_topic("rows", 2)
            for number in range(20):
                wanted.append(b"%d" % number * rng.randrange(1, 60))
                assert store.put_message(Message("t", wanted[-1], tags="a", keys=[f"k{number}"])).stored
            rows = [b"r%d" % number * rng.randrange(1, 40) for number in range(50)]
            store.append_batch(pa.RecordBatch.from_pydict({"body": rows}), "rows")
            encoder = BatchEncoder(store.config, store.queue_count, default_topic="rows", row_hashes=True)
            part = stage(
                encoder.encode(pa.RecordBatch.from_pydict({"body": rows}), 1),
                batch_directory(store.paths.staging, "sink", len(wanted)),
                "p0",
            )
            commit_batch(store, SinkBatch("sink", "query", len(wanted), "run", 1, [part]))
            wanted += rows * 2
            store.flush()
            shutil.rmtree(tmp_path / "killed", ignore_errors=True)
            shutil.copytree(path, tmp_path / "killed")
    assert {one.stat().st_size for one in (path / "commitlog").iterdir()} == {size}
    with MessageStore.open(tmp_path / "killed") as store:
        assert store.recovery.abort_found
    for room in ("consumequeue", "index"):
        shutil.rmtree(path / room)
    assert rebuild_store(path).swapped
    for one in (path, tmp_path / "killed"):
        assert bodies(one) == sorted(wanted)
        assert verify_store(one).findings == []


@pytest.mark.parametrize("size", [300, 4096, 1 << 20])
def test_record_larger_than_a_file_is_refused_by_name_before_anything_is_written(tmp_path: Path, size: int) -> None:
    with MessageStore.open(tmp_path / "s", config_of(size)) as store:
        store.create_topic("rows", 2)
        end = store.max_phy_offset
        assert store.put_message(Message("t", bytes(size))).status.name == "MESSAGE_ILLEGAL"
        rows = pa.RecordBatch.from_pydict({"body": [b"fits", bytes(size)]})
        encoder = BatchEncoder(store.config, store.queue_count, default_topic="rows")
        for refuse in (lambda: store.append_batch(rows, "rows"), lambda: encoder.validate(rows)):
            with pytest.raises(MessageRejectedError, match=r"row 1: .*mappedFileSizeCommitLog") as caught:
                refuse()
            assert caught.value.row == 1
        large = replace(store.config, mapped_file_size_commit_log=1 << 22)  # as an executor with other settings
        part = stage(
            BatchEncoder(large, store.queue_count, default_topic="rows", row_hashes=True).encode(rows, 1),
            batch_directory(store.paths.staging, "sink", 0),
            "p0",
        )
        with pytest.raises(MessageRejectedError, match="mappedFileSizeCommitLog"):
            commit_batch(store, SinkBatch("sink", "query", 0, "run", 1, [part]))
        assert store.max_phy_offset == end
        assert store.put_message(Message("t", b"on")).stored
    assert verify_store(tmp_path / "s").findings == []


def test_size_in_which_no_record_fits_is_refused() -> None:
    for size in (0, -1, 90):
        with pytest.raises(StoreConfigError, match="mappedFileSizeCommitLog"):
            StoreConfig.from_mapping({"mappedFileSizeCommitLog": size})
