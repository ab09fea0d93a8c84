"""A real Airflow in its own environment in the user's cache, created once, for the tests and `make airflow`."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from uv import find_uv_bin

from rocketflow.spark.java_runtime import cache_directory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT: Final = Path(__file__).parents[3]
DAGS: Final = ROOT / "airflow_dags"
REQUIREMENTS: Final = DAGS / "requirements.txt"
_INSTALL_S: Final = 270.0
_MIGRATE_S: Final = 180.0
_NEEDED: Final = 3 << 30
"""The most bytes of disk that a new environment needs, including the package manager's cache."""


class AirflowNotInstalledError(Exception):
    """Airflow cannot be installed here; the message has the reason."""


@dataclass(frozen=True, slots=True)
class AirflowEnvironment:
    """The paths of an Airflow installation and of an empty database for it."""

    home: Path

    @property
    def python(self) -> Path:
        return self.home / "venv" / "bin" / "python"

    @property
    def airflow(self) -> Path:
        return self.home / "venv" / "bin" / "airflow"

    @property
    def empty_database(self) -> Path:
        return self.home / "airflow.db"


def airflow_environment() -> AirflowEnvironment:
    """Return the environment for `requirements.txt` and this Python, created if missing.

    Raises: AirflowNotInstalledError if it cannot be created.
    """
    wanted = REQUIREMENTS.read_text() + sys.version
    home = cache_directory() / f"airflow-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"
    environment = AirflowEnvironment(home)
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "ready").exists():
            _make(environment)
            (home / "ready").touch()
        if not (
            home / "compiled"
        ).exists():  # no Airflow of these tests writes bytecode: each would compile its modules
            compile_all = [str(environment.python), "-m", "compileall", "-q", "-j", "2", str(home / "venv" / "lib")]
            subprocess.run(compile_all, capture_output=True, check=False)  # some templates are no Python
            (home / "compiled").touch()
    return environment


def unpacked_wheel(target: Path) -> Path:
    """Build and unpack the project's wheel under `target`, for Airflow's module path: code and entry points only."""
    built = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target / "dist"), str(ROOT)],
        env={**os.environ, "ROCKETFLOW_NO_KERNEL": "1"},  # its commands run in this environment, not in Airflow's
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert built.returncode == 0, built.stdout[-1500:] + built.stderr[-1500:]
    (wheel,) = (target / "dist").glob("*.whl")
    site = target / "site"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    return site


def airflow_variables(
    environment: AirflowEnvironment,
    home: Path,
    site: Path,
    connections: Mapping[str, Mapping[str, Any]],
    folders: Sequence[Path] = (DAGS,),
) -> dict[str, str]:
    """Return the variables of an Airflow with RocketFlow's DAGs and its state, with a database, in `home`."""
    bundle = "airflow.dag_processing.bundles.local.LocalDagBundle"
    bundles = [{"name": one.name, "classpath": bundle, "kwargs": {"path": str(one)}} for one in folders]
    home.mkdir(parents=True, exist_ok=True)
    database = home / "airflow.db"
    if not database.exists():
        shutil.copyfile(environment.empty_database, database)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON"))}
    return {
        **own,
        "PATH": f"{environment.python.parent}:{own['PATH']}",
        "PYTHONPATH": str(site),
        **_settings(home),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
        **{
            f"AIRFLOW_CONN_{name.upper()}": json.dumps({"conn_type": "rocketflow", "extra": dict(extra)})
            for name, extra in connections.items()
        },
    }


def rocketflow_command() -> str:
    """Return the path of the project's own command."""
    return str(Path(sys.executable).parent / "rocketflow")


def _settings(home: Path) -> dict[str, str]:
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "NO_PROXY": "*",
    }


def _make(environment: AirflowEnvironment) -> None:
    home = environment.home
    free = shutil.disk_usage(home).free
    if free < _NEEDED:
        raise AirflowNotInstalledError(f"Airflow needs {_NEEDED >> 30} GiB of disk, only {free >> 20} MiB are free")
    shutil.rmtree(home / "venv", ignore_errors=True)
    uv = find_uv_bin()
    _run([uv, "venv", "-q", "--python", sys.executable, str(home / "venv")], _INSTALL_S)
    install = [uv, "pip", "install", "-q", "--system-certs", "--python", str(environment.python)]
    _run([*install, "-r", str(REQUIREMENTS)], _INSTALL_S)
    environment.empty_database.unlink(missing_ok=True)
    _run([str(environment.airflow), "db", "migrate"], _MIGRATE_S, {**os.environ, **_settings(home)})


def _run(command: list[str], seconds: float, variables: Mapping[str, str] | None = None) -> None:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env=variables,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise AirflowNotInstalledError(f"{' '.join(command[:4])} took longer than {seconds:g} s") from error
    if done.returncode != 0:
        raise AirflowNotInstalledError(f"{' '.join(command[:4])}: {(done.stdout + done.stderr)[-400:]}")
