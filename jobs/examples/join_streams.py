"""Join two topics as streams: each delayed flight with the flight message that it came from.

rocketflow submit jobs/examples/join_streams.py --store PATH --out DIR --checkpoint DIR

Both sides have a watermark, and the condition bounds how far apart their event times are: so Spark knows when it may
forget a message that waits for its partner.
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rocketflow.process.job_entry import run_job
from rocketflow.spark import register


def topic(spark: SparkSession, store: str, name: str, fields: str, prefix: str) -> DataFrame:
    """Return a topic as a stream of its JSON fields and its event time, every column with a prefix."""
    messages = (
        spark.readStream.format("rocketflow")
        .option("path", store)
        .option("subscribe", name)
        .option("startingOffsets", "earliest")
        .schema("body binary, bornTimestamp timestamp")
        .load()
    )
    parsed = messages.select(F.from_json(F.col("body").cast("string"), fields).alias("f"), "bornTimestamp")
    rows = parsed.select("f.*", F.col("bornTimestamp").alias("at"))
    named = rows.select([F.col(column).alias(f"{prefix}_{column}") for column in rows.columns])
    return named.withWatermark(f"{prefix}_at", "1 hour")


def main() -> int:
    """Join both topics up to the offsets at which they ended at the start; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--flights", default="flights")
    parser.add_argument("--delays", default="flight-delays")
    arguments = parser.parse_args()

    spark = SparkSession.builder.appName("join_streams").getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")  # Spark logs no stack trace: `run_job` prints the error as one line
    register(spark)
    flights = topic(spark, arguments.store, arguments.flights, "tailnum string, dest string, distance int", "flight")
    delays = topic(spark, arguments.store, arguments.delays, "tailnum string, dest string, delay int", "delay")
    joined = flights.join(
        delays,
        F.expr(
            "flight_tailnum = delay_tailnum AND flight_dest = delay_dest"
            " AND delay_at BETWEEN flight_at AND flight_at + INTERVAL 1 HOUR"
        ),
    ).select("flight_at", "flight_tailnum", "flight_dest", "flight_distance", "delay_delay")
    query = (
        joined.writeStream.format("parquet")
        .option("path", arguments.out)
        .option("checkpointLocation", arguments.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.read.parquet(arguments.out).orderBy(F.desc("delay_delay")).show(10)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(run_job(main))
