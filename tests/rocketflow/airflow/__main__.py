"""`make airflow`: a standalone Airflow with RocketFlow's DAGs on this machine, to try them; Ctrl-C stops all of it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

from rocketflow.spark.java_runtime import cache_directory
from rocketflow_store import MessageStore, StoreConfig
from tests.rocketflow.airflow.environment import (
    AirflowNotInstalledError,
    airflow_environment,
    airflow_variables,
    rocketflow_command,
    unpacked_wheel,
)
from tests.support.bulk_rows import rows
from tests.support.ports import free_port

_PORT: Final = 8080
_USER: Final = "admin"
_START_S: Final = 240.0
_STOP_S: Final = 20.0
_SIZES: Final = StoreConfig(mapped_file_size_commit_log=1 << 24, max_hash_slot_num=50_000, max_index_num=200_000)


class _Stopped(Exception):
    """A signal requested the stop."""


def main() -> int:
    """Set up what is missing, start Airflow, print how to use it, wait, stop; return the exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _stop)
    try:
        return _serve()
    except AirflowNotInstalledError as error:
        print(f"error: no Airflow: {error}", file=sys.stderr)
        return 1
    except _Stopped:
        return 0


def _serve() -> int:
    print("setting up an environment for Airflow (only once, about a minute) ...", flush=True)
    environment = airflow_environment()
    home = cache_directory() / "airflow-standalone"
    shutil.rmtree(home / "wheel", ignore_errors=True)
    store = Path(os.environ.get("ROCKETFLOW_AIRFLOW_STORE") or _demo_store(home / "demo-store")).absolute()
    extra = {"path": str(store), "command": rocketflow_command(), "audit_dir": str(home / "audit")}
    port = _port_near(int(os.environ.get("ROCKETFLOW_AIRFLOW_PORT", _PORT)))
    variables = airflow_variables(environment, home, unpacked_wheel(home / "wheel"), {"rocketflow_default": extra})
    variables |= {
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{_USER}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
    }
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            [str(environment.airflow), "standalone"],
            env=variables,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        print(f"Airflow is starting (log: {home / 'log'}) ...", flush=True)
        if not _healthy(port, process):
            print(f"error: Airflow did not start within {_START_S:.0f} s: see {home / 'log'}", file=sys.stderr)
            return 1
        _print_usage(home, port, store)
        process.wait()
        print(f"error: Airflow ended by itself: see {home / 'log'}", file=sys.stderr)
        return 1
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        _end_session(process)
        print("Airflow has stopped", flush=True)


def _print_usage(home: Path, port: int, store: Path) -> None:
    password = json.loads((home / "passwords.json").read_text())[_USER]
    print(
        f"\n  http://127.0.0.1:{port}   user {_USER}   password {password}\n\n"
        f"  store    {store} (connection rocketflow_default; make airflow ROCKETFLOW_AIRFLOW_STORE=PATH for another)\n"
        f"  damage   rm -r {store}/consumequeue {store}/index\n"
        "  repair   trigger rocketflow_index_rebuild (all DAGs are paused: the trigger form unpauses)\n"
        "  stop     Ctrl-C\n",
        flush=True,
    )


def _demo_store(path: Path) -> Path:
    """Create a store of 100,000 messages in two topics, unless it exists."""
    if not path.exists():
        making = path.with_name(f"{path.name}.{os.getpid()}")
        making.parent.mkdir(parents=True, exist_ok=True)
        with MessageStore.open(making, _SIZES) as store:
            for topic in ("orders", "payments"):
                store.append_batch(rows(50_000, 400), topic=topic)
        making.rename(path)
    return path


def _port_near(wanted: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            return free_port()
    return wanted


def _healthy(port: int, process: subprocess.Popen[bytes]) -> bool:
    """Wait until scheduler, triggerer and DAG processor are healthy; return False after the timeout."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(urllib.error.URLError, OSError, ValueError):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v2/monitor/health", timeout=5) as answer:
                health = json.load(answer)
            if all(health[name]["status"] == "healthy" for name in ("scheduler", "triggerer", "dag_processor")):
                return True
        time.sleep(0.5)
    return False


def _end_session(process: subprocess.Popen[bytes]) -> None:
    """Stop every process of the session, and kill the remaining ones: Airflow's children can outlive their parent."""
    deadline = time.monotonic() + _STOP_S
    asked: set[int] = set()
    while True:
        process.poll()
        left = _session(process.pid)
        if not left:
            return
        late = time.monotonic() > deadline
        for pid in left if late else [one for one in left if one not in asked]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
        asked.update(left)
        time.sleep(0.2)


def _session(leader: int) -> list[int]:
    """Return the processes of a session, and of the sessions that its tasks' commands started."""
    found = []
    sessions = {leader}
    entries = {}
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                fields = (one / "stat").read_text().rpartition(")")[2].split()
                entries[int(one.name)] = (fields[0], int(fields[1]), int(fields[3]))
    for pid, (state, parent, session) in sorted(entries.items()):
        if parent in found or session in sessions:
            sessions.add(session)
            found += [pid] if state != "Z" else []
    return found


def _stop(number: int, frame: object) -> None:
    raise _Stopped


if __name__ == "__main__":
    sys.exit(main())
