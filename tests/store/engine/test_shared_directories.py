"""One writer a directory: by whatever root or link a second one reaches it, it is refused, and nothing changes."""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.metadata.layout.store_paths import StorePaths, check_unlocked
from rocketflow_store.model.errors import StoreLockedError
from rocketflow_store.rebuild.rebuild import rebuild_store
from tests.support.descriptors import open_paths
from tests.support.trials import environment
from tests.support.workload import SMALL

HOLDER = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(fd, fcntl.LOCK_EX, 1, 0)
print(os.getpid(), flush=True)
sys.stdin.read()
"""
"""Holds the file `lock` as a Java broker does."""
OPENER = """
import sys
from rocketflow_store import MessageStore, StoreConfig
from rocketflow_store.model.errors import StoreLockedError
try:
    MessageStore.open(sys.argv[1], StoreConfig(store_path_commit_log=sys.argv[2]))
except StoreLockedError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""


def config(**more: object) -> StoreConfig:
    return StoreConfig(**{**SMALL, **more})  # type: ignore[arg-type]


def filled(root: Path) -> Path:
    """Make a store at `root`, with one message."""
    with MessageStore.open(root, config()) as store:
        store.put_message(Message("t", b"one", queue_id=0, keys="k"))
    return root


@pytest.fixture
def taken(tmp_path: Path) -> Path:
    return filled(tmp_path / "taken")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """Run a process that writes to a store; return the store's root and the process id."""
    root = filled(tmp_path_factory.mktemp("served") / "store")
    with writer(root) as process:
        yield root, process.pid


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    """Run a process that prints a line and ends with its input."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment()) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.communicate()


def writer(root: Path) -> AbstractContextManager[subprocess.Popen[str]]:
    return running(sys.executable, "-m", "tests.reliability.lock_holder", str(root), "0")


def linked(path: Path, target: Path) -> Path:
    path.symlink_to(target)
    return path


def with_link(root: Path, target: Path) -> StoreConfig:
    """Let a store at `root` have a link to `target` in place of its own directory of that name."""
    (filled(root) / target.name).rename(root.with_name("old"))
    linked(root / target.name, target)
    return config()


def spread(root: Path, one: Path) -> StoreConfig:
    """Return the settings of a store at `root` with two directories of the log, the second of which is `one`."""
    (root / "more").mkdir(parents=True)
    return config(store_path_commit_log=f"{root}/more,{one}")


def read_only(root: Path, one: Path) -> StoreConfig:
    """Return the settings of a store at `root` that only reads the log files in `one`."""
    (root / "commitlog").mkdir(parents=True)
    return config(read_only_commit_log_store_paths=str(one))


def moved_queues(one: Path, root: Path) -> StoreConfig:
    """Return the settings of a store at `root` that has its queues in `one`."""
    filled(root)
    return config(store_path_consume_queue=str(one))


SHARED: list[tuple[str, str, Callable[[Path, Path], StoreConfig]]] = [
    ("absolute", "commitlog", lambda one, _: config(store_path_commit_log=str(one))),
    ("relative", "commitlog", lambda one, root: config(store_path_commit_log=os.path.relpath(one, root))),
    ("link", "commitlog", lambda one, root: config(store_path_commit_log=str(linked(root.with_name("link"), one)))),
    ("one of two", "commitlog", lambda one, root: spread(root, one)),
    ("read-only", "commitlog", lambda one, root: read_only(root, one)),
    ("key", "consumequeue", moved_queues),
    ("key", "index", lambda one, _: config(store_path_index=str(one))),
    *(
        ("link in the root", name, lambda one, root: with_link(root, one))
        for name in ("consumequeue", "index", "config", "rocketflow")
    ),
]


@pytest.mark.parametrize(
    ("name", "asked"), [pytest.param(name, asked, id=f"{name}, {how}") for how, name, asked in SHARED]
)
def test_store_with_a_directory_of_a_running_one_is_refused_and_names_its_holder(
    served: tuple[Path, int], name: str, asked: Callable[[Path, Path], StoreConfig], tmp_path: Path
) -> None:
    taken, pid = served
    root = tmp_path / "second"
    wanted = asked(taken / name, root)
    before = sorted(taken.rglob("*")), sorted(tmp_path.iterdir())
    with pytest.raises(StoreLockedError, match=f"{name}: locked by pid {pid} ") as caught:
        MessageStore.open(root, wanted)
    assert caught.value.exit_code == 75
    assert "for a store with another root" in str(caught.value)
    assert (sorted(taken.rglob("*")), sorted(tmp_path.iterdir())) == before


def test_root_is_refused_under_any_name_though_its_lock_was_deleted(taken: Path, tmp_path: Path) -> None:
    link = linked(tmp_path / "link", taken)
    with writer(taken) as process:
        (taken / "lock").unlink()
        for root in (taken, link):
            with pytest.raises(StoreLockedError, match=f"locked by pid {process.pid} "):
                MessageStore.open(root, config())
            assert not (taken / "lock").exists()
            with StoreReader(root) as reader:
                assert reader.state == "running"
        with pytest.raises(StoreLockedError, match=f"pid {process.pid} "):
            check_unlocked(taken)


def test_log_is_refused_under_the_name_of_another_mount(served: tuple[Path, int], tmp_path: Path) -> None:
    """The second process sees the log at a bind mount, in a mount namespace of its own."""
    taken, pid = served
    alone = ["unshare", "--mount", "--map-root-user"]
    (tmp_path / "mounted").mkdir()
    mount = ["mount", "--bind", str(taken / "commitlog"), str(tmp_path / "mounted")]
    if not shutil.which("unshare") or subprocess.run([*alone, *mount], capture_output=True, check=False).returncode:
        pytest.skip("cannot mount in a namespace of its own here")
    program = [sys.executable, "-c", OPENER, str(tmp_path / "second"), str(tmp_path / "mounted")]
    run = subprocess.run(
        [*alone, "sh", "-c", f'{shlex.join(mount)} && exec "$@"', "sh", *program],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert run.returncode == 75, run
    assert f"mounted: locked by pid {pid} " in run.stderr
    assert not (tmp_path / "second").exists()


def test_reader_of_the_second_root_sees_the_writer_of_the_log(taken: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    with MessageStore.open(second, config(store_path_commit_log=str(taken / "commitlog"))):
        pass
    with StoreReader(second) as reader:
        assert reader.state == "clean"
    with writer(taken) as process:
        with StoreReader(second) as reader:
            assert (reader.state, f"pid {process.pid} " in str(reader.lock_holder)) == ("running", True)
        for write in (lambda: rebuild_store(second), lambda: repair_store(second)):
            with pytest.raises(StoreLockedError, match=f"pid {process.pid} "):
                write()


@pytest.mark.parametrize("name", ["commitlog", "queues"])
def test_directory_in_the_root_of_a_java_broker_is_refused(tmp_path: Path, name: str) -> None:
    root = tmp_path / "java"
    (root / "commitlog").mkdir(parents=True)
    (root / "queues").mkdir()
    link = linked(tmp_path / "link", root / name)
    key = {"commitlog": "store_path_commit_log", "queues": "store_path_consume_queue"}[name]
    with running(sys.executable, "-c", HOLDER, str(root / "lock")) as process:
        with pytest.raises(StoreLockedError, match=rf"locked by pid {process.pid} .*whose store is {root}"):
            MessageStore.open(tmp_path / "second", config(**{key: str(link)}))
        assert not (tmp_path / "second").exists()
    with MessageStore.open(tmp_path / "second", config(**{key: str(link)})):
        pass


def test_directory_that_the_writer_creates_later_is_locked(tmp_path: Path) -> None:
    log = tmp_path / "log"
    wanted = config(store_path_commit_log=str(log))
    with MessageStore.open(tmp_path / "one", wanted), pytest.raises(StoreLockedError, match="this process"):
        MessageStore.open(tmp_path / "two", wanted)


def test_closed_store_and_a_refused_open_leave_no_lock_and_no_descriptor(taken: Path, tmp_path: Path) -> None:
    second = config(store_path_commit_log=str(taken / "commitlog"))
    for _ in range(3):
        with MessageStore.open(taken, config()), pytest.raises(StoreLockedError, match="this process"):
            MessageStore.open(tmp_path / "second", second)
    with MessageStore.open(tmp_path / "second", second), pytest.raises(StoreLockedError, match="this process"):
        MessageStore.open(taken, config())
    assert open_paths(tmp_path) == []


def test_file_system_without_locks_of_directories_is_reported_and_the_root_stays_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def flock(fd: int, operation: int) -> None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr(fcntl, "flock", flock)
    with MessageStore.open(tmp_path / "s", config()) as store:
        assert store.put_message(Message("t", b"one")).stored
        with pytest.raises(StoreLockedError, match="this process"):
            MessageStore.open(tmp_path / "s", config())
        paths = StorePaths.of(tmp_path / "s")
        assert store.statistics()["events"]["RF-NOT-LOCKED"] >= len(
            [one for one in paths.written_directories if one.is_dir()]
        )
    assert f"RF-NOT-LOCKED {tmp_path / 's' / 'commitlog'}" in caplog.text
