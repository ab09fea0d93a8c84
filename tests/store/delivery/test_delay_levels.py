"""Delay levels of puts: the queue in which a message waits, and settings that are refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import StoreConfigError
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC

NOW = 1_700_000_000_000


@pytest.mark.parametrize("levels", ["", "  ", "1x", "s", "1", "-5s", "1s 5", "1.5s", "²s", "1s,5s", "9999999999d"])
def test_levels_that_cannot_be_parsed_are_refused(levels: str) -> None:
    with pytest.raises(StoreConfigError, match="messageDelayLevel"):
        StoreConfig(message_delay_level=levels)


def test_delay_levels_are_parsed() -> None:
    assert StoreConfig(message_delay_level="0s  2m 1h 3d").delay_levels_ms == (0, 120_000, 3_600_000, 259_200_000)


@pytest.mark.parametrize(("level", "queue"), [(-1, None), (0, None), (1, 0), (18, 17), (19, 17), (1 << 30, 17)])
@pytest.mark.parametrize("arrow", [False, True])
def test_level_above_the_last_counts_as_the_last_and_below_one_as_none(
    tmp_path: Path, level: int, queue: int | None, arrow: bool
) -> None:
    """RocketMQ has 18 levels: 19 waits as long as 18, and is stored as 18; 0 and less are no delay."""
    config = StoreConfig(clock=ManualClock(NOW))
    with MessageStore.open(tmp_path / "s", config) as store:
        if arrow:
            rows = {
                "body": [b"x"],
                "queueId": pa.array([0], pa.int32()),
                "delayTimeLevel": pa.array([level], pa.int32()),
            }
            store.append_batch(pa.RecordBatch.from_pydict(rows), "orders")
        else:
            assert store.put_message(Message("orders", b"x", delay_time_level=level, queue_id=0)).stored
        if queue is None:
            assert store.queues(SCHEDULE_TOPIC) == []
            assert store.bounds("orders", 0) == (0, 1)
            return
        assert store.queues(SCHEDULE_TOPIC) == [queue]
        due = int(store.read_units(SCHEDULE_TOPIC, queue, 0, 1)["tags_code"][0])
        assert due == NOW + config.delay_levels_ms[queue]
        (message,) = store.get_message(SCHEDULE_TOPIC, queue, 0).messages
        assert message.properties["DELAY"] == str(queue + 1)


def test_level_above_a_shortened_configuration_counts_as_the_last(tmp_path: Path) -> None:
    config = StoreConfig(clock=ManualClock(NOW), message_delay_level="3s 7s")
    with MessageStore.open(tmp_path / "s", config) as store:
        assert store.put_message(Message("orders", b"x", delay_time_level=5)).stored
        assert store.queues(SCHEDULE_TOPIC) == [1]
        assert int(store.read_units(SCHEDULE_TOPIC, 1, 0, 1)["tags_code"][0]) == NOW + 7_000
