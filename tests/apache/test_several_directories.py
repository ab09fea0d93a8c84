"""A CommitLog on several paths: Apache RocketMQ continues after RocketFlow, and RocketFlow after Apache."""

from __future__ import annotations

import base64
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.errors import MissingStorePathError
from tests.apache.judge import ApacheStore, read_with_rocketflow, versions

pytestmark = pytest.mark.apache

SIZES = StoreConfig(
    mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=6000, max_hash_slot_num=100, max_index_num=4000
)


@pytest.fixture(params=versions("5.5.0"))
def apache(request: pytest.FixtureRequest) -> ApacheStore:
    return ApacheStore(request.param)


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Provide two CommitLog directories, which the judge uses too."""
    made = [tmp_path / "disk-b" / "commitlog", tmp_path / "disk-a" / "commitlog"]
    monkeypatch.setenv("STORE_PATH_COMMIT_LOG", ",".join(map(str, made)))
    return made


def puts(first: int, count: int) -> list[str]:
    """Return PUT lines for the judge; each body takes a good part of a file."""
    bodies = [base64.b64encode(b"%05d" % n * 400).decode() for n in range(first, first + count)]
    return [f"PUT\tt\t{n % 2}\t{body}\tat\tak{n}" for n, body in enumerate(bodies, first)]


def alternate(logs: list[Path]) -> int:
    """Assert that the files alternate between the directories, sorted by name; return the number of files."""
    present = [{int(one.name) >> 16 for one in log.iterdir() if one.stat().st_size} for log in sorted(logs)]
    count = sum(map(len, present))
    assert present == [set(range(0, count, 2)), set(range(1, count, 2))]
    return count


def test_apache_appends_after_rocketflow(apache: ApacheStore, logs: list[Path], tmp_path: Path) -> None:
    root = tmp_path / "s"
    with MessageStore.open(root, replace(SIZES, store_path_commit_log=",".join(map(str, logs)))) as store:
        store.put_messages([Message("t", b"%05d" % n * 100, keys=[f"k{n}"], queue_id=n % 2) for n in range(500)])
    count = alternate(logs)
    expected = read_with_rocketflow(root)
    lines = [*puts(0, 100), "KEY\tt\tk7", "KEY\tt\tak99"]
    messages, answers = apache.read_and_put(root, SIZES, [("t", 0), ("t", 1)], lines)
    assert {one.place: one for one in messages} == expected
    assert [one[1] for one in answers if one[0] == "PUT"] == ["PUT_OK"] * 100
    assert len([one for one in answers if one[0] == "MESSAGE"]) == 2
    assert alternate(logs) > count
    after = read_with_rocketflow(root)
    assert len(after) == 600
    assert {key: value for key, value in after.items() if key in expected} == expected
    with MessageStore.open(root) as store:
        before = store.max_offset("t", 0)
        store.put_messages([Message("t", b"%05d" % n * 400, queue_id=n % 2) for n in range(100)])
        assert store.max_offset("t", 0) == before + 50
    assert alternate(logs) > count
    assert verify_store(root).findings == []


def test_rocketflow_appends_after_apache(apache: ApacheStore, logs: list[Path], tmp_path: Path) -> None:
    root = tmp_path / "s"
    root.mkdir()
    apache.ask(root, SIZES, puts(0, 200))
    count = alternate(logs)
    assert count > 3
    conf = tmp_path / "broker.conf"
    conf.write_text(
        f"storePathRootDir={root}\nstorePathCommitLog={logs[0]},{logs[1]}\nmaxHashSlotNum=100\nmaxIndexNum=4000\n"
    )
    config = StoreConfig.from_broker_conf(conf)
    with StoreReader(root, config) as reader:
        assert reader.bounds("t", 0) == (0, 100)
    aside = tmp_path / "aside"
    for log in logs:  # not mounted, or mounted empty
        shutil.move(log, aside)
        for exists in (False, True):
            if exists:
                log.mkdir()
            for open_it in (StoreReader, MessageStore.open):
                with pytest.raises(MissingStorePathError, match=log.parent.name):
                    open_it(root, config)  # type: ignore[operator]
        log.rmdir()
        shutil.move(aside, log)
    with MessageStore.open(root, config) as store:
        assert not store.recovery.abort_found
        for queue in (0, 1):
            got = [one for part in store.read("t", queue, 0, 100, ["body"]) for one in part["body"].to_pylist()]
            assert got == [b"%05d" % (2 * at + queue) * 400 for at in range(100)]
        assert [one.queue_offset for one in store.query_message("t", "ak199")] == [99]
        store.put_messages([Message("t", b"%05d" % n * 400, queue_id=n % 2) for n in range(100)])
    assert alternate(logs) > count
    expected = read_with_rocketflow(root)
    assert {one.place: one for one in apache.read(root, SIZES, [("t", 0), ("t", 1)])} == expected
    assert len(expected) == 300
    assert verify_store(root).findings == []
