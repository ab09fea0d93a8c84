"""Count the flights of each hour by event time, as a stream with a watermark, and write the windows as Parquet.

rocketflow submit jobs/examples/windowed_delays.py --store PATH --out DIR --checkpoint DIR [--topic flights]

`bornTimestamp` is the event time: when the producer made the message. A window is written once the watermark has passed
its end. Messages that are later than the watermark are dropped: `--late` says how late one may be.
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rocketflow.process.job_entry import run_job
from rocketflow.spark import register


def main() -> int:
    """Count the messages that the topic holds at the start; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--late", default="1 hour")
    arguments = parser.parse_args()

    spark = SparkSession.builder.appName("windowed_delays").getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")  # Spark logs no stack trace: `run_job` prints the error as one line
    register(spark)
    messages = (
        spark.readStream.format("rocketflow")
        .option("path", arguments.store)
        .option("subscribe", arguments.topic)
        .option("startingOffsets", "earliest")
        .schema("tags string, bornTimestamp timestamp")
        .load()
    )
    hours = (
        messages.withWatermark("bornTimestamp", arguments.late)
        .groupBy(F.window("bornTimestamp", "1 hour"), F.col("tags").alias("carrier"))
        .count()
        .select(F.col("window.start").alias("hour"), "carrier", "count")
    )
    query = (
        hours.writeStream.format("parquet")
        .option("path", arguments.out)
        .option("checkpointLocation", arguments.checkpoint)
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.read.parquet(arguments.out).orderBy("hour", "carrier").show(10)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(run_job(main))
