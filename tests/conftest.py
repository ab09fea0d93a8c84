"""Fixtures that several test folders share."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, settings

from tests.support.golden import GOLDEN, extract
from tests.support.sparse_copy import copy_file
from tests.support.trials import LEVEL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.scheduler import LoadScopeScheduling

pytest_plugins = ["tests.support.counts", "tests.support.memory_disk", "tests.support.seconds"]

TOGETHER: Final = {
    "tests/rocketflow/spark/": "spark",
    "tests/rocketflow/quality/": "spark",
    "tests/project/test_page_blocks.py": "spark",
    "tests/project/test_readme_blocks.py": "spark",
    "tests/rocketflow/demo/": "spark",
    "tests/rocketflow/kafka/": "kafka",
    "tests/project/test_broker_folders.py": "code",
    "tests/project/test_doors.py": "code",
    "tests/project/test_environment.py": "code",
    "tests/project/test_json_readers.py": "code",
    "tests/project/test_layout.py": "code",
    "tests/project/test_names_of_store_files.py": "code",
    "tests/project/test_probe.py": "code",
    "tests/project/test_rules.py": "code",
    "tests/project/test_said_once.py": "code",
    "tests/project/test_settings_table.py": "code",
    "tests/project/test_stored_names.py": "code",
    "tests/reliability/test_killed_spark_rebuilds.py": "spark",
    "tests/reliability/test_commit_steps.py": "driver",
    "tests/reliability/test_replays.py": "driver",
    "tests/reliability/test_sink_faults.py": "driver",
    "tests/reliability/test_source_faults.py": "driver",
    "tests/reliability/test_spark_beside_broker.py": "driver",
    "tests/reliability/test_spark_kills.py": "driver",
    "tests/reliability/test_two_drivers.py": "driver",
    "tests/reliability/test_zombies.py": "driver",
}
"""Files that share an expensive fixture, or the parsed code: one test process runs all files of a name.

Other files run one by one.
"""

settings.register_profile("project", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("sample", settings.get_profile("project"), max_examples=25)
settings.load_profile("sample" if LEVEL == "sample" else "project")


def pytest_configure(config: pytest.Config) -> None:
    """Give the processes that tests start what they need in any environment.

    They keep bytecode, since each would compile all its modules, for a second or two. SIGHUP and SIGINT end them, also
    if the tests run under nohup, or in the background of a script.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector off while tests are collected, where it took two fifths of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _scope(nodeid: str) -> str:
    file = nodeid.split("::", 1)[0]
    return next((name for start, name in TOGETHER.items() if file.startswith(start)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Create a scheduler that gives complete files, or groups of TOGETHER, to the next free process in order."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _scope(nodeid)

    config.option.loadscopereorder = False
    return ByFile(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the groups of TOGETHER, which run longest, to the start, so that no process waits for them at the end."""
    from tests.support.seconds import UNTIL

    if UNTIL in os.environ:
        return
    items.sort(key=lambda item: _scope(item.nodeid) not in TOGETHER.values())


def pytest_itemcollected(item: pytest.Item) -> None:
    """Reject tests named after a set: its order differs between processes, and xdist then refuses to run."""
    for value in getattr(getattr(item, "callspec", None), "params", {}).values():
        if isinstance(value, set | frozenset) and str(value) in item.name:
            raise pytest.UsageError(f"{item.nodeid} is named after a set; name its cases or use a list")


@pytest.fixture(scope="module", autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Fail if a thread that a module's tests started still runs: if it never waits, it slows down all later tests."""
    before = set(threading.enumerate())
    yield
    for one in set(threading.enumerate()) - before:
        if re.fullmatch(r"Thread-\d+ \((?!run\)|serve_forever\))\w+\)", one.name):  # these two are PySpark's
            one.join(10)
            assert not one.is_alive(), f"{one.name} still runs"


@pytest.fixture(scope="session")
def golden_store(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Provide `golden_store(name)`, the root of an unpacked golden store; the session shares it, do not change it.

    `golden_store(name, "rebuilt")` has the derived files (queues, index, checkpoint) that RocketMQ rebuilt from it.
    """
    unpacked: dict[tuple[str, str], Path] = {}

    def unpack(name: str, archive: str = "store") -> Path:
        if (name, archive) not in unpacked:
            target = tmp_path_factory.mktemp(f"golden-{name}-{archive}")
            extract(GOLDEN / name / "store.tar.xz", target)
            if archive == "rebuilt":
                for derived in ("consumequeue", "index"):
                    shutil.rmtree(target / derived, ignore_errors=True)
                (target / "abort").unlink(missing_ok=True)
                extract(GOLDEN / name / "rebuilt.tar.xz", target)
            unpacked[name, archive] = target
        return unpacked[name, archive]

    return unpack


@pytest.fixture(scope="session", autouse=True)
def _a_disk_with_room() -> Iterator[None]:
    """Fake the disk's usage: at 85 % retention would delete files that are not expired."""
    from rocketflow_store.files import os_files

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os_files, "disk_used_percent", lambda path: 10 if Path(path).exists() else -1)
        yield


@pytest.fixture(scope="session", autouse=True)
def _copies_with_holes() -> Iterator[None]:
    """Copy stores without their holes: `shutil.copytree` would write gigabytes of zeros."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "copyfile", copy_file)
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Provide the Spark session of a test run."""
    from rocketflow.spark.session import build_session

    session = build_session("rocketflow-tests", "local[2]", fast_start=True)
    yield session
    session.stop()
