"""Parts of which a record is none, or another than their commit announces: nothing is written, nothing is visible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketflow_store import CorruptRecordError, Message, MessageStore, StagedPartError, StoreConfig
from rocketflow_store.commits import batch_commit as sink_commit
from rocketflow_store.commits.batch_commit import SinkBatch, commit_batch, last_commit
from rocketflow_store.commits.progress_commit import ProgressBatch, commit_progress
from rocketflow_store.commits.proven_parts import proven_chunks
from rocketflow_store.fsck.verify import verify_store
from tests.support.forged_parts import Forgery, forged_part, forgeries

CONFIG = StoreConfig(
    mapped_file_size_commit_log=64 << 10,
    mapped_file_size_consume_queue=20_000,
    max_hash_slot_num=500,
    max_index_num=2_000,
    max_message_size=4_000,
)
KINDS = forgeries("forged", CONFIG.max_message_size, CONFIG.mapped_file_size_commit_log)
RIGHT = Forgery("nothing", "")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessageStore]:
    with MessageStore.open(tmp_path_factory.mktemp("forged") / "s", CONFIG) as found:
        found.put_message(Message("before", b"1"))
        yield found
    assert verify_store(found.path).findings == []


def of_sink(parts: list[Any]) -> SinkBatch:
    return SinkBatch("sink", "sink", 0, "run", 1, parts)


def of_progress(parts: list[Any]) -> ProgressBatch:
    return ProgressBatch("progress", "run", None, {}, sum(one.rows for one in parts), parts=parts)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_forged_part_is_refused_and_nothing_of_its_batch_is_written(
    store: MessageStore, kind: Forgery, tmp_path: Path
) -> None:
    right, _ = forged_part("early", RIGHT)
    part, data = forged_part("forged", kind)
    in_file = replace(part, path=str(tmp_path / "part"), inline=None)
    (tmp_path / "part").write_bytes(data + b"of an earlier batch")
    end = store.max_phy_offset
    for one in (part, in_file):
        with pytest.raises(CorruptRecordError, match=kind.why) as refused:
            commit_batch(store, of_sink([right, one]))
        assert isinstance(refused.value, StagedPartError) or "were announced" in kind.why
        if kind.in_progress:
            with pytest.raises(CorruptRecordError, match=kind.why):
                commit_progress(store, of_progress([right, one]))
    assert store.max_phy_offset == end
    assert store.topics() == ["before"]
    assert last_commit(store, "sink") is last_commit(store, "progress") is None


def test_refusal_names_part_and_row(store: MessageStore, tmp_path: Path) -> None:
    kind = next(one for one in KINDS if one.name == "a flipped body")
    part, data = forged_part("forged", kind)
    (tmp_path / "p7").write_bytes(data)
    with pytest.raises(StagedPartError) as refused:
        commit_batch(store, of_sink([replace(part, path=str(tmp_path / "p7"), inline=None)]))
    assert (refused.value.file, refused.value.row) == (str(tmp_path / "p7"), 1)
    assert str(refused.value) == f"{tmp_path}/p7, row 1: body CRC differs; nothing of the batch was written"


def test_part_that_changes_after_its_proof_is_not_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part, data = forged_part("t", RIGHT)
    path = tmp_path / "part"
    path.write_bytes(data)
    in_file = replace(part, path=str(path), inline=None)

    def proven_then_changed(*given: Any, **more: Any) -> Any:
        found = proven_chunks(*given, **more)
        path.write_bytes(data.replace(b"row", b"raw"))
        return found

    with MessageStore.open(tmp_path / "s", CONFIG) as store:
        monkeypatch.setattr(sink_commit, "proven_chunks", proven_then_changed)
        with pytest.raises(StagedPartError, match="changed while it was committed"):
            commit_batch(store, of_sink([in_file]))
        assert store.max_phy_offset == 0
        monkeypatch.undo()
        path.write_bytes(data)
        assert commit_batch(store, of_sink([in_file])).rows == 3
    assert verify_store(tmp_path / "s").findings == []


@pytest.mark.parametrize("name", ["a compressed body", "failed attempts", "a body above maxMessageSize"])
def test_redelivered_rows_keep_what_messages_have(tmp_path: Path, name: str) -> None:
    kind = next(one for one in KINDS if one.name == name)
    with MessageStore.open(tmp_path / "s", CONFIG) as store:
        commit_progress(store, of_progress([forged_part("forged", kind)[0]]))
        assert store.max_offset("forged", 0) == 3
