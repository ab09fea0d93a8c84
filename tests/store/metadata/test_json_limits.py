"""Hostile JSON in a store's files: a typed error or no value, never RecursionError; and directories in the place of
files.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.fsck.verify import VerifyResult, verify_store
from rocketflow_store.model.errors import StoreAccessError, StoreError

CONFIG = StoreConfig(
    mapped_file_size_commit_log=65_536, mapped_file_size_consume_queue=2_000, max_hash_slot_num=100, max_index_num=400
)
FILES = (
    "rocketflow/store.meta",
    "rocketflow/store.meta.bak",
    "rocketflow/stop",
    "rocketflow/healing",
    "rocketflow/deleted",
    "rocketflow/ends",
    "config/topics.json",
    "config/consumerOffset.json",
    "config/delayOffset.json",
    "config/subscriptionGroup.json",
)


@pytest.mark.parametrize("deep", ["[" * 200_000, '{"a":' * 200_000])
@pytest.mark.parametrize("name", FILES)
def test_deep_json_is_a_typed_error_at_most(tmp_path: Path, name: str, deep: str) -> None:
    root = tmp_path / "s"
    with MessageStore.open(root, CONFIG) as store:
        store.put_message(Message("t", b"b"))
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(deep)
    for use in (StoreReader, MessageStore.open, verify_store):
        with contextlib.suppress(StoreError):
            opened = use(root)  # type: ignore[operator]
            if isinstance(opened, StoreReader):
                assert opened.queues("t") == [0]
            if not isinstance(opened, VerifyResult):
                opened.close()


def test_abort_as_a_directory_is_refused_before_any_change(tmp_path: Path) -> None:
    (tmp_path / "s" / "commitlog").mkdir(parents=True)
    (tmp_path / "s" / "abort").mkdir()
    before = sorted((tmp_path / "s").rglob("*"))
    with pytest.raises(StoreAccessError, match="abort: is a directory"):
        MessageStore.open(tmp_path / "s", CONFIG)
    assert sorted((tmp_path / "s").rglob("*")) == before
