"""The stream job: a plain copy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocketflow.spark.stream_job import StreamJob, run
from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.clock import ManualClock
from rocketflow_store.message import SCHEDULE_TOPIC
from rocketflow_store.schedule.delivery import deliver_due

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
NOW = 1_800_000_000_000


def test_what_was_delivered_late_is_copied_now(spark: SparkSession, tmp_path: Path) -> None:
    """A delivered message still says its delay: with that the copy would wait again."""
    store, clock = tmp_path / "s", ManualClock(NOW)
    config = StoreConfig(mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=6000, clock=clock)
    with MessageStore.open(store, config) as opened:
        for number in range(5):
            late = {"DELAY": "1", "own": str(number)}
            assert opened.put_message(Message("t", b"%d" % number, queue_id=0, properties=late)).stored
        clock.set(NOW + 5_000)
        assert deliver_due(opened).rows == 5
        waiting = opened.bounds(SCHEDULE_TOPIC, 0)
    job = StreamJob(
        str(store), "t", str(store), str(tmp_path / "c"), topic="copy", options={"includeProperties": "true"}
    )
    assert run(spark, job).rows == 5
    with MessageStore.open(store) as opened:
        assert opened.bounds(SCHEDULE_TOPIC, 0) == waiting
        copied = [one for queue in opened.queues("copy") for one in opened.get_message("copy", queue, 0).messages]
        assert sorted((one.body, one.properties["own"]) for one in copied) == [(b"%d" % n, str(n)) for n in range(5)]
