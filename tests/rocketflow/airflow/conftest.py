"""One Airflow process for all DAG tests of a session."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from rocketflow_store import MessageStore, StoreConfig
from tests.rocketflow.airflow.environment import (
    DAGS,
    AirflowEnvironment,
    AirflowNotInstalledError,
    airflow_environment,
    airflow_variables,
    rocketflow_command,
    unpacked_wheel,
)
from tests.support.bulk_rows import rows

DATE: Final = "2026-01-02T03:04:05+00:00"
SIZES: Final = StoreConfig(mapped_file_size_commit_log=1 << 22, max_hash_slot_num=5000, max_index_num=40_000)
DRIVER: Final = Path(__file__).with_name("driver.py")
OWN_DAGS: Final = Path(__file__).with_name("dags")


class AirflowProcess:
    """Airflow, with `store` as the connection rocketflow_default; a context manager."""

    def __init__(self, environment: AirflowEnvironment, home: Path, site: Path, store: Path) -> None:
        extra = {"path": str(store), "command": rocketflow_command(), "audit_dir": str(home / "audit")}
        self.store, self.home, self.log = store, home, home / "log"
        variables = airflow_variables(environment, home, site, {"rocketflow_default": extra}, (DAGS, OWN_DAGS))
        variables |= {
            "PATH": f"{variables['PATH']}:{Path(sys.executable).parent}",
            "PYSPARK_PYTHON": sys.executable,
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(environment.python), str(DRIVER)],
                env=variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def begin(self, do: str, **arguments: Any) -> None:
        """Send a request; `answer` waits for its answer."""
        assert self.process.stdin is not None
        print(json.dumps({"do": do, **arguments}), file=self.process.stdin, flush=True)

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log_text()[-3000:]
        answer: dict[str, Any] = json.loads(line)
        assert "raised" not in answer, answer["raised"] + self.log_text()[-3000:]
        return answer

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        self.begin(do, **arguments)
        return self.answer()

    def begin_run(
        self, dag: str, params: Mapping[str, Any] | None = None, *, date: str = DATE, own: bool = False
    ) -> None:
        folder = OWN_DAGS if own else DAGS
        self.begin("run", folder=str(folder), dag_id=dag, date=date, conf=dict(params or {}), retry_delay=0.2)

    def run(self, dag: str, params: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        self.begin_run(dag, params, **more)
        return self.answer()

    def log_text(self) -> str:
        """Return Airflow's log so far."""
        return self.log.read_text("utf-8", "replace")

    def __enter__(self) -> AirflowProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()  # a clean stop takes seconds and has nothing to save
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture(scope="session")
def another_airflow(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], AirflowProcess]:
    """Return a function that creates another Airflow for a store, with a database of its own."""
    try:
        environment = airflow_environment()
    except AirflowNotInstalledError as error:
        pytest.skip(f"no Airflow: {error}")
    site = unpacked_wheel(tmp_path_factory.mktemp("wheel"))
    return lambda store: AirflowProcess(environment, tmp_path_factory.mktemp("airflow"), site, store)


@pytest.fixture(scope="session")
def airflow(
    another_airflow: Callable[[Path], AirflowProcess], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AirflowProcess]:
    with another_airflow(tmp_path_factory.mktemp("stores") / "store") as process:
        yield process


@pytest.fixture(scope="session")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a store of 30,000 messages in two topics, which no test may change."""
    path = tmp_path_factory.mktemp("intact") / "store"
    make_store(path)
    return path


def make_store(path: Path) -> None:
    with MessageStore.open(path, SIZES) as store:
        for topic in ("orders", "paid"):
            store.append_batch(rows(15_000, 300), topic=topic)


@pytest.fixture
def store(airflow: AirflowProcess, intact: Path) -> Path:
    """Copy `intact` to the store of the connection."""
    shutil.rmtree(airflow.store, ignore_errors=True)
    shutil.copytree(intact, airflow.store)
    return airflow.store


def derived(path: Path) -> dict[str, bytes]:
    """Return the bytes of the queue files by name and of the index files by their order."""
    found = {
        str(one.relative_to(path)): one.read_bytes() for one in (path / "consumequeue").rglob("*") if one.is_file()
    }
    index = sorted((path / "index").iterdir()) if (path / "index").is_dir() else []
    return found | {f"index {number}": one.read_bytes() for number, one in enumerate(index)}


def lose_queues_and_index(path: Path) -> None:
    for name in ("consumequeue", "index"):
        shutil.rmtree(path / name)
