"""Completely missing derived files, RocketFlow's own among them: they are reported, and rebuilt."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow.cli.app import run
from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.commits.store_commits import StoreCommits
from rocketflow_store.delivery.requeue.ledger import ledger
from rocketflow_store.delivery.requeue.requeue_run import RequeueRequest, begin_run
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.native.commit_envelope import COMMIT_TOPIC
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC

SIZES = StoreConfig(
    mapped_file_size_commit_log=1 << 20,
    mapped_file_size_consume_queue=20_000,
    max_hash_slot_num=1_000,
    max_index_num=4_000,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with keys, a delayed message and a requeue run."""
    path = tmp_path_factory.mktemp("lost") / "s"
    with MessageStore.open(path, SIZES) as store:
        for n in range(20):
            store.put_message(Message("orders", b"x", keys=f"k{n}", queue_id=n % 2, delay_time_level=int(n == 3)))
        begin_run(StoreCommits(store), RequeueRequest("fix-7", "orders", "flights"), {0: (0, 1)})
    return path


@pytest.mark.parametrize(
    ("missing", "kind"),
    [
        ("index", "missing-entry"),
        (f"consumequeue/{COMMIT_TOPIC}", "missing-unit"),
        (f"consumequeue/{SCHEDULE_TOPIC}", "missing-unit"),
        ("consumequeue", "missing-unit"),
    ],
)
@pytest.mark.parametrize("native", [True, False])
def test_lost_derived_files_are_found_and_repaired(
    made: Path, tmp_path: Path, missing: str, kind: str, native: bool
) -> None:
    path = tmp_path / "s"
    shutil.copytree(made, path)
    if not native:  # no file of RocketFlow shows what existed
        shutil.rmtree(path / "rocketflow")
    before = verify_store(path, SIZES)
    assert before.findings == []
    shutil.rmtree(path / missing)
    found = verify_store(path, SIZES)
    assert {one.kind for one in found.findings} == {kind}
    assert found.exit_code == 1
    repaired = repair_store(path, SIZES)
    assert (repaired.exit_code, repaired.left.findings) == (0, [])
    assert repaired.left.records == before.records
    with StoreReader(path, SIZES) as reader:
        assert [entry.commit.run_id for entry in ledger(reader)] == ["fix-7"]
        assert len(reader.query_message("orders", "k1", 32, 0, 1 << 62)) == 1
        assert reader.bounds(SCHEDULE_TOPIC, 0) == (0, 1)


def test_missing_index_is_no_finding_in_a_store_without_one(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", StoreConfig(message_index_enable=False)) as store:
        store.put_message(Message("orders", b"x", keys="k"))
    assert verify_store(tmp_path / "s").findings == []
    shutil.rmtree(tmp_path / "s" / "rocketflow")  # nothing shows whether another writer keeps one
    (found,) = verify_store(tmp_path / "s").findings
    assert "messageIndexEnable=false" in found.detail
    assert verify_store(tmp_path / "s", StoreConfig(message_index_enable=False)).findings == []


def test_queue_of_a_deleted_topic_is_no_finding(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "s")
    with MessageStore.open(tmp_path / "s", SIZES) as store:
        store.delete_topic("orders")
    assert verify_store(tmp_path / "s").findings == []


def test_ledger_without_its_queue_reports_that(capsys: pytest.CaptureFixture[str], made: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    shutil.copytree(made, path)
    shutil.rmtree(path / "consumequeue" / COMMIT_TOPIC)
    assert run(["store", "ledger", str(path), "--all"]) == 3
    assert "store verify" in capsys.readouterr().err
    assert run(["store", "verify", str(path), "--repair"]) == 0
    assert run(["store", "ledger", str(path), "--all"]) == 0
    assert "fix-7" in capsys.readouterr().out


def test_info_and_verify_of_a_store_without_queues_name_the_next_command(
    capsys: pytest.CaptureFixture[str], made: Path, golden_store: Callable[..., Path], tmp_path: Path
) -> None:
    shutil.copytree(made, tmp_path / "s")
    shutil.copytree(golden_store("basic-53"), tmp_path / "other")
    for path in (tmp_path / "s", tmp_path / "other"):
        shutil.rmtree(path / "consumequeue")
        assert run(["store", "info", str(path)]) == 0
        assert f"store verify {path} --repair" in capsys.readouterr().out
        assert run(["store", "verify", str(path)]) == 1
        assert f"store verify {path} --repair" in capsys.readouterr().out
