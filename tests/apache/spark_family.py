"""The family `spark` as a program: rows written to a topic, copied by a query, and read again, over the network.

python -m tests.apache.spark_family NAMESERVERS FROM TO CHECKPOINT
"""

from __future__ import annotations

import sys
from collections import Counter

from rocketflow.spark.session import build_session

ROWS = 300


def main(names: str, source: str, target: str, checkpoint: str) -> None:
    """Run the program; AssertionError if a row is missing or doubled."""
    spark = build_session("spark-family", "local[2]", {"spark.ui.enabled": "false"}, fast_start=True)
    network = {"namesrvAddr": names}
    rows = spark.range(ROWS).selectExpr("CAST(id AS STRING) body", "CAST(id AS STRING) keys")
    rows.write.format("rocketflow").options(**network, topic=source, txnId="family").mode("append").save()
    stream = spark.readStream.format("rocketflow").options(**network, subscribe=source, startingOffsets="earliest")
    sink = stream.load().select("body").writeStream.format("rocketflow").options(**network, topic=target)
    query = sink.options(sinkId="family", checkpointLocation=checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(200)
    found = spark.read.format("rocketflow").options(**network, subscribe=target).load()
    bodies = Counter(row.body for row in found.selectExpr("CAST(body AS STRING) body").collect())
    assert bodies == Counter(str(number) for number in range(ROWS))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
