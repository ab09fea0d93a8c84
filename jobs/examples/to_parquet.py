"""Copy a topic into Parquet with `foreachBatch`, so that each batch is written once.

rocketflow submit jobs/examples/to_parquet.py --store PATH --out DIR --checkpoint DIR [--topic flights]

Spark may repeat a batch after a restart, with the same rows: RocketFlow's source reads exactly the offsets that the
checkpoint names. A batch has its own directory, written with mode `overwrite`: repeating it changes nothing.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import PurePosixPath

from pyspark.sql import DataFrame, SparkSession

from rocketflow.process.job_entry import run_job
from rocketflow.spark import register


def main() -> int:
    """Copy the messages that the topic holds at the start; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--batch", default="100000", help="most messages of a batch")
    arguments = parser.parse_args()

    spark = SparkSession.builder.appName("to_parquet").getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")  # Spark logs no stack trace: `run_job` prints the error as one line
    register(spark)

    def write(batch: DataFrame, batch_id: int) -> None:
        path = PurePosixPath(arguments.out) / f"batch={batch_id}"
        batch.write.mode("overwrite").parquet(str(path))

    messages = (
        spark.readStream.format("rocketflow")
        .option("path", arguments.store)
        .option("subscribe", arguments.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", arguments.batch)
        .schema("topic string, queueId int, queueOffset bigint, tags string, body binary, storeTimestamp timestamp")
        .load()
    )
    query = (
        messages.writeStream.foreachBatch(write)
        .option("checkpointLocation", arguments.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.read.parquet(arguments.out).groupBy("batch").count().orderBy("batch").show()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(run_job(main))
