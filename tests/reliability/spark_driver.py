"""A Spark driver that runs one query after another, as requested by JSON lines on standard input.

Request: {"source": options, "where": condition, "select": expressions, "partitions": n, "sink": options}. Answer: a
line "RF {"ok": ..., "error": ...}"; none if the JVM was killed: then the process ends.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from rocketflow.spark.session import build_session
from tests.reliability.faulty_source import FaultyDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(spark: SparkSession, request: dict[str, Any]) -> None:
    """Run one query until it has copied all rows."""
    rows = spark.readStream.format("rocketflow").options(**request["source"]).load()
    rows = rows.where(request["where"]).selectExpr(*request["select"]).repartition(request["partitions"])
    query = rows.writeStream.format("rocketflow_faulty").options(**request["sink"]).trigger(availableNow=True).start()
    query.awaitTermination()


def _assertion_frames(error: PySparkException | Py4JJavaError) -> str:
    """Return the stack frames of a failed assertion of Spark, which has no message of its own."""
    thrown, frames = getattr(error, "_origin", None), []
    while thrown is not None:
        if thrown.getClass().getName() == "java.lang.AssertionError":
            frames = [frame.toString() for frame in thrown.getStackTrace()[:12]]
        thrown = thrown.getCause()
    return "".join(f"\n  at {frame}" for frame in frames)


def main() -> None:
    # Four attempts a task: a worker that dies is then a retry, not the end of the query.
    # Executors of a cluster on this machine are as small as Spark allows.
    spark = build_session("reliability", os.environ["RF_MASTER"], {"spark.executor.memory": "600m"}, fast_start=True)
    spark.dataSource.register(FaultyDataSource)
    jvm = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    print('RF {"ready": true}', flush=True)
    for line in sys.stdin:
        answer = {"ok": True, "error": ""}
        try:
            run(spark, json.loads(line))
        except Exception as error:
            if not isinstance(error, (PySparkException, Py4JJavaError)):  # the connection broke, not the query
                jvm.wait(60)
                os._exit(9)
            answer = {
                "ok": False,
                "error": str(error).partition("=== Streaming Query ===")[0] + _assertion_frames(error),
            }
        print("RF " + json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
