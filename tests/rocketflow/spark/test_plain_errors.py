"""Errors of the source and the sink in a session of a user: their sentence, without a traceback of Python."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from rocketflow.process.job_errors import exit_code_of
from rocketflow.spark.data_source import RocketFlowDataSource
from rocketflow.spark.shared.option_values import OptionError
from tests.support.spark_stores import append, numbered

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


def raised(action: Callable[[], object]) -> str:
    with pytest.raises(PySparkException) as caught:
        action()
    assert "Traceback" not in str(caught.value)
    return str(caught.value)


@pytest.mark.spark
def test_error_of_a_wrong_option_or_row_is_a_sentence_in_the_first_lines_of_sparks_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = str(tmp_path / "s")
    append(tmp_path / "s", numbered("t", range(8)))

    def read_by_query() -> None:
        read = spark.readStream.format("rocketflow").option("subscribe", "t").option("startingTimestamp", "1700000000")
        query = read.load(store).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c1")).start()
        query.awaitTermination(60)

    def write_by_query() -> None:
        read = spark.readStream.format("rocketflow").option("subscribe", "t").option("startingOffsets", "earliest")
        write = read.load(store).select("body").writeStream.format("rocketflow").option("topik", "u")
        write.option("path", store).option("checkpointLocation", str(tmp_path / "c2")).start().awaitTermination(60)

    def write(body: str, **options: str) -> None:
        frame = spark.range(3).selectExpr(body)
        frame.write.format("rocketflow").mode("append").options(**options).save(store)

    def read(**options: str) -> None:
        spark.read.format("rocketflow").options(**options).load(store).count()

    for action, sentence in (
        (lambda: read(subscrib="t"), "unknown option 'subscrib': did you mean subscribe?"),
        (lambda: read(subscribe="tt"), "no topic tt in the store (did you mean t?)"),
        (lambda: write("'x' as body", topc="t"), "unknown option 'topc': did you mean topic?"),
        (lambda: write("if(id = 1, null, 'x') as body", topic="u"), "the batch is not written"),
        (read_by_query, "option startingTimestamp: 1700000000 is a time in milliseconds"),
        (write_by_query, "unknown option 'topik': did you mean topic?"),
    ):
        assert sentence in " ".join(raised(action).splitlines()[:2])


def test_error_in_the_process_of_a_user_changes_nothing_there() -> None:
    with pytest.raises(OptionError, match="unknown option"):
        RocketFlowDataSource({"subscrib": "t"}).reader(RocketFlowDataSource({}).schema())
    assert "SPARK_HIDE_TRACEBACK" not in os.environ


@pytest.mark.parametrize(
    "text",
    [
        "[X] Failed to read: rocketflow.spark.shared.option_values.OptionError: unknown option 'a'\n SQL",
        "[X] Traceback:\n  File x\nrocketflow.spark.shared.option_values.OptionError: unknown option 'a'\n SQL",
        "org.apache.spark.SparkException: Job aborted: Lost task: org.apache.spark.api.python.PythonException: "
        "rocketflow.spark.shared.option_values.OptionError: unknown option 'a'\n\n\tat org.apache",
    ],
)
def test_job_ends_with_the_sentence_and_the_code_of_an_error_in_sparks_text(
    capsys: pytest.CaptureFixture[str], text: str
) -> None:
    assert exit_code_of(RuntimeError(text)) == 2
    assert capsys.readouterr().err == "error: unknown option 'a'\n"
