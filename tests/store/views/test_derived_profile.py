"""The profile of derived files: index entries for TAGS and the checkpoint's sixth field, by RocketMQ version."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.format.checkpoint_layout import decode_checkpoint
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.errors import InvalidFilterError, StoreConfigError
from rocketflow_store.model.java_compat import TAG_KEY_PREFIX, index_hash
from rocketflow_store.rebuild.rebuild import rebuild_store
from rocketflow_store.rebuild.result import RebuildRequest
from tests.support.trials import ROOT, environment

SIZES = StoreConfig(
    mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=2000, max_hash_slot_num=100, max_index_num=400
)
GOLDEN = {
    **dict.fromkeys(("basic-49", "basic-53", "features-53", "propcrc-53", "crash-53-kill9", "expired-53"), "5.3"),
    **dict.fromkeys(("lost-derived-53", "crash-53-torn"), "5.3"),
    **dict.fromkeys(("basic-55", "features-55", "crash-55-kill9"), "5.5"),
}


def fill(path: Path, profile: str, first: int = 0, count: int = 120) -> None:
    """Put single messages and a batch of rows, every other one with TAGS."""
    with MessageStore.open(path, replace(SIZES, profile=profile)) as store:
        for number in range(first, first + count):
            tags = ("a", "büro", "")[number % 3]
            assert store.put_message(Message("t", b"%d" % number, tags=tags, keys=[f"k{number}"])).stored
        rows = {"body": [b"row"] * count, "tags": ["a" if n % 2 else None for n in range(count)]}
        store.append_batch(pa.RecordBatch.from_pydict(rows), "rows")


def tag_entries(path: Path) -> int:
    """Return how many index entries name a message's TAGS."""
    with StoreReader(path) as reader:
        hashes = {index_hash(topic, TAG_KEY_PREFIX + tags) for topic in ("t", "rows") for tags in ("a", "büro")}
        tables = [one.entry_table()[1:]["key_hash"].tolist() for one in reader.index.files]
        return sum(one in hashes for table in tables for one in table)


def index_bytes(path: Path) -> list[bytes]:
    return [one.read_bytes() for one in sorted((path / "index").iterdir())]


@pytest.mark.parametrize(("name", "profile"), GOLDEN.items())
def test_profile_is_detected_recorded_and_never_changed(
    name: str, profile: str, golden_store: Callable[..., Path], tmp_path: Path
) -> None:
    path = Path(shutil.copytree(golden_store(name), tmp_path / "s"))
    with StoreReader(path) as reader:
        assert reader.profile == profile
    with MessageStore.open(path, StoreConfig(profile=profile)) as store:
        assert store.config.profile == profile
    assert json.loads((path / "rocketflow" / "store.meta").read_text())["derivedProfile"] == profile
    other = {"5.3": "5.5", "5.5": "5.3"}[profile]
    with pytest.raises(StoreConfigError, match=f"--profile {other}"):
        MessageStore.open(path, StoreConfig(profile=other))
    assert verify_store(path).findings == []


def test_new_store_has_profile_55_and_an_entry_for_each_tagged_message(tmp_path: Path) -> None:
    path = tmp_path / "s"
    fill(path, "")
    with StoreReader(path) as reader:
        assert (reader.profile, reader.index_complete, reader.tag_coverage().complete) == ("5.5", True, True)
        (stretch,) = reader.tag_stretches().stretches
        assert stretch.tag_entries
    assert tag_entries(path) == 80 + 60
    assert verify_store(path).findings == []


def test_profile_53_writes_no_tag_entries_and_zeros_in_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "s"
    fill(path, "5.3")
    assert tag_entries(path) == 0
    assert (path / "checkpoint").read_bytes()[40:] == bytes(4096 - 40)
    assert verify_store(path).findings == []


