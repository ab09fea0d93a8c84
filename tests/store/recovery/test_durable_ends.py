"""Queues and index files that are lost after a kill: no queue offset is assigned twice, no message is lost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketflow_store import Message, MessageStore, StoreReader
from rocketflow_store.engine import topic_admin
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.layout.store_paths import StorePaths
from rocketflow_store.metadata.native.confirm import read_confirm
from rocketflow_store.metadata.native.durable_ends import DurableEnds
from tests.support.damage import CONFIG
from tests.support.trials import LEVEL, ROOT, SEED, environment

COUNT = 60
"""Messages in each queue; a queue file has 20."""


def write_and_be_killed(path: str) -> None:
    """Write 60 messages to each queue, durably, and kill this process."""
    store = MessageStore.open(path, CONFIG)
    begin = store.max_offset("a", 0)
    for number in range(begin, begin + COUNT):
        for topic, queue_id in (("a", 0), ("a", 1), ("b", 0)):
            store.put_message(Message(topic, b"%d" % number, keys=f"k{number}", queue_id=queue_id))
    store.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def killed(path: Path) -> None:
    code = f"from tests.store.recovery.test_durable_ends import write_and_be_killed; write_and_be_killed({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment(), check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return stores whose writer was killed: in its first life, after an orderly stop, and after another kill."""
    room = tmp_path_factory.mktemp("lives")
    with MessageStore.open(room / "closed before", CONFIG) as store:
        store.put_message(Message("c", b"x", queue_id=0))
    killed(room / "closed before")
    killed(room / "first life")
    shutil.copytree(room / "first life", room / "killed before")
    killed(room / "killed before")
    return {name: room / name for name in LIVES}


def all_queues(path: Path) -> None:
    shutil.rmtree(path / "consumequeue")


def one_topic(path: Path) -> None:
    shutil.rmtree(path / "consumequeue" / "b")


def one_queue(path: Path) -> None:
    shutil.rmtree(path / "consumequeue" / "a" / "1")


def newest_file(path: Path) -> None:
    max((path / "consumequeue" / "a" / "0").iterdir()).unlink()


def newest_file_cut(path: Path) -> None:
    os.truncate(max((path / "consumequeue" / "a" / "0").iterdir()), 100)


def whole_index(path: Path) -> None:
    shutil.rmtree(path / "index")


def one_index_file(path: Path) -> None:
    min((path / "index").iterdir()).unlink()


def queues_and_record(path: Path) -> None:
    all_queues(path)
    (path / "rocketflow" / "stop").unlink(missing_ok=True)


OF_QUEUES = [all_queues, one_topic, one_queue, newest_file, newest_file_cut, queues_and_record]
OF_INDEX = [whole_index, one_index_file]


LIVES = ["first life", "closed before", "killed before"]
CASES = [(damage, before) for damage in [*OF_QUEUES, *OF_INDEX] for before in LIVES]


@pytest.mark.parametrize(("damage", "before"), CASES if LEVEL != "sample" else CASES[SEED % 2 :: 2])
def test_files_lost_after_a_kill_are_rebuilt(
    lives: dict[str, Path], tmp_path: Path, before: str, damage: Callable[[Path], None]
) -> None:
    path = tmp_path / "s"
    shutil.copytree(lives[before], path)
    damage(path)
    end = COUNT * (2 if before == "killed before" else 1)
    with MessageStore.open(path, CONFIG) as store:
        assert store.recovery.healed
        for topic, queue_id in (("a", 0), ("a", 1), ("b", 0)):
            assert store.put_message(Message(topic, b"%d" % end, keys=f"k{end}", queue_id=queue_id)).queue_offset == end
            got = [
                one.body for at in range(0, end + 1, 20) for one in store.get_message(topic, queue_id, at, 20).messages
            ]
            assert got == [b"%d" % number for number in range(end + 1)]
        for number in (0, 30, end):
            assert len(store.query_message("a", f"k{number}")) == 2
    assert verify_store(path).findings == []


def test_deleted_topic_is_not_rebuilt_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "s"
    code = (
        "import os; from rocketflow_store import *; from tests.support.damage import CONFIG\n"
        f"store = MessageStore.open({str(path)!r}, CONFIG)\n"
        "for n in range(30):\n"
        "    store.put_message(Message('a', b'x', queue_id=0)); store.put_message(Message('b', b'x', queue_id=0))\n"
        "store.flush(); store.delete_topic('a'); store.put_message(Message('a', b'new', queue_id=0)); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment(), check=False)
    assert {key[0] for key in (DurableEnds.load(StorePaths(path)) or DurableEnds()).queues} == {"b"}
    with MessageStore.open(path, CONFIG) as store:
        assert store.recovery.healed == ()
        assert store.bounds("a", 0) == (0, 1)
        assert store.put_message(Message("a", b"y", queue_id=0)).queue_offset == 1
    assert verify_store(path).findings == []


def test_flush_during_a_deletion_omits_the_topics_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin, flushes = topic_admin.begin_deletion, list[threading.Thread]()

    def flushed_meanwhile(*arguments: Any) -> None:
        flushes.append(threading.Thread(target=store.flush))
        flushes[0].start()
        flushes[0].join(0.5)
        begin(*arguments)

    monkeypatch.setattr(topic_admin, "begin_deletion", flushed_meanwhile)
    with MessageStore.open(tmp_path / "s", CONFIG) as store:
        store.put_messages([Message(topic, b"x", queue_id=0) for topic in "ab"])
        store.delete_topic("a")
        flushes[0].join()
        ends = DurableEnds.load(store.paths)
        assert ends is not None
        assert ends.queues == {("b", 0): 1}


def test_only_the_last_writers_ends_are_believed(lives: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "s"
    shutil.copytree(lives["first life"], path)
    paths = StorePaths(path)
    ends = DurableEnds.load(paths)
    assert ends is not None
    assert ends.queues == {("a", 0): COUNT, ("a", 1): COUNT, ("b", 0): COUNT}
    raw = paths.durable_ends.read_bytes()
    for odd in (b"", b"x", raw[:-1], raw.replace(b"queues", b"quenes"), b"00000000\n{}"):
        paths.durable_ends.write_bytes(odd)
        assert DurableEnds.load(paths) is None
    paths.durable_ends.write_bytes(raw)
    assert DurableEnds.load(paths) == ends
    os.utime(paths.abort, ns=(1, 1))
    assert DurableEnds.load(paths) is None
    with StoreReader(path) as reader:
        assert reader.bounds("a", 0) == (0, COUNT)


def test_records_of_a_4_9_broker_that_took_over_are_kept(lives: dict[str, Path], tmp_path: Path) -> None:
    """It leaves the existing `abort` unchanged, and writes to `lock`: its records are neither hidden nor cut."""
    path, before = tmp_path / "s", lives["first life"]
    stamp = (before / "abort").stat()
    shutil.copytree(lives["killed before"], path)  # the second life plays the broker
    shutil.rmtree(path / "rocketflow")
    shutil.copytree(before / "rocketflow", path / "rocketflow")
    os.utime(path / "abort", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with StoreReader(path) as reader:
        assert reader.bounds("a", 0) == (0, COUNT)
    (path / "lock").write_bytes(b"lock")
    with StoreReader(path) as reader:
        assert reader.bounds("a", 0) == (0, 2 * COUNT)
    with MessageStore.open(path, CONFIG) as store:
        assert store.bounds("a", 0) == (0, 2 * COUNT)
        assert store.put_message(Message("a", b"x", queue_id=0)).queue_offset == 2 * COUNT
        assert read_confirm(store.paths) is not None
    assert verify_store(path).findings == []
