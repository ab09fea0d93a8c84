"""The driver of test_cluster.py, in a process of its own: reads, writes and rebuilds stores on a cluster."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from rocketflow.spark.rebuild.rebuild_engine import SparkEngine
from rocketflow.spark.rebuild.rebuild_job import RebuildJob, run
from rocketflow.spark.session import build_session
from rocketflow_store.rebuild.result import RebuildRequest
from tests.support.spark_cluster import FAST_START

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = {"subscribe": "orders", "minPartitions": "4", "startingOffsets": "earliest"}


def read(spark: SparkSession, store: str, root: str) -> dict[str, Any]:
    """Return the hosts that read, and [rows, sum] of a batch read and of a stream."""
    from pyspark.sql import functions as sf

    def host(batches):  # type: ignore[no-untyped-def]
        import os

        import pyarrow as pa

        for batch in batches:
            yield pa.record_batch({"host": [os.environ.get("SPARK_LOCAL_IP", "?")] * batch.num_rows})

    rows = spark.read.format("rocketflow").options(**SOURCE).load(store)
    hosts = sorted(row.host for row in rows.mapInArrow(host, "host string").distinct().collect())
    total = rows.agg(sf.count("*"), sf.sum(sf.col("body").cast("string").cast("long"))).first()
    stream = spark.readStream.format("rocketflow").options(**SOURCE, maxOffsetsPerTrigger="700").load(store)
    query = (
        stream.selectExpr("CAST(body AS STRING) body")
        .writeStream.format("json")
        .option("path", f"{root}/out")
        .option("checkpointLocation", f"{root}/read")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    copied = spark.read.json(f"{root}/out").selectExpr("count(*) n", "sum(CAST(body AS LONG)) s").first()
    return {"hosts": hosts, "batch": list(total or ()), "stream": list(copied or ())}


def write(spark: SparkSession, store: str, target: str, root: str) -> dict[str, Any]:
    """Stream `orders` to topic `copied` twice, each row tagged with its host; return the rows of the batches."""

    def tagged(batches):  # type: ignore[no-untyped-def]
        import os

        import pyarrow as pa

        for batch in batches:
            hosts = [os.environ.get("SPARK_LOCAL_IP", "?")] * batch.num_rows
            columns = [batch.column("body"), batch.column("keys"), pa.array(hosts, pa.string())]
            yield pa.RecordBatch.from_arrays(columns, ["body", "keys", "tags"])

    rows = spark.readStream.format("rocketflow").options(**SOURCE, maxOffsetsPerTrigger="700").load(store)

    def once() -> list[int]:
        query = (
            rows.select("body", "keys")
            .mapInArrow(tagged, "body binary, keys string, tags string")
            .writeStream.format("rocketflow")
            .options(path=target, topic="copied", checkpointLocation=f"{root}/write")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]

    return {"first": once(), "again": once()}


def host_of_task(_: int) -> str:
    """Return the worker that runs the task."""
    import os
    import time

    time.sleep(0.2)  # so that one worker does not run all tasks
    return os.environ.get("SPARK_LOCAL_IP", "?")


def rebuild(spark: SparkSession, store: str) -> dict[str, Any]:
    """Rebuild the store; return the result and the hosts of the workers."""
    hosts = sorted(set(SparkEngine(spark).run(host_of_task, list(range(8)), "hosts", lambda _: None)))
    return {**run(spark, RebuildJob(store, RebuildRequest())).as_dict(), "hosts": hosts}


def main(url: str, store: str, target: str, lost: str, root: str) -> None:
    """Print one JSON line for each job as it ends; `lost` is a store without queues."""
    fast = {"spark.driver.extraJavaOptions": FAST_START, "spark.executor.extraJavaOptions": FAST_START}
    small = {"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
    spark = build_session("cluster", url, {**small, **fast})
    for name, done in (
        ("read", lambda: read(spark, store, root)),
        ("write", lambda: write(spark, store, target, root)),
        ("rebuild", lambda: rebuild(spark, lost)),
    ):
        print(json.dumps({name: done()}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
