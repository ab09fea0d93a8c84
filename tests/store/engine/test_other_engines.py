"""Stores that RocketMQ keeps in RocksDB or DLedger: refused by name before anything is touched."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.errors import OtherEngineError
from rocketflow_store.rebuild.rebuild import rebuild_store

CONFIG = StoreConfig(
    mapped_file_size_commit_log=65_536, mapped_file_size_consume_queue=2_000, max_hash_slot_num=100, max_index_num=400
)
REFUSED = {
    "consumequeue/CURRENT": "storeType=defaultRocksDB",
    "consumequeue_rocksdb/CURRENT": "useSeparateStorePathForRocksdbCQ",
    "config/topics/CURRENT": "rocksDBConfigToJson",
    "config/subscriptionGroups/CURRENT": "rocksDBConfigToJson",
    "config/consumerOffsets/CURRENT": "rocksDBConfigToJson",
    "config/metadata/CURRENT": "useSingleRocksDBForAllConfigs",
    "config/rdb/CURRENT": "configManagerVersion=v2",
    "dledger-n0/data/00000000000000000000": "enableDLegerCommitLog",
    "kvStore/CURRENT": "popConsumerKVServiceEnable",
}


def store_with(root: Path, *, log: bool = True) -> Path:
    if log:
        with MessageStore.open(root, CONFIG) as store:
            store.put_message(Message("t", b"b", tags="a"))
    return root


def content(root: Path) -> dict[str, tuple[int, bytes]]:
    return {str(one): (one.stat().st_mtime_ns, one.read_bytes()) for one in sorted(root.rglob("*")) if one.is_file()}


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("place", list(REFUSED))
def test_data_of_another_engine_is_refused_by_name(tmp_path: Path, place: str, log: bool) -> None:
    root = store_with(tmp_path / "s", log=log)
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).write_bytes(b"MANIFEST-000004\n")
    before = content(root)
    for use in (StoreReader, MessageStore.open, verify_store, repair_store, rebuild_store):
        with pytest.raises(OtherEngineError, match=REFUSED[place]) as caught:
            use(root, config=CONFIG)  # type: ignore[operator]
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert content(root) == before


@pytest.mark.parametrize("name", ["000012.sst", "000004.log"])
def test_data_in_rocksdbstore_refuses_writers_and_warns_readers(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    root = store_with(tmp_path / "s")
    (root / "rocksdbstore").mkdir()
    (root / "rocksdbstore" / name).write_bytes(b"x")
    before = content(root)
    for use in (MessageStore.open, repair_store, rebuild_store):
        with pytest.raises(OtherEngineError, match="timerRocksDBEnable"):
            use(root, config=CONFIG)  # type: ignore[operator]
    with caplog.at_level(logging.WARNING, "rocketflow_store"), StoreReader(root, CONFIG) as reader:
        assert reader.topics() == ["t"]
    assert sum("rocksdbstore" in one.getMessage() for one in caplog.records) == 1
    assert content(root) == before


def test_empty_rocksdbstore_of_rocketmq_5_5_is_accepted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = store_with(tmp_path / "s")
    (root / "rocksdbstore").mkdir()
    (root / "rocksdbstore" / "000004.log").write_bytes(b"")
    (root / "rocksdbstore" / "CURRENT").write_bytes(b"MANIFEST-000005\n")
    (root / "kvStore").mkdir()
    with caplog.at_level(logging.WARNING, "rocketflow_store"), MessageStore.open(root, CONFIG) as store:
        store.put_message(Message("t", b"b"))
    assert not caplog.records
