"""Read a topic as a batch, parse its JSON bodies, and print the mean departure delay of each origin and carrier.

rocketflow submit jobs/examples/batch_from_json.py --store PATH [--topic flights]
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rocketflow.process.job_entry import run_job
from rocketflow.spark import register

FLIGHT = "origin string, carrier string, dest string, tailnum string, dep_delay int"


def main() -> int:
    """Print one row for each origin and carrier, the latest carriers first; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--topic", default="flights")
    arguments = parser.parse_args()

    spark = SparkSession.builder.appName("batch_from_json").getOrCreate()
    register(spark)
    messages = (
        spark.read.format("rocketflow")
        .option("path", arguments.store)
        .option("subscribe", arguments.topic)
        .schema("body binary")  # only what the query needs is read
        .load()
    )
    flights = messages.select(F.from_json(F.col("body").cast("string"), FLIGHT).alias("f")).select("f.*")
    delays = (
        flights.where("dep_delay IS NOT NULL")
        .groupBy("origin", "carrier")
        .agg(F.count("*").alias("flights"), F.round(F.avg("dep_delay"), 1).alias("mean_delay_min"))
        .orderBy(F.desc("mean_delay_min"), "origin", "carrier")
    )
    delays.show(10)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(run_job(main))
