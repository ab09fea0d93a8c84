"""Run by test_cluster.py in a process of its own: rebuilds a store on a cluster."""

from __future__ import annotations

import json
import sys

from rocketflow.spark.rebuild_engine import SparkEngine
from rocketflow.spark.rebuild_job import RebuildJob, run
from rocketflow.spark.session import build_session
from rocketflow_store.rebuild.result import RebuildRequest


def host(_: int) -> str:
    """On which worker a task runs."""
    import os
    import time

    time.sleep(0.2)  # so that one of them does not take all
    return os.environ.get("SPARK_LOCAL_IP", "?")


def main(url: str, store: str) -> None:
    """Prints one JSON line: what was done, and which hosts there are."""
    spark = build_session("cluster", url, {"spark.executor.memory": "512m"})
    hosts = sorted(set(SparkEngine(spark).run(host, list(range(8)), "hosts", lambda _: None)))
    result = run(spark, RebuildJob(store, RebuildRequest()))
    print(json.dumps({**result.as_dict(), "hosts": hosts}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
