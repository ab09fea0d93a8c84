#!/usr/bin/env bash
# PySpark 4.3.0 with its Python data sources (pyspark.sql.datasource).
#
# DataSource.streamReader(schema) may refuse options by an exception, as DataSource.reader(schema) of a batch read may.
#
# Expected: the query fails with the exception of the data source, as a batch read does.
# What happens: the error of a batch read ends with that exception. The one of a stream ends with
# "UnboundLocalError: cannot access local variable 'reader'" of PySpark's own runner (main() of
# pyspark/sql/streaming/python_streaming_source_runner.py), which stops a reader that was never made; the exception of the
# data source stands above it as the first of two. Who reads the last line, or matches on it, looks for a defect of Spark.
# An exception in the first method that Spark calls on a reader is not hidden: a data source may raise it there.
#
# Needs Java 17 or later and pip; PySpark is fetched into a temporary folder.
# Exit code 0: as described. 1: the behaviour has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check pyspark==4.3.0 pyarrow==21.0.0

cat >refuse.py <<'PY'
import re
import sys

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource


class Refusing(DataSource):
    @classmethod
    def name(cls):
        return "refusing"

    def schema(self):
        return "value int"

    def reader(self, schema):
        raise ValueError("option 'place' is missing")

    def streamReader(self, schema):
        raise ValueError("option 'place' is missing")


spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
spark.dataSource.register(Refusing)


def error_of(run):
    try:
        run()
    except Exception as error:
        return str(error)
    raise SystemExit("no error was raised")


def stream():
    query = spark.readStream.format("refusing").load().writeStream.format("noop").start()
    try:
        query.awaitTermination(120)
        raise SystemExit("the query did not end")
    finally:
        query.stop()


def last_exception(text):
    """Return the last exception that a text shows, its type and its message."""
    return re.findall(r"^(?:UnboundLocalError|ValueError): .*", text, re.MULTILINE)[-1]


batch, streaming = error_of(lambda: spark.read.format("refusing").load().collect()), error_of(stream)
print("batch read:", last_exception(batch))
print("stream:    ", last_exception(streaming))
as_described = last_exception(batch).startswith("ValueError") and last_exception(streaming).startswith("Unbound")
sys.exit(0 if as_described else 1)
PY
PYSPARK_PYTHON="$work/venv/bin/python" venv/bin/python refuse.py 2>/dev/null
