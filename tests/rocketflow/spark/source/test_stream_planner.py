"""The driver's side of a stream without Spark: offsets as JSON, tasks, and the rows that tasks read."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from rocketflow.spark.shared.option_values import OptionError
from rocketflow.spark.source.data_loss import DataLossError
from rocketflow.spark.source.source_options import SourceOptions
from rocketflow.spark.source.store_access import SourceStores
from rocketflow.spark.source.stream_offset import CheckpointError, QueueKey, StreamOffset
from rocketflow.spark.source.topic_check import MissingTopicError
from rocketflow_store import MessageStore
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import NotAStoreError
from tests.support.planned_query import PlannedQuery
from tests.support.spark_stores import append, numbered, remove_first_log_file


def test_query_reads_each_message_once(tmp_path: Path) -> None:
    append(tmp_path / "s", numbered("orders", range(1000)))
    query = PlannedQuery(tmp_path / "s", subscribe="orders", maxOffsetsPerTrigger="300")
    query.drain()
    assert [len(batch) for batch in query.batches] == [300, 300, 300, 100]
    assert query.numbers() == list(range(1000))
    assert query.replay() == query.batches[-1]
    append(tmp_path / "s", numbered("orders", range(1000, 1010)))
    query.drain()
    assert query.numbers() == list(range(1010))


def test_latest_starts_at_the_end_but_new_queues_at_their_beginning(tmp_path: Path) -> None:
    append(tmp_path / "s", numbered("orders", range(10), queues=2))
    query = PlannedQuery(tmp_path / "s", subscribe="orders", startingOffsets="latest")
    query.drain()
    assert query.rows == []
    append(tmp_path / "s", numbered("orders", range(10, 30), queues=4))
    query.drain()
    assert query.numbers() == list(range(10, 30))


def test_pattern_matches_new_topics_but_no_system_topics(tmp_path: Path) -> None:
    append(tmp_path / "s", numbered("a-1", range(3)))
    query = PlannedQuery(tmp_path / "s", subscribePattern="a-.*|RMQ_SYS.*", maxOffsetsPerTrigger="5")
    query.drain()
    append(
        tmp_path / "s",
        [*numbered("a-2", range(3, 20)), *numbered("b-1", range(5)), *numbered("RMQ_SYS_TRACE_TOPIC", [1])],
    )
    query.drain()
    assert query.numbers() == list(range(20))
    with_system = PlannedQuery(tmp_path / "s", subscribePattern="a-.*|RMQ_SYS.*", includeSystemTopics="true")
    with_system.drain()
    assert {row[0] for row in with_system.rows} == {"a-1", "a-2", "RMQ_SYS_TRACE_TOPIC"}


def test_assign_reads_the_named_queues(tmp_path: Path) -> None:
    append(tmp_path / "s", numbered("orders", range(40)))
    query = PlannedQuery(tmp_path / "s", assign='{"orders": [1, 3]}')
    query.drain()
    assert query.numbers() == [number for number in range(40) if number % 4 in (1, 3)]


def test_several_stores_keep_their_queues_apart(tmp_path: Path) -> None:
    append(tmp_path / "a", numbered("orders", range(20)))
    append(tmp_path / "b", numbered("orders", range(100, 130)))
    path = f"x={tmp_path / 'a'},y={tmp_path / 'b'}"
    query = PlannedQuery(path, subscribe="orders", maxOffsetsPerTrigger="7")
    query.drain()
    assert query.numbers() == [*range(20), *range(100, 130)]
    one = PlannedQuery(
        path, subscribe="y/orders", startingOffsets=json.dumps({"y/orders": {"0": 5, "1": -1, "2": -2, "3": 7}})
    )
    one.drain()
    expected = {0: 8 - 5, 1: 0, 2: 7, 3: 0}
    assert Counter(row[1] for row in one.rows) == Counter({k: v for k, v in expected.items() if v})


def test_starting_offsets_name_every_queue_and_stay_inside(tmp_path: Path) -> None:
    append(tmp_path / "s", numbered("orders", range(40)))
    with pytest.raises(OptionError, match="startingOffsets names no number for topic orders queue 3"):
        PlannedQuery(tmp_path / "s", subscribe="orders", startingOffsets='{"orders":{"0":0,"1":0,"2":0}}').step()
    beyond = '{"orders":{"0":0,"1":0,"2":0,"3":11}}'
    with pytest.raises(OptionError, match=r"startingOffsets='11 for topic orders queue 3'.*0 to 10"):
        PlannedQuery(tmp_path / "s", subscribe="orders", startingOffsets=beyond).step()
    clamped = PlannedQuery(tmp_path / "s", subscribe="orders", startingOffsets=beyond, failOnDataLoss="false")
    clamped.drain()
    assert len(clamped.rows) == 30
    wrong = '{"orders":{"0":0,"1":0,"2":0,"3":0},"other":{"0":4}}'
    with pytest.raises(OptionError, match="topic other queue 0"):
        PlannedQuery(tmp_path / "s", subscribe="orders", startingOffsets=wrong).step()


@pytest.mark.parametrize("offset", [-2, -1, 0])
def test_starting_offsets_of_a_topic_that_the_read_does_not_take_are_refused(tmp_path: Path, offset: int) -> None:
    append(tmp_path / "s", numbered("orders", range(4), queues=1))
    wrong = json.dumps({"orders": {"0": 0}, "order": {"0": offset}})
    with pytest.raises(OptionError, match=r"names topic order queue 0, .* did you mean orders\?"):
        PlannedQuery(tmp_path / "s", subscribe="orders", startingOffsets=wrong).step()
    later = PlannedQuery(
        tmp_path / "s", subscribe="orders,order", startingOffsets=wrong
    )  # a named topic may be created later
    later.drain()
    assert later.numbers() == list(range(4))


def test_stream_fails_on_a_missing_topic_with_fail_on_missing_topic(tmp_path: Path) -> None:
    append(tmp_path / "s", numbered("orders", range(4)))
    waiting = PlannedQuery(tmp_path / "s", subscribe="orders,ordrs")
    waiting.drain()
    assert waiting.numbers() == list(range(4))
    strict = PlannedQuery(tmp_path / "s", subscribe="orders,ordrs", failOnMissingTopic="true")
    for _ in range(2):
        with pytest.raises(MissingTopicError, match=r"no topic ordrs in the store \(did you mean orders\?\)"):
            strict.step()
    with MessageStore.open(tmp_path / "s") as store:
        store.create_topic("ordrs", 2)
    strict.drain()
    assert strict.numbers() == list(range(4))


def test_query_starts_at_a_store_time(tmp_path: Path) -> None:
    append(tmp_path / "s", numbered("orders", range(40), queues=1))
    stores = SourceStores(SourceOptions.parse({"path": str(tmp_path / "s"), "subscribe": "x"}, streaming=True).stores)
    key = QueueKey("", "orders", 0)
    stored = [stores.store_timestamp_ms(key, offset) for offset in range(40)]
    middle = stored[20]
    assert middle is not None
    query = PlannedQuery(tmp_path / "s", subscribe="orders", startingTimestamp=str(middle))
    query.drain()
    assert query.numbers() == [number for number in range(40) if stored[number] >= middle]
    far = str(10**15)
    with pytest.raises(OptionError, match="startingTimestamp: no message of topic orders queue 0"):
        PlannedQuery(tmp_path / "s", subscribe="orders", startingTimestamp=far).step()
    late = PlannedQuery(
        tmp_path / "s",
        subscribe="orders",
        startingOffsetsByTimestamp=json.dumps({"orders": {"0": 10**15}}),
        startingOffsetsByTimestampStrategy="latest",
    )
    late.drain()
    assert late.rows == []


def test_byte_and_row_limits_apply_together(tmp_path: Path) -> None:
    append(tmp_path / "s", numbered("orders", range(400)))
    query = PlannedQuery(tmp_path / "s", subscribe="orders", maxBytesPerTrigger="4k", maxOffsetsPerTrigger="1000")
    query.drain()
    assert query.numbers() == list(range(400))
    assert max(len(batch) for batch in query.batches) <= 4096 // 91
    unlimited = PlannedQuery(tmp_path / "s", subscribe="orders", maxBytesPerTrigger="4k")
    assert unlimited.step(limited=False)
    assert len(unlimited.rows) == 400


def test_minimum_maximum_and_delay_apply_together(tmp_path: Path) -> None:
    append(tmp_path / "s", numbered("orders", range(10)))
    clock = ManualClock(1_000_000)
    query = PlannedQuery(
        tmp_path / "s",
        clock,
        subscribe="orders",
        minOffsetsPerTrigger="20",
        maxOffsetsPerTrigger="25",
        maxTriggerDelay="10s",
    )
    assert query.step()
    append(tmp_path / "s", numbered("orders", range(10, 29)))
    assert not query.step()
    append(tmp_path / "s", numbered("orders", range(29, 60)))
    assert query.step()
    assert len(query.batches[-1]) == 25
    assert query.step()
    assert not query.step()
    clock.set(1_010_000)
    append(tmp_path / "s", numbered("orders", [60]))
    assert query.step()
    assert query.numbers() == list(range(61))


def test_available_now_stops_at_the_messages_that_existed_at_its_start(tmp_path: Path) -> None:
    append(tmp_path / "s", numbered("orders", range(50)))
    query = PlannedQuery(tmp_path / "s", subscribePattern=".*", maxOffsetsPerTrigger="20", minOffsetsPerTrigger="20")
    query.planner.prepare_available_now()
    assert query.step()
    append(tmp_path / "s", [*numbered("orders", range(50, 90)), *numbered("other", range(5))])
    query.drain()
    assert query.numbers() == list(range(50))
    assert [len(batch) for batch in query.batches] == [20, 20, 10]


def test_tags_and_sql_filter_a_stream(tmp_path: Path) -> None:
    append(tmp_path / "s", numbered("orders", range(40)))
    query = PlannedQuery(tmp_path / "s", subscribe="orders", tags="b || zz")
    query.drain()
    assert query.numbers() == list(range(1, 40, 2))
    both = PlannedQuery(tmp_path / "s", subscribe="orders", tags="b", sql="n > 9 AND n <= 20")
    both.drain()
    assert both.numbers() == list(range(11, 20, 2))


def test_planner_reports_lag_and_publishes_group_offsets(tmp_path: Path) -> None:
    append(tmp_path / "s", numbered("orders", range(40)))
    query = PlannedQuery(tmp_path / "s", subscribe="orders", maxOffsetsPerTrigger="12", consumerGroup="g1")
    assert query.planner.report() is None
    assert query.step()
    report = query.planner.report()
    assert report is not None
    lags = report["queues"]["orders"]
    assert [lags[str(one)]["messages"] for one in range(4)] == [7, 7, 7, 7]
    assert all(lag["bytes"] > 7 * 91 and lag["latest"] == 10 and lag["ms"] >= 0 for lag in lags.values())
    query.drain()
    query.planner.latest(StreamOffset.from_json(json.loads(query.log[-1])), limited=True)
    table = json.loads((tmp_path / "s" / "config" / "consumerOffset.json").read_text())["offsetTable"]
    assert table["orders@g1"] == {"0": 10, "1": 10, "2": 10, "3": 10}


def test_a_checkpoint_of_another_topic_or_format_is_refused(tmp_path: Path) -> None:
    append(tmp_path / "s", [*numbered("orders", range(4)), *numbered("other", range(4))])
    query = PlannedQuery(tmp_path / "s", subscribe="orders")
    query.drain()
    other = PlannedQuery(tmp_path / "s", subscribe="other")
    other.log = query.log
    with pytest.raises(CheckpointError, match=r"checkpoint is of topic orders.*subscribe other"):
        other.step()
    other.log = ['{"orders": {"0": 4}}']
    with pytest.raises(CheckpointError, match="not one of format rocketflow"):
        other.step()


def test_path_that_is_no_store_raises(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    for name, why in (("file", "is a file"), ("nowhere", "does not exist"), ("empty", "no topics")):
        with pytest.raises(NotAStoreError, match=why):
            PlannedQuery(tmp_path / name, subscribe="orders").step()


def cut_and_rewritten(tmp_path: Path, others: int) -> PlannedQuery:
    """Run a query over 200 messages of a log, which then loses its last 20 and gets `others` new ones."""
    store, kept = tmp_path / "s", tmp_path / "kept"
    append(store, numbered("orders", range(180), queues=1))
    shutil.copytree(store, kept)
    append(store, numbered("orders", range(180, 200), queues=1))
    query = PlannedQuery(store, subscribe="orders")
    query.drain()
    assert len(query.rows) == 200
    shutil.rmtree(store)
    shutil.copytree(kept, store)
    append(store, numbered("orders", range(5000, 5000 + others), queues=1))
    return query


@pytest.mark.parametrize(
    ("others", "why", "offsets"),
    [
        (10, "beyond the queue's end", r"next offset was 200, the queue now holds \[0, 190\)"),
        (20, "is another one now", r"at offset 199"),
        (40, "is another one now", r"next offset was 200, the queue now holds \[0, 220\)"),
    ],
)
@pytest.mark.parametrize("restarted", [False, True])
def test_log_that_changed_after_the_checkpoint_fails_the_query(
    tmp_path: Path, others: int, why: str, offsets: str, restarted: bool
) -> None:
    query = cut_and_rewritten(tmp_path, others)
    if restarted:
        query.restart()
    with pytest.raises(DataLossError, match=f"topic orders queue 0.*{why}") as caught:
        query.step()
    assert caught.match(offsets)
    assert caught.value.exit_code == 3


def test_offsets_of_key_returns_all_or_none_at_its_limit(tmp_path: Path) -> None:
    append(tmp_path / "s", [*numbered("orders", range(60), queues=1), *numbered("other", range(60), queues=1)])
    stores = SourceStores(PlannedQuery(tmp_path / "s", subscribe="orders").options.stores)
    places = stores.offsets_of_key("", "orders", "k3", 7)
    assert places is not None
    assert sorted(places) == [(0, offset) for offset in (3, 13, 23, 33, 43, 53)]
    assert stores.offsets_of_key("", "orders", "k3", 6) is None


def without_a_queue_file(path: Path) -> Path:
    """Make a store of 1,000 messages in one queue, without the ConsumeQueue file of offsets 300 to 399."""
    append(path, numbered("orders", range(1000), queues=1))
    (path / "consumequeue" / "orders" / "0" / f"{300 * 20:020d}").unlink()
    return path


@pytest.mark.parametrize("limit", [{}, {"maxOffsetsPerTrigger": "70"}, {"maxBytesPerTrigger": "20k"}])
def test_missing_queue_file_fails_the_query_or_its_messages_are_skipped(
    tmp_path: Path, limit: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    store = without_a_queue_file(tmp_path / "s")
    with pytest.raises(DataLossError, match="topic orders queue 0"):
        PlannedQuery(store, subscribe="orders", **limit).drain()
    query = PlannedQuery(store, subscribe="orders", failOnDataLoss="false", **limit)
    query.drain()
    assert query.numbers() == [*range(300), *range(400, 1000)]
    assert "RF-SKIP" in caplog.text


@pytest.mark.parametrize(("others", "expected"), [(10, []), (40, list(range(5020, 5040)))])
def test_accepted_loss_is_counted_and_the_query_continues(
    tmp_path: Path, others: int, expected: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    before = cut_and_rewritten(tmp_path, others)
    query = PlannedQuery(tmp_path / "s", subscribe="orders", failOnDataLoss="false")
    query.log = before.log
    query.drain()
    assert query.numbers() == expected
    assert "RF-DATA-LOSS" in caplog.text
    append(tmp_path / "s", numbered("orders", range(9000, 9010), queues=1))
    query.drain()
    assert query.numbers() == [*expected, *range(9000, 9010)]
    report = query.planner.report()
    assert report is not None
    assert report["dataLoss"]["events"] == 1
    assert report["dataLoss"]["messages"] == (10 if others == 10 else 1)


def test_messages_removed_by_retention_fail_the_query_or_are_skipped(tmp_path: Path) -> None:
    append(tmp_path / "s", numbered("orders", range(2000), queues=2))
    query = PlannedQuery(tmp_path / "s", subscribe="orders", maxOffsetsPerTrigger="100")
    assert query.step()
    remove_first_log_file(tmp_path / "s")
    with pytest.raises(DataLossError, match="were removed before they were read"):
        query.step()
    with pytest.raises(DataLossError, match="were removed"):
        query.replay()
    going_on = PlannedQuery(tmp_path / "s", subscribe="orders", failOnDataLoss="false")
    going_on.log = query.log
    going_on.drain()
    lowest = min(going_on.numbers())
    assert lowest > 100
    assert going_on.numbers() == list(range(lowest, 2000))


def test_messages_removed_under_a_running_query_are_counted_once(tmp_path: Path) -> None:
    """No message comes after the batch that was read, so that the queue's end stays."""
    append(tmp_path / "s", numbered("orders", range(1000), queues=1))
    query = PlannedQuery(tmp_path / "s", subscribe="orders", maxOffsetsPerTrigger="50", failOnDataLoss="false")
    assert query.step()
    remove_first_log_file(tmp_path / "s")
    query.drain()
    report = query.planner.report()
    low = query.numbers()[50]
    assert low > 150
    assert query.numbers() == [*range(50), *range(low, 1000)]
    assert report is not None
    assert report["dataLoss"] == {"events": 1, "messages": low - 50}
