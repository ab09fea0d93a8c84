"""Copy paid orders to the topic `paid`, each once, with the amount in cents.

rocketflow submit jobs/paid_orders.py --store PATH --checkpoint DIR
"""

from __future__ import annotations

import argparse
import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rocketflow.process.job_entry import run_job
from rocketflow.spark import register

ORDER = "id string, status string, amount decimal(10,2), city string"


def main() -> int:
    """Copy what was appended since the last run; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--checkpoint", required=True)
    arguments = parser.parse_args()

    spark = SparkSession.builder.appName("paid_orders").getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")  # Spark logs no stack trace: `run_job` prints the error as one line
    register(spark)
    orders = (
        spark.readStream.format("rocketflow")
        .option("path", arguments.store)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .schema("body binary")  # only what the query needs is read
        .load()
        .select(F.from_json(F.col("body").cast("string"), ORDER).alias("order"))
        .select("order.*")
    )
    cents = (F.col("amount") * 100).cast("long").alias("cents")
    paid = orders.where("status = 'paid'").select(
        F.to_json(F.struct("id", cents, "city")).alias("body"),
        F.col("id").alias("keys"),
        F.col("city").alias("tags"),
    )
    query = (
        paid.writeStream.format("rocketflow")
        .option("path", arguments.store)
        .option("topic", "paid")
        .option("checkpointLocation", arguments.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = sum(progress.numInputRows for progress in query.recentProgress)
    spark.stop()
    print(json.dumps({"job": "paid_orders", "rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(run_job(main))
