"""Run one query on a Kafka topic or on a RocketMQ topic: count messages by carrier.

rocketflow submit jobs/examples/kafka_or_rocketflow.py --rocketflow PATH [--topic flights]
rocketflow submit jobs/examples/kafka_or_rocketflow.py --kafka HOST:PORT [--topic flights] \
    -- --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0

What differs: the options of the source, `value` is `body`, `partition` is `queueId`, `offset` is `queueOffset`.
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rocketflow.process.job_entry import run_job
from rocketflow.spark import register


def kafka(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    """Return a Kafka topic."""
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("CAST(value AS string) AS body", "partition AS queue", "offset")
    )


def rocketflow(spark: SparkSession, store: str, topic: str) -> DataFrame:
    """Return a RocketMQ topic from the directory of its store."""
    register(spark)
    return (
        spark.read.format("rocketflow")
        .option("path", store)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("CAST(body AS string) AS body", "queueId AS queue", "queueOffset AS offset")
    )


def main() -> int:
    """Print the number of messages by carrier; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--rocketflow", metavar="PATH")
    source.add_argument("--kafka", metavar="HOST:PORT")
    parser.add_argument("--topic", default="flights")
    arguments = parser.parse_args()

    spark = SparkSession.builder.appName("kafka_or_rocketflow").getOrCreate()
    if arguments.kafka:
        messages = kafka(spark, arguments.kafka, arguments.topic)
    else:
        messages = rocketflow(spark, arguments.rocketflow, arguments.topic)
    carriers = messages.select(F.get_json_object("body", "$.carrier").alias("carrier"))
    carriers.groupBy("carrier").count().orderBy(F.desc("count"), "carrier").show()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(run_job(main))
