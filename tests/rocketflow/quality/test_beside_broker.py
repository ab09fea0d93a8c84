"""Checks of a topic in a store that a broker of RocketFlow serves: batches are committed through the broker."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocketflow.quality.jobs.quality_job import QualityJob, QualityQuery, QualitySummary, preflight
from rocketflow.quality.results.results import read_results
from tests.rocketflow.quality.topics import rows_of, write_suite
from tests.support.lost_answers import answers_lost
from tests.support.servers import running_broker, send, store_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
NOT_NEGATIVE = ("expect_column_values_to_be_between", {"column": "i", "min_value": 0})


def test_each_batch_is_committed_once_through_the_broker(spark: SparkSession, tmp_path: Path) -> None:
    suite = write_suite(tmp_path / "s.json", NOT_NEGATIVE, schema="i int")
    with running_broker(tmp_path) as broker:
        store = store_of(broker)
        job = QualityJob(
            source=str(store),
            subscribe="data",
            suite=suite,
            checkpoint=str(tmp_path / "checkpoint"),
            good_topic="good",
            quarantine_topic="bad",
        )

        def checked(*numbers: int) -> QualitySummary:
            send(broker, "data", [json.dumps({"i": number}) for number in numbers])
            return QualityQuery(spark, job, *preflight(job)).run()

        first = checked(1, -2, 3)
        assert (first.rows, first.quarantined) == (3, 1)
        with answers_lost(broker, 1, passed=1) as proxy:  # the last commit is known, the new one is not
            second = checked(-4, 5)
        assert (second.rows, second.quarantined, proxy.losses) == (2, 1, 0)
        assert [one for one in (store / "rocketflow/staging").glob("*/*") if one.is_dir()] == []
        broker.stop_in_order()
    stored = {topic: Counter(row["body"] for row in rows_of(store, topic, ["body"])) for topic in ("good", "bad")}
    assert stored["good"] == Counter([b'{"i": 1}', b'{"i": 3}', b'{"i": 5}'])
    assert stored["bad"] == Counter([b'{"i": -2}', b'{"i": -4}'])
    assert [one.fields["rows"] for one in read_results(str(store))] == [3, 2]
    table = json.loads((store / "config/topics.json").read_text())["topicConfigTable"]
    assert table["rmq_sys_ROCKETFLOW_QUALITY"]["writeQueueNums"] == 1
