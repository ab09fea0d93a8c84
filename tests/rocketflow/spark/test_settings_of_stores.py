"""Source and sink use the settings of file and environment, and detect a replaced log in any directory."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from rocketflow.spark.sink.sink_options import SinkOptions
from rocketflow.spark.source.source_options import SourceOptions
from rocketflow.spark.source.store_access import SourceStores
from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.model.errors import StoreConfigError


def test_source_and_sink_read_file_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("maxMessageSize=1000\nfileReservedTime=7\n")
    monkeypatch.setenv("ROCKETFLOW_fileReservedTime", "9")
    base = {"path": str(tmp_path / "s"), "config": str(conf)}
    source = SourceOptions.parse({**base, "subscribe": "t"}, streaming=True)
    sink = SinkOptions.parse({**base, "topic": "t", "directIO": "true"})
    monkeypatch.delenv("ROCKETFLOW_fileReservedTime")
    conf.unlink()
    for config in (pickle.loads(pickle.dumps(source)).stores[0].store_config(), sink.store_config()):
        assert (config.max_message_size, config.file_reserved_time) == (1000, 9)
    assert sink.store_config().direct_io


def test_a_misspelt_setting_of_the_environment_is_an_error_of_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETFLOW_storePathCommitlog", "x")
    with pytest.raises(StoreConfigError, match="did you mean storePathCommitLog"):
        SourceOptions.parse({"path": str(tmp_path), "subscribe": "t"}, streaming=False)
    with pytest.raises(StoreConfigError, match="did you mean storePathCommitLog"):
        SinkOptions.parse({"path": str(tmp_path), "topic": "t"})


def test_replaced_log_in_another_directory_is_detected(tmp_path: Path) -> None:
    root, log = tmp_path / "s", tmp_path / "disk" / "log"
    log.parent.mkdir()
    config = StoreConfig(
        store_path_commit_log=str(log), mapped_file_size_commit_log=65_536, mapped_file_size_consume_queue=2_000,
        max_hash_slot_num=100, max_index_num=400,
    )  # fmt: skip
    with MessageStore.open(root, config) as store:
        store.put_message(Message("t", b"b"))
    options = SourceOptions.parse({"path": str(root), "subscribe": "t"}, streaming=True)
    stores = SourceStores(options.stores)
    first = stores.generation("")
    assert stores.generation("") == first
    old = next(one for one in log.iterdir() if one.name.isdigit())
    other = tmp_path / "other"
    other.write_bytes(old.read_bytes())
    other.replace(old)
    assert stores.generation("") == first + 1
    with MessageStore.open(root) as store:
        store.put_message(Message("t", b"c"))
        assert stores.generation("") == first + 2
