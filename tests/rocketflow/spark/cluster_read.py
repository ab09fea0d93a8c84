"""Run by test_cluster.py in a process of its own: reads a store on a cluster, as a batch and as a stream."""

from __future__ import annotations

import json
import sys

from rocketflow.spark.session import build_session


def main(url: str, store: str, root: str) -> None:
    """Prints one JSON line: hosts that read, rows of the batch, rows of the stream."""
    from pyspark.sql import functions as sf

    spark = build_session("cluster", url, {"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"})

    def host(batches):  # type: ignore[no-untyped-def]
        import os

        import pyarrow as pa

        for batch in batches:
            yield pa.record_batch({"host": [os.environ.get("SPARK_LOCAL_IP", "?")] * batch.num_rows})

    source = {"subscribe": "orders", "minPartitions": "4", "startingOffsets": "earliest"}
    rows = spark.read.format("rocketflow").options(**source).load(store)
    hosts = sorted(row.host for row in rows.mapInArrow(host, "host string").distinct().collect())
    total = rows.agg(sf.count("*"), sf.sum(sf.col("body").cast("string").cast("long"))).first()
    stream = spark.readStream.format("rocketflow").options(**source, maxOffsetsPerTrigger="700").load(store)
    query = (
        stream.selectExpr("CAST(body AS STRING) body")
        .writeStream.format("json")
        .option("path", f"{root}/out")
        .option("checkpointLocation", f"{root}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    copied = spark.read.json(f"{root}/out").selectExpr("count(*) n", "sum(CAST(body AS LONG)) s").first()
    print(json.dumps({"hosts": hosts, "batch": list(total), "stream": list(copied)}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