def test_checkpoint_names_the_last_record_whose_unit_is_durable(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, SIZES) as store:
        first = store.put_message(Message("t", b"first"))
        store.flush()
        assert checkpoint_offset(path) == store.max_phy_offset > first.physical_offset == 0
        last = [store.put_message(Message("t", b"%d" % number)) for number in range(300)][-1]
        store.flush()
        assert checkpoint_offset(path) == last.physical_offset
        newest = store.put_message(Message("t", b"newest"))
    assert checkpoint_offset(path) == newest.physical_offset
    assert verify_store(path).findings == []
    (path / "checkpoint").unlink()
    assert repair_store(path).left.findings == []
    assert checkpoint_offset(path) == newest.physical_offset


def checkpoint_offset(path: Path) -> int:
    return decode_checkpoint((path / "checkpoint").read_bytes()).logics_physical_offset


@pytest.mark.parametrize("value", [1 << 40, 3])
def test_checkpoint_offset_that_no_record_begins_at_is_found_and_repaired(tmp_path: Path, value: int) -> None:
    path = tmp_path / "s"
    fill(path, "")
    raw = bytearray((path / "checkpoint").read_bytes())
    raw[40:48] = value.to_bytes(8, "big")
    (path / "checkpoint").write_bytes(raw)
    assert [(one.kind, one.offset) for one in verify_store(path).findings] == [("checkpoint", 40)]
    assert repair_store(path).left.findings == []
    MessageStore.open(path).close()


def test_rebuild_converts_between_profiles_and_appends_use_the_new_one(tmp_path: Path) -> None:
    path, wanted = tmp_path / "s", tmp_path / "wanted"
    fill(path, "5.3")
    before = index_bytes(path)
    shutil.copytree(path, wanted)
    for profile in ("5.5", "5.3", "5.5"):
        result = rebuild_store(path, RebuildRequest(profile=profile))
        assert (result.swapped, result.profile) == (True, profile)
        assert not rebuild_store(path).swapped
        assert tag_entries(path) == (140 if profile == "5.5" else 0)
        assert (checkpoint_offset(path) > 0) == (profile == "5.5")
        assert verify_store(path).findings == []
        if profile == "5.3":
            assert index_bytes(path) == before
    fill(path, "5.5", 120)
    assert tag_entries(path) == 280
    with StoreReader(path) as reader:
        assert reader.tag_coverage().complete
    assert verify_store(path).findings == []


@pytest.mark.parametrize("profile", ["5.3", "5.5"])
def test_conversion_of_a_store_without_tags_is_recorded(tmp_path: Path, profile: str) -> None:
    """The files of such a store are the same in both versions, except for a database that brokers since 5.4 leave."""
    path = tmp_path / "s"
    with MessageStore.open(path, SIZES) as store:
        store.put_messages([Message("t", b"b", keys=[f"k{n}"]) for n in range(30)])
    shutil.rmtree(path / "rocketflow")
    (path / "rocksdbstore").mkdir()
    assert rebuild_store(path, RebuildRequest(profile=profile), SIZES).profile == profile
    with StoreReader(path) as reader:
        assert reader.profile == profile
    with MessageStore.open(path) as store:
        assert store.config.profile == profile
        assert store.put_message(Message("t", b"on", tags="a")).stored
    assert verify_store(path).findings == []


def test_missing_tag_entry_is_found_only_where_rocketflow_wrote_them(tmp_path: Path) -> None:
    path, other = tmp_path / "s", tmp_path / "other"
    fill(path, "5.5")
    shutil.copytree(path, other)
    rebuild_store(other, RebuildRequest(profile="5.3"))
    names = sorted(one.name for one in (path / "index").iterdir())
    shutil.rmtree(path / "index")
    (path / "index").mkdir()
    without = sorted((other / "index").iterdir())
    for one, name in zip(without, names[-len(without) :], strict=True):  # the newest one keeps its name
        shutil.copy(one, path / "index" / name)
    found = verify_store(path).findings
    assert {one.kind for one in found} == {"missing-entry"}
    assert repair_store(path).left.findings == []
    assert tag_entries(path) == 140
    shutil.rmtree(path / "rocketflow")  # as RocketMQ's brokers leave it: either way is healthy
    assert verify_store(path).findings == []
    assert verify_store(other).findings == []


