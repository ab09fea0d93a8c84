"""Run by test_cluster.py in a process of its own: a stream on a cluster, from one store into another."""

from __future__ import annotations

import json
import sys

from rocketflow.spark.session import build_session


def main(url: str, source: str, target: str, root: str) -> None:
    """Streams topic `orders` to topic `copied`, tagged with the host that wrote the row; prints the batches' rows."""
    spark = build_session("cluster", url, {"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"})

    def tagged(batches):  # type: ignore[no-untyped-def]
        import os

        import pyarrow as pa

        for batch in batches:
            hosts = [os.environ.get("SPARK_LOCAL_IP", "?")] * batch.num_rows
            columns = [batch.column("body"), batch.column("keys"), pa.array(hosts, pa.string())]
            yield pa.RecordBatch.from_arrays(columns, ["body", "keys", "tags"])

    options = {"subscribe": "orders", "minPartitions": "4", "startingOffsets": "earliest"}
    rows = spark.readStream.format("rocketflow").options(**options, maxOffsetsPerTrigger="700").load(source)

    def run() -> list[int]:
        query = (
            rows.select("body", "keys")
            .mapInArrow(tagged, "body binary, keys string, tags string")
            .writeStream.format("rocketflow")
            .options(path=target, topic="copied", checkpointLocation=f"{root}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]

    print(json.dumps({"first": run(), "again": run()}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
