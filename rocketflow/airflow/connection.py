"""An Airflow connection of type `rocketflow`: a store, and the command that works on it."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rocketflow.environment import COMMAND
from rocketflow.errors import RocketFlowError

_TEXTS: Final = ("path", "command", "config", "audit_dir", "expectations_dir")
_JOBS_WITH_CONFIG: Final = frozenset({"rebuild_index", "requeue"})
_KNOWN: Final = frozenset({*_TEXTS, "spark_arguments", "environment"})


class StoreConnectionError(RocketFlowError):
    """A connection lacks a required extra, or has an unknown or invalid one."""


@dataclass(frozen=True, slots=True)
class StoreConnection:
    """The extras of a connection.

    `environment` is added to the command's environment; `spark_arguments` are passed to spark-submit.
    """

    conn_id: str
    path: str
    command: str | None = None
    config: str | None = None
    audit_dir: str | None = None
    expectations_dir: str | None = None
    spark_arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, conn_id: str, extra: Mapping[str, Any]) -> StoreConnection:
        """Parse the extras of a connection; StoreConnectionError names the connection and the invalid extra."""
        unknown = sorted(set(extra) - _KNOWN)
        if unknown:
            raise StoreConnectionError(
                f"connection {conn_id}: unknown extra {unknown[0]!r}; known are {', '.join(sorted(_KNOWN))}"
            )
        texts = {name: extra.get(name) or None for name in _TEXTS}
        for name, value in texts.items():
            if value is not None and not isinstance(value, str):
                raise StoreConnectionError(f"connection {conn_id}: extra {name!r} must be a string")
        path = texts.pop("path")
        if path is None:
            raise StoreConnectionError(f'connection {conn_id} names no store: give the extra "path": "/data/store"')
        more = extra.get("environment") or {}
        if not isinstance(more, Mapping) or not all(isinstance(one, str) for one in more.values()):
            raise StoreConnectionError(f"connection {conn_id}: extra 'environment' must be an object of strings")
        return cls(
            conn_id, path, **texts, spark_arguments=tuple(_words(extra.get("spark_arguments"))), environment=dict(more)
        )

    def command_words(self) -> list[str]:
        """Return the words of the `rocketflow` command: the connection's, $ROCKETFLOW_COMMAND, or the one on PATH.

        A command beside Airflow's own Python is used only if its dependencies are importable: a wheel installed
        without dependencies has a command that cannot run.
        """
        configured = self.command or COMMAND.text()
        if configured:
            return shlex.split(configured)
        beside = Path(sys.executable).parent
        runs_here = importlib.util.find_spec("isal") is not None and importlib.util.find_spec("pyarrow") is not None
        folders = [str(beside)] if runs_here else []
        folders += [one for one in os.environ.get("PATH", "").split(os.pathsep) if one and Path(one) != beside]
        found = shutil.which("rocketflow", path=os.pathsep.join(folders))
        if found is None:
            raise StoreConnectionError(
                f"connection {self.conn_id}: rocketflow is not on PATH: set the extra 'command' or ${COMMAND.key}"
            )
        return [found]

    def store_words(self, verb: str, *options: str) -> list[str]:
        """Return `store VERB PATH OPTIONS --json`, with the connection's broker.conf."""
        config = ["--config", self.config] if self.config else []
        return ["store", verb, self.path, *options, *config, "--json"]

    def job_words(self, job: str, *options: str) -> list[str]:
        """Return `submit JOB --store PATH OPTIONS`, with the connection's spark-submit arguments after `--`."""
        config = ["--config", self.config] if self.config and job in _JOBS_WITH_CONFIG else []
        spark = ["--", *self.spark_arguments] if self.spark_arguments else []
        return ["submit", job, "--store", self.path, *config, *options, *spark]

    def quality_words(self, topic: str, suite: str | None, begin_ms: int, end_ms: int) -> list[str]:
        """Return `quality check PATH` for the messages stored in [begin_ms, end_ms).

        Raises: StoreConnectionError without a suite and without the extra `expectations_dir`.
        """
        if suite is None and self.expectations_dir is None:
            raise StoreConnectionError(
                f"connection {self.conn_id}: no suite for topic {topic}: give one, or set the extra 'expectations_dir'"
            )
        file = suite or str(Path(self.expectations_dir or "") / f"{topic}.json")
        times = ["--begin", str(begin_ms), "--end", str(end_ms - 1)]
        return ["quality", "check", self.path, "--topic", topic, "--suite", file, *times, "--json"]


def _words(value: object) -> Sequence[str]:
    if value is None:
        return ()
    return shlex.split(value) if isinstance(value, str) else [str(one) for one in list(value)]  # type: ignore[call-overload]