def test_recovery_after_a_kill_writes_the_entries_of_the_profile(tmp_path: Path) -> None:
    for profile, entries in (("5.5", 80), ("5.3", 0)):
        path = tmp_path / profile
        code = (
            "import os\nfrom dataclasses import replace\nfrom rocketflow_store import *\n"
            "from tests.store.views.test_derived_profile import SIZES\n"
            f"store = MessageStore.open({str(path)!r}, replace(SIZES, profile={profile!r}))\n"
            "for n in range(120):\n"
            "    store.put_message(Message('t', b'x', tags=('a', 'büro', '')[n % 3], keys=[f'k{n}']))\n"
            "    if n == 50: store.flush()\n"
            "os._exit(1)"
        )
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment(), check=False)
        assert (path / "abort").exists()
        with MessageStore.open(path) as store:
            assert store.recovery.abort_found
        assert tag_entries(path) == entries
        assert verify_store(path).findings == []


@pytest.mark.parametrize("name", ["basic-49", "basic-53", "basic-55", "native"])
def test_query_by_tags_returns_the_newest_messages_that_match(
    name: str, golden_store: Callable[..., Path], tmp_path: Path
) -> None:
    path = tmp_path / "s"
    if name == "native":
        fill(path, "5.3", 0)
        rebuild_store(path, RebuildRequest(profile="5.5"))
        fill(path, "5.5", 120)
    else:
        path = golden_store(name)
    with StoreReader(path) as reader:
        for topic in ("orders", "metrics_8", "t", "rows"):
            if topic not in reader.topics():
                continue
            every = [
                row
                for queue_id in reader.queues(topic)
                for batch in reader.read(topic, queue_id, *reader.bounds(topic, queue_id), ["physicalOffset", "tags"])
                for row in batch.to_pylist()
            ]
            for tags in sorted({row["tags"] for row in every if row["tags"]})[:4]:
                wanted = sorted(row["physicalOffset"] for row in every if row["tags"] == tags)[-20:]
                found = reader.query_by_tags(topic, tags, 20)
                assert found.complete
                assert [one.phy_offset for one in found.messages] == wanted, (topic, tags)
                times = [one.store_timestamp for one in found.messages]
                some = reader.query_by_tags(topic, f"{tags} || never", 64, times[5], times[9]).messages
                assert [one.phy_offset for one in found.messages if times[5] <= one.store_timestamp <= times[9]] == [
                    one.phy_offset for one in some if one.phy_offset in wanted
                ]
        with pytest.raises(InvalidFilterError):
            reader.query_by_tags("orders", "*")


def test_query_by_tags_covers_what_a_broker_stored_without_entries(tmp_path: Path) -> None:
    """Profile 5.3 filled the store, then 5.5: the index covers only the newest part."""
    path = tmp_path / "s"
    fill(path, "5.3")
    meta = json.loads((path / "rocketflow" / "store.meta").read_text())
    (path / "rocketflow" / "store.meta").write_text(json.dumps({**meta, "derivedProfile": "5.5"}))
    fill(path, "5.5", 120)
    with StoreReader(path) as reader:
        covered = reader.tag_coverage()
        assert 0 < covered.begin_phy_offset < covered.end_phy_offset
        assert not covered.complete
        assert [one.tag_entries for one in reader.tag_stretches().stretches] == [False, True]
        assert len(reader.query_by_tags("t", "a", 64).messages) == 64
        newest = reader.query_by_tags("t", "a", 10).messages
        assert all(one.phy_offset >= covered.begin_phy_offset for one in newest)
    assert verify_store(path).findings == []
