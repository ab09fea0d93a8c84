"""A Spark driver to be killed: copies topic `in` to topic `out` of one store.

python -m tests.reliability.spark_driver STORE CHECKPOINT PARTITIONS [kill=POINT@BATCH]

POINT: `worker` (the Python worker of a sink task dies once), `before` or `after` (the JVM is killed before or behind
the durable point of the commit).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from rocketflow.spark import sink
from rocketflow.spark.append_port import DirectAppendPort
from rocketflow.spark.session import build_session
from rocketflow.spark.source import RocketFlowDataSource
from rocketflow_store.sink_commit import CommitResult, SinkBatch


def jvm_pid() -> int:
    """The JVM above this process."""
    pid = os.getpid()
    while pid > 1:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if Path(f"/proc/{pid}/comm").read_text().strip() == "java":
            return pid
        pid = int(fields[1])
    raise RuntimeError("no JVM above this process")


def once(marker: Path) -> bool:
    """Whether this is the first time; the marker outlives every process."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class KillingPort(DirectAppendPort):
    """Commits, and kills the driver at the point asked for."""

    def commit(self, batch: SinkBatch) -> CommitResult:
        point, _, at = os.environ.get("RF_KILL", "").partition("@")
        marker = Path(os.environ.get("RF_MARKER", "/nonexistent/marker"))
        if point == "before" and batch.batch_id == int(at) and once(marker):
            os.kill(jvm_pid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        result = super().commit(batch)
        if point == "after" and batch.batch_id == int(at) and once(marker):
            os.kill(jvm_pid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        return result


class KilledWriter(sink.StreamWriter):
    """Dies in the middle of a task, once."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        point = os.environ.get("RF_KILL", "").partition("@")[0]

        def rows() -> Iterator[pa.RecordBatch]:
            for batch in iterator:
                yield batch
                if point == "worker" and once(Path(os.environ["RF_MARKER"])):
                    os.kill(os.getpid(), signal.SIGKILL)

        return super().write(rows())


class DataSource(RocketFlowDataSource):
    """The data source under test with the writer that dies."""

    @classmethod
    def name(cls) -> str:
        return "rocketflow_killed"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        sink.DirectAppendPort = KillingPort  # type: ignore[misc]
        made = sink.make_stream_writer(self.options, schema, overwrite)
        return KilledWriter(made._options)


def main() -> None:
    store, checkpoint, partitions = sys.argv[1:4]
    spark = build_session("killed", "local[2,4]", fast_start=True)
    spark.dataSource.register(DataSource)
    rows = (
        spark.readStream.format("rocketflow")
        .option("path", store)
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "40")
        .load()
        .select("body")
        .repartition(int(partitions))
    )
    query = (
        rows.writeStream.format("rocketflow_killed")
        .option("path", store)
        .option("topic", "out")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print("finished", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
