"""What an Airflow connection of type `rocketflow` says: which store, and which command looks after it."""

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

COMMAND_VARIABLE: Final = "ROCKETFLOW_COMMAND"
_TEXTS: Final = ("path", "command", "config", "audit_dir", "expectations_dir")
_JOBS_WITH_CONFIG: Final = frozenset({"rebuild_index", "requeue"})
_KNOWN: Final = frozenset({*_TEXTS, "spark_arguments", "environment"})


class StoreConnectionError(Exception):
    """A connection says too little, or something that is not known."""


@dataclass(frozen=True, slots=True)
class StoreConnection:
    """The extras of a connection. `environment` is added to the command's; `spark_arguments` go to spark-submit."""

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
        """Check and take the extras; StoreConnectionError names connection and field."""
        unknown = sorted(set(extra) - _KNOWN)
        if unknown:
            raise StoreConnectionError(
                f"connection {conn_id}: extra {unknown[0]!r} is not known; there are {', '.join(sorted(_KNOWN))}"
            )
        texts = {name: extra.get(name) or None for name in _TEXTS}
        for name, value in texts.items():
            if value is not None and not isinstance(value, str):
                raise StoreConnectionError(f"connection {conn_id}: extra {name!r} has to be a text")
        path = texts.pop("path")
        if path is None:
            raise StoreConnectionError(f'connection {conn_id} names no store: give the extra "path": "/data/store"')
        more = extra.get("environment") or {}
        if not isinstance(more, Mapping) or not all(isinstance(one, str) for one in more.values()):
            raise StoreConnectionError(f"connection {conn_id}: extra 'environment' has to be an object of texts")
        return cls(
            conn_id, path, **texts, spark_arguments=tuple(_words(extra.get("spark_arguments"))), environment=dict(more)
        )

    def command_words(self) -> list[str]:
        """The `rocketflow` command: the connection's, $ROCKETFLOW_COMMAND, or the one on PATH.

        One beside Airflow's own Python counts only where what it needs is there too: a wheel that was installed
        without its dependencies brings a command that cannot run.
        """
        told = self.command or os.environ.get(COMMAND_VARIABLE)
        if told:
            return shlex.split(told)
        beside = Path(sys.executable).parent
        runs_here = importlib.util.find_spec("isal") is not None and importlib.util.find_spec("pyarrow") is not None
        folders = [str(beside)] if runs_here else []
        folders += [one for one in os.environ.get("PATH", "").split(os.pathsep) if one and Path(one) != beside]
        found = shutil.which("rocketflow", path=os.pathsep.join(folders))
        if found is None:
            raise StoreConnectionError(
                f"connection {self.conn_id}: no rocketflow command: set the extra 'command' or ${COMMAND_VARIABLE}"
            )
        return [found]

    def store_words(self, verb: str, *options: str) -> list[str]:
        """`store VERB PATH OPTIONS --json`, with the connection's broker.conf."""
        config = ["--config", self.config] if self.config else []
        return ["store", verb, self.path, *options, *config, "--json"]

    def job_words(self, job: str, *options: str) -> list[str]:
        """`submit JOB --store PATH OPTIONS`, with the connection's arguments for spark-submit behind `--`."""
        config = ["--config", self.config] if self.config and job in _JOBS_WITH_CONFIG else []
        spark = ["--", *self.spark_arguments] if self.spark_arguments else []
        return ["submit", job, "--store", self.path, *config, *options, *spark]

    def quality_words(self, topic: str, suite: str | None, begin_ms: int, end_ms: int) -> list[str]:
        """`quality check PATH` for messages that were stored in [begin_ms, end_ms)."""
        if suite is None and self.expectations_dir is None:
            raise StoreConnectionError(
                f"connection {self.conn_id}: no suite for {topic}: give one, or the extra 'expectations_dir'"
            )
        file = suite or str(Path(self.expectations_dir or "") / f"{topic}.json")
        times = ["--from-ms", str(begin_ms), "--to-ms", str(end_ms)]
        return ["quality", "check", self.path, "--topic", topic, "--suite", file, *times, "--json"]


def _words(value: object) -> Sequence[str]:
    if value is None:
        return ()
    return shlex.split(value) if isinstance(value, str) else [str(one) for one in list(value)]  # type: ignore[call-overload]
