"""The data source under test with a sink whose steps can fail; `faults.py` plans the faults.

Points: `commit-before`, `commit-after` (the commit's process is killed before or after its durable point, with `jvm`
also the driver's JVM), `commit-call` (killed before a disk call), `commit-trace` (its disk calls are traced),
`sent-before`, `sent-after` (as the first two, at brokers without commits), `commit-raises` (an error before its durable
point, or `after` it), `abort-raises`, `task` (the Python worker of a task
is killed at a row, with `jvm` also its executor), `twice` (two attempts write all of a task, the commit gets one),
`zombie` (a task fails, its process stays alive and writes when `release` allows it).
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from rocketflow.spark.data_source import RocketFlowDataSource
from rocketflow.spark.sink import writers as sink
from rocketflow.spark.sink.append_port import AppendPort
from rocketflow_store.commits.batch_commit import CommitResult, SinkBatch
from rocketflow_store.commits.staged_part import stage
from rocketflow_store.metadata.layout.store_paths import StorePaths
from tests.support.disk_calls import KillPoint
from tests.support.faults import Faults

INLINE_BYTES = 3000
"""Parts larger than this are files in these tests, so that small batches have inline parts and files."""


def staged_files(staging: Path, sink_id: str) -> list[str]:
    """Return all complete and partial parts of a sink in the staging directory."""
    found = (one.relative_to(staging) for one in (staging / sink_id).rglob("*") if one.is_file())
    return sorted(str(one) for one in found if one.parts[1] not in ("runs", "last"))


def jvm_pid() -> int:
    """Return the process id of the JVM that started this process."""
    pid = os.getpid()
    while pid > 1:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if Path(f"/proc/{pid}/comm").read_text().strip() == "java":
            return pid
        pid = int(fields[1])
    raise RuntimeError("no JVM above this process")


def die(fault: dict[str, Any]) -> None:
    """Kill this process, and before it the JVM that started it (driver or executor) if the fault has `jvm`."""
    if fault.get("jvm"):
        os.kill(jvm_pid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


@contextlib.contextmanager
def traced(arguments: list[str]) -> Iterator[None]:
    """Run with strace attached to all threads of this process."""
    command = ["strace", "-f", "-p", str(os.getpid()), *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
        assert strace.stderr is not None
        line = strace.stderr.readline()
        if "attached" not in line:
            raise RuntimeError(f"strace cannot attach: {line}{strace.stderr.read()}")
        try:
            yield
        finally:
            strace.send_signal(signal.SIGINT)
            strace.stderr.read()


class FaultyPort(AppendPort):
    """Commits, with the planned faults."""

    def commit(self, batch: SinkBatch) -> CommitResult:
        faults = Faults.of_this_process()
        staging = StorePaths(faults.store()).staging
        before = staged_files(staging, batch.sink_id)
        if (fault := faults.claim("commit-before", batch.batch_id)) is not None:
            die(fault)
        raises = faults.claim("commit-raises", batch.batch_id)
        if raises and not raises["after"]:
            raise OSError(errno.EIO, "the disk went away before the commit")
        release = faults.claim("release", batch.batch_id)
        if release and release["when"] == "before":
            _let_zombie_write(release)
        with self._watched(faults, batch.batch_id):
            result = super().commit(batch)
        if (fault := faults.claim("commit-after", batch.batch_id)) is not None:
            die(fault)
        if raises and raises["after"]:
            raise OSError(errno.EIO, "the disk went away after the commit")
        if release and release["when"] == "after":
            _let_zombie_write(release)
        after = staged_files(staging, batch.sink_id)
        faults.note("commit", batch=batch.batch_id, status=result.status.value, before=before, after=after)
        return result

    @staticmethod
    def _watched(faults: Faults, batch_id: int) -> contextlib.AbstractContextManager[None]:
        if fault := faults.claim("commit-call", batch_id):
            return traced(["-o", "/dev/null", *KillPoint(fault["call"], fault["nth"]).arguments()])
        if fault := faults.claim("commit-trace", batch_id):
            return traced(["-o", fault["log"], "-s", "512", *fault["arguments"]])
        return contextlib.nullcontext()


def _let_zombie_write(release: dict[str, Any]) -> None:
    """Open the first gate, and wait at the second one until the zombie has written."""
    Path(release["go"]).write_text("go")
    Path(release["done"]).read_text()


class FaultyWriter(sink.StreamWriter):
    """Stages the rows of a task, with the planned faults."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        context = TaskContext.get()
        assert context is not None
        batch_id = int(context.getLocalProperty("streaming.sql.batchId") or -1)
        faults = Faults.of_this_process()
        sink.stage = functools.partial(stage, inline_bytes=INLINE_BYTES)  # type: ignore[attr-defined]
        if fault := faults.claim("task", batch_id):
            sink.stage = functools.partial(stage, inline_bytes=0)  # type: ignore[attr-defined]
            return super().write(_killed_at(iterator, fault))
        if fault := faults.claim("twice", batch_id):
            return self._written_twice(list(iterator), fault["committed"])
        if fault := faults.claim("zombie", batch_id):
            self._fail_and_live_on(list(iterator), fault, faults)
        return super().write(iterator)

    def _written_twice(self, rows: list[pa.RecordBatch], committed: int) -> Any:
        """Write the rows in two attempts with numbers of their own, as with speculation; return the result of one."""
        written = []
        for attempt in range(2):
            sink.stage = functools.partial(_stage_as, f"x{attempt}")  # type: ignore[attr-defined]
            written.append(super().write(iter(rows)))
        return written[committed]

    def commit(self, messages: Any, batchId: int) -> None:  # the name is Spark's
        faults = Faults.of_this_process()
        if (fault := faults.claim("sent-before", batchId)) is not None:
            die(fault)
        super().commit(messages, batchId)
        if (fault := faults.claim("sent-after", batchId)) is not None:
            die(fault)

    def abort(self, messages: Any, batchId: int) -> None:  # the name is Spark's
        if Faults.of_this_process().claim("abort-raises", batchId):
            raise OSError(errno.EIO, "the disk went away before the abort")
        super().abort(messages, batchId)
        Faults.of_this_process().note("abort", batch=batchId)

    def _fail_and_live_on(self, rows: list[pa.RecordBatch], fault: dict[str, Any], faults: Faults) -> None:
        """Fail the task; a fork of its process that Spark does not know writes when `release` allows it."""
        sink.stage = functools.partial(stage, inline_bytes=0)  # type: ignore[attr-defined]
        ready, notify = os.pipe()
        if os.fork() == 0:
            try:
                os.dup2(notify, 3)
                os.closerange(4, 4096)  # Spark must see the task's connection end
                self._write_late(rows, fault, faults)
            finally:
                os._exit(0)
        os.close(notify)
        select.select([ready], [], [])
        os.read(ready, 1)
        os.close(ready)
        if fault["killed"]:
            os.kill(os.getpid(), signal.SIGKILL)
        raise RuntimeError("this task is lost to Spark")

    def _write_late(self, rows: list[pa.RecordBatch], fault: dict[str, Any], faults: Faults) -> None:
        def gated() -> Iterator[pa.RecordBatch]:
            for batch in rows:
                half = batch.num_rows // 2
                if fault["half"]:
                    yield batch.slice(0, half)
                    at_gate()
                    yield batch.slice(half)
                else:
                    yield batch

        def at_gate() -> None:
            with contextlib.suppress(OSError):  # a second batch passes
                os.write(3, b"!")
                os.close(3)
                Path(fault["go"]).read_text()

        try:
            if not fault["half"]:
                at_gate()
            written = super().write(gated())
            assert isinstance(written, sink.StagedCommit)
            faults.note("zombie", wrote=written.part.path)
        except Exception as error:
            faults.note("zombie", error=f"{type(error).__name__}: {error}")
        finally:
            Path(fault["done"]).write_text("done")


def _stage_as(attempt: str, chunks: Any, directory: Path, name: str) -> Any:
    return stage(chunks, directory, f"{name}-{attempt}", inline_bytes=0)


def _killed_at(rows: Iterator[pa.RecordBatch], fault: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    row = fault["row"]
    for batch in rows:
        if row < batch.num_rows:
            yield batch.slice(0, row)
            die(fault)
        row -= batch.num_rows
        yield batch
    die(fault)


class FaultyDataSource(RocketFlowDataSource):
    """Format `rocketflow_faulty`."""

    @classmethod
    def name(cls) -> str:
        return "rocketflow_faulty"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        sink.AppendPort = FaultyPort  # type: ignore[attr-defined]
        made = sink.make_stream_writer(self.options, schema, overwrite)
        return FaultyWriter(made.options, made.address)
