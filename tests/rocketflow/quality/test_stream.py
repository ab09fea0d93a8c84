"""A topic through a suite: good and quarantined rows in one commit; stopped, replayed and failing batches."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from rocketflow.demo.flights import as_messages, load_flights
from rocketflow.quality.errors import QualityFailedError
from rocketflow.quality.jobs.quality_job import QualityJob, QualityQuery, QualitySummary, preflight
from rocketflow.quality.results.results import RESULT_TOPIC, read_results
from rocketflow.quality.suites.suite import Action
from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.commits.batch_commit import CheckpointWentBackError, ReplayMismatchError
from rocketflow_store.delivery.delay.delivery import deliver_due
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.clock import ManualClock
from tests.rocketflow.quality.topics import fill, origins, rows_of, write_suite
from tests.support.flight_rules import SUITE, bad_flights
from tests.support.output_fields import check_fields
from tests.support.trials import COMMAND_LINE, LEVEL, environment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
NOT_NEGATIVE = ("expect_column_values_to_be_between", {"column": "i", "min_value": 0})


def _run(spark: SparkSession, job: QualityJob) -> QualitySummary:
    return QualityQuery(spark, job, *preflight(job)).run()


def _job(home: Path, suite: str, **more: Any) -> QualityJob:
    names = {"good_topic": "good"} if "good_foreach" not in more else {}
    asked = {"source": str(home / "store"), "subscribe": "data", "quarantine_topic": "bad"}
    return QualityJob(**{"suite": suite, "checkpoint": str(home / "checkpoint"), **asked, **names, **more})


def _broken_flights(count: int) -> pd.DataFrame:
    """Return real flights, some of them with wrong values."""
    flights = load_flights().to_pandas().sample(count, random_state=3).reset_index(drop=True)
    for name in ("dep_time", "air_time", "arr_delay", "distance", "month"):
        flights[name] = flights[name].astype("Int64")
    flights.loc[5:40:7, "air_time"] = -12
    flights.loc[11:60:9, "carrier"] = "ZZ"
    flights.loc[100:130:10, "dest"] = "LONG"
    return flights


@pytest.mark.skipif(LEVEL == "sample", reason="the demo splits them too: RF_FAULTS=1 runs it")
def test_flights_are_split_into_good_and_bad_as_by_pandas(spark: SparkSession, tmp_path: Path) -> None:
    import pyarrow as pa

    flights = _broken_flights(1500)
    table = load_flights().schema.empty_table().schema
    rows = as_messages(pa.Table.from_pandas(flights, schema=table, preserve_index=False))
    store = tmp_path / "store"
    with MessageStore.open(store) as opened:
        opened.create_topic("flights", 1)
        opened.append_batch(rows.append_column("queueId", pa.array([0] * len(flights), pa.int32())), topic="flights")
    fill(store, "flights", [b"no json", b'[{"air_time": 1}]', {"air_time": "long"}], queues=1)
    bad = bad_flights(flights)
    job = _job(tmp_path, str(SUITE), options={"maxOffsetsPerTrigger": "800"})
    job = QualityJob(**{**{name: getattr(job, name) for name in job.__slots__}, "subscribe": "flights"})
    done = _run(spark, job)
    expected = [("flights", 0, int(at)) for at in flights.index[bad]] + [
        ("flights", 0, at) for at in (1500, 1501, 1502)
    ]
    assert 30 < len(expected) < 1000
    assert origins(store, "bad") == expected, "the rows that pandas finds, in their order"
    assert (done.rows, done.quarantined, done.malformed, done.batches) == (1503, len(expected), 3, 2)
    check_fields("submit quality", json.loads(done.as_json()))
    sent = [json.loads(row["body"]) for row in rows_of(store, "good", ["body"])]
    kept = flights[~bad]
    assert [one["flight"] for one in sent] == kept["flight"].tolist()
    bad_properties = [dict(row["properties"]) for row in rows_of(store, "bad", ["properties"])]
    assert bad_properties[-3]["QUALITY_REASON"].startswith("is not JSON")
    assert bad_properties[-2]["QUALITY_REASON"] == 'is no JSON object but [{"air_time": 1}]', (
        "of which Spark takes the first"
    )
    assert bad_properties[-1]["QUALITY_REASON"] == 'field air_time is no int: "long"'
    negative = [one for one in bad_properties if '"air_time":"-12"' in one["QUALITY_VIOLATIONS"]]
    assert len(negative) == len(range(5, 41, 7))
    assert all(one["QUALITY_SUITE"] == "flights" and one["ORIGIN_MSG_ID"] for one in bad_properties)
    # results, through the source
    stored = spark.read.format("rocketflow").option("path", str(store)).option("subscribe", RESULT_TOPIC).load()
    bodies = [json.loads(row.body) for row in stored.orderBy("queueOffset").collect()]
    assert [(one["ranges"][0]["from"], one["ranges"][0]["to"]) for one in bodies] == [(0, 800), (800, 1503)]
    assert sum(one["quarantined"] for one in bodies) == len(expected)
    nulls = sum(one["result"]["results"][0]["result"]["unexpected_count"] for one in bodies)
    assert nulls == int(flights["dep_time"].isna().sum())
    assert verify_store(store).findings == []


@pytest.mark.skipif(
    LEVEL == "sample",
    reason="test_bodies.py decodes them, test_quarantined_rows_are_requeued_once keeps rows: RF_FAULTS=1 runs it",
)
def test_body_that_cannot_be_decoded_fails_the_check_or_is_quarantined_with_the_cause(
    spark: SparkSession, tmp_path: Path
) -> None:
    body = b'{"i": 1}'
    with MessageStore.open(tmp_path / "store") as opened:
        opened.create_topic("data", 1)
        for at, sys_flag in enumerate((0, 0x301, 0x701, 0)):
            properties = {"n": str(at), "QUALITY_REASON": "of an earlier check"}
            opened.put_message(Message("data", body, queue_id=0, sys_flag=sys_flag, properties=properties))
    suite = write_suite(tmp_path / "s.json", NOT_NEGATIVE, schema="i int")
    with pytest.raises(Exception, match=r"topic data, queue 0, queue offset 1.*onBadBody"):
        _run(spark, _job(tmp_path, suite))
    done = _run(spark, _job(tmp_path, suite, options={"onBadBody": "quarantine"}))
    assert (done.rows, done.good, done.malformed, done.quarantined) == (4, 2, 2, 2)
    assert origins(tmp_path / "store", "bad") == [("data", 0, 1), ("data", 0, 2)]
    bad = rows_of(tmp_path / "store", "bad", ["body", "properties"])
    assert [row["body"] for row in bad] == [body, body], "as it is stored"
    properties = [dict(row["properties"]) for row in bad]
    assert properties[0]["QUALITY_REASON"].startswith("cannot be decoded: does not decompress as zlib")
    assert properties[1]["QUALITY_REASON"].startswith("cannot be decoded: compression type 7")
    assert [one["n"] for one in properties] == ["1", "2"]
    raw = {"checkpoint": str(tmp_path / "again"), "options": {"onBadBody": "raw"}, "good_topic": "all"}
    done = _run(spark, _job(tmp_path, suite, **raw))
    assert (done.rows, done.good) == (4, 4), "the stored bytes are what the suite expects"


def test_repeated_batch_is_written_once(spark: SparkSession, tmp_path: Path) -> None:
    """The state after a kill between RocketFlow's commit and Spark's; the suite may have changed meanwhile."""
    fill(tmp_path / "store", "data", [{"i": one} for one in (1, -1, 2, -2)])
    job = _job(tmp_path, write_suite(tmp_path / "s.json", NOT_NEGATIVE, schema="i int"))
    assert _run(spark, job).quarantined == 2
    before = rows_of(tmp_path / "store", "good", ["queueOffset"]), origins(tmp_path / "store", "bad")
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(checkpoint, tmp_path / "kept")
    (checkpoint / "commits" / "0").unlink()
    write_suite(
        tmp_path / "s.json", ("expect_column_values_to_be_between", {"column": "i", "min_value": -1}), schema="i int"
    )
    done = _run(spark, job)
    assert (done.replayed, done.rows) == (1, 0)
    assert (rows_of(tmp_path / "store", "good", ["queueOffset"]), origins(tmp_path / "store", "bad")) == before
    # a checkpoint that plans other rows under a committed batch id is refused, and so is a new one under an old id
    shutil.rmtree(checkpoint)
    shutil.copytree(tmp_path / "kept", checkpoint)
    (checkpoint / "commits" / "0").unlink()
    (checkpoint / "offsets" / "0").unlink()
    fill(tmp_path / "store", "data", [{"i": 5}])
    with pytest.raises(ReplayMismatchError):
        _run(spark, job)
    query = json.loads((checkpoint / "metadata").read_text())["id"]
    shutil.rmtree(checkpoint)
    other = QualityJob(**{**{name: getattr(job, name) for name in job.__slots__}, "sink_id": f"quality.{query}"})
    with pytest.raises(CheckpointWentBackError, match="must use another --sink-id"):
        _run(spark, other)
    assert (rows_of(tmp_path / "store", "good", ["queueOffset"]), origins(tmp_path / "store", "bad")) == before


def test_quarantined_rows_are_requeued_once(spark: SparkSession, tmp_path: Path) -> None:
    """After a wrong suite is corrected, the rows that it quarantined are checked again as new messages."""
    from rocketflow.spark.requeue.requeue_arguments import parse_arguments
    from rocketflow.spark.requeue.requeue_job import run_with_spark, run_without_spark

    store = tmp_path / "store"
    fill(store, "data", [{"i": one} for one in (1, -1, 2, -200)])
    assert _run(spark, _job(tmp_path, write_suite(tmp_path / "s.json", NOT_NEGATIVE, schema="i int"))).quarantined == 2
    corrected = ("expect_column_values_to_be_between", {"column": "i", "min_value": -9})
    job = _job(tmp_path, write_suite(tmp_path / "s.json", corrected, schema="i int"))
    back = parse_arguments(["--store", str(store), "--from-topic", "bad", "--run-id", "corrected"])
    for _ in range(2):  # and again
        _, code = run_without_spark(back) or run_with_spark(spark, back)
        assert code == 0
    assert (_run(spark, job).rows, _run(spark, job).rows) == (2, 0)
    assert sorted(json.loads(row["body"])["i"] for row in rows_of(store, "good", ["body"])) == [-1, 1, 2]
    bad = [dict(row["properties"]) for row in rows_of(store, "bad", ["properties"])]
    assert len(bad) == 3, "two of the first suite, one of the second"
    assert len({one["QUALITY_SUITE_VERSION"] for one in bad}) == 2
    assert {(one["ORIGIN_QUEUE_ID"], one["ORIGIN_QUEUE_OFFSET"]) for one in bad} >= {("1", "0"), ("1", "1")}


@pytest.mark.skipif(LEVEL == "sample", reason="half a minute of Spark: RF_FAULTS=1 runs it")
def test_failing_validator_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """H2: an expectation that raises, a worker that dies, an expectation with action `fail`."""
    store = tmp_path / "store"
    fill(store, "data", [{"i": one} for one in (1, -1, 7, 3)])
    spark.udf.register("dies", lambda value: os.kill(os.getpid(), 9) if value == 7 else False, "boolean")
    query = "SELECT * FROM {{batch}} WHERE {}"
    raising = "CASE WHEN i = 7 THEN raise_error('planted') ELSE false END"
    failing = {"type": NOT_NEGATIVE[0], "kwargs": NOT_NEGATIVE[1], "meta": {"rocketflow": {"action": "fail"}}}
    for asked, what in (
        (("unexpected_rows_expectation", {"unexpected_rows_query": query.format(raising)}), "planted"),
        (("unexpected_rows_expectation", {"unexpected_rows_query": query.format("dies(i)")}), "crashed|exited"),
        (
            failing,
            r"topic data, batch 0 .*: expect_column_values_to_be_between\(i\)#2: 1 unexpected of 4; nothing of it was ",
        ),
    ):
        job = _job(tmp_path, write_suite(tmp_path / "s.json", NOT_NEGATIVE, asked, schema="i int"))
        with pytest.raises(Exception, match=what) as caught:
            _run(spark, job)
        assert isinstance(caught.value, QualityFailedError) is (asked is failing)
        for topic in ("good", "bad", RESULT_TOPIC):
            assert rows_of(store, topic, ["queueOffset"]) == [], f"{topic} after {what}"
        staging = store / "rocketflow" / "staging"
        left = list(staging.rglob("p*-a*")) if staging.exists() else []
        assert left == []
    # the same checkpoint continues with a corrected suite
    assert _run(spark, _job(tmp_path, write_suite(tmp_path / "s.json", NOT_NEGATIVE, schema="i int"))).good == 3


@pytest.mark.skipif(LEVEL == "sample", reason="half a minute of Spark: RF_FAULTS=1 runs it")
def test_table_expectation_quarantines_the_batch_and_a_warning_does_not(spark: SparkSession, tmp_path: Path) -> None:
    """A table-level expectation quarantines all rows of a batch; warnings quarantine none, also if all rows are bad."""
    store = tmp_path / "store"
    fill(store, "data", [{"i": one} for one in (-1, -2, -3)])
    warned = {"type": NOT_NEGATIVE[0], "kwargs": NOT_NEGATIVE[1], "severity": "warning"}
    file = write_suite(
        tmp_path / "s.json",
        warned,
        ("expect_column_mean_to_be_between", {"column": "i", "max_value": 0}),
        ("expect_column_values_to_be_unique", {"column": "i"}),
        schema="i int",
    )
    job = _job(tmp_path, file, action=Action.QUARANTINE, sink=str(tmp_path / "other"))
    assert _run(spark, job).good == 3
    fill(store, "data", [{"i": one} for one in (-1, 5, 5, 90)])
    done = _run(spark, job)
    assert (done.good, done.quarantined) == (0, 4)
    result = read_results(str(tmp_path / "other"))
    assert [one.fields["outcome"] for one in result] == ["warned", "batch quarantined"]
    violations = [
        dict(row["properties"])["QUALITY_VIOLATIONS"] for row in rows_of(tmp_path / "other", "bad", ["properties"])
    ]
    assert all("expect_column_mean_to_be_between(i)" in one for one in violations)
    assert sum("expect_column_values_to_be_unique(i)" in one for one in violations) == 2
    # an empty batch: a tag that no message has
    empty = _job(tmp_path / "e", file, source=str(store), options={"tags": "missing"})
    assert _run(spark, empty).good == 0


@pytest.mark.skipif(LEVEL == "sample", reason="a stream of its own: RF_FAULTS=1 runs it")
def test_rows_of_a_quarantined_batch_keep_their_properties(spark: SparkSession, tmp_path: Path) -> None:
    """They name their own violations, as without the gate, and the gate's."""
    store = tmp_path / "store"
    own = [{"own": "a"}, {"own": "b"}, {"own": "c" * 17_000}, {"own": "d", "QUALITY_PROPERTIES_LEFT_OUT": "true"}]
    with MessageStore.open(store) as opened:
        for value, properties in zip((1, -1, -2, 4), own, strict=True):
            body = json.dumps({"i": value}).encode()
            opened.put_message(Message("data", body, queue_id=0, tags="t", properties=properties))
        opened.put_message(Message("data", b"{", queue_id=0, properties={"own": "e"}))
    mean = ("expect_column_mean_to_be_between", {"column": "i", "min_value": 100})
    done = _run(spark, _job(tmp_path, write_suite(tmp_path / "s.json", NOT_NEGATIVE, mean, schema="i int")))
    assert (done.good, done.quarantined, done.malformed) == (0, 5, 1)
    assert origins(store, "bad") == [("data", 0, at) for at in range(5)]
    rows = rows_of(store, "bad", ["body", "tags", "properties"])
    found = [dict(row["properties"]) for row in rows]
    assert [row["tags"] for row in rows] == ["t", "t", "t", "t", None]
    assert [one.get("own") for one in found] == ["a", "b", None, "d", "e"]
    assert [one.get("QUALITY_PROPERTIES_LEFT_OUT") for one in found] == [None, None, "true", None, None]
    violations = [[each["expectation"] for each in json.loads(one["QUALITY_VIOLATIONS"])] for one in found]
    gate, row = "expect_column_mean_to_be_between(i)", "expect_column_values_to_be_between(i)"
    assert violations == [[gate], [gate, row], [gate, row], [gate], ["body_matches_schema", gate]]


SEEN: list[tuple[int, int]] = []


def remember(rows: DataFrame, batch_id: int) -> None:
    """Remember the good rows: the function that `--good-foreach` names."""
    SEEN.extend((batch_id, row.i) for row in rows.orderBy("i").collect())


@pytest.mark.skipif(LEVEL == "sample", reason="a stream of its own: RF_FAULTS=1 runs it")
def test_good_foreach_function_gets_the_good_rows(spark: SparkSession, tmp_path: Path) -> None:
    fill(tmp_path / "store", "data", [{"i": one} for one in (3, -1, 2)], tags=["a", "b", "a"])
    file = write_suite(
        tmp_path / "s.json", NOT_NEGATIVE, ("expect_column_values_to_not_be_null", {"column": "tags"}), schema="i int"
    )
    SEEN.clear()
    done = _run(spark, _job(tmp_path, file, good_foreach="tests.rocketflow.quality.test_stream:remember"))
    assert SEEN == [(0, 2), (0, 3)]
    assert (done.good, done.quarantined) == (2, 1)
    assert [one["tags"] for one in rows_of(tmp_path / "store", "bad", ["tags"])] == ["b"]
    assert rows_of(tmp_path / "store", "good", ["tags"]) == []


def test_bodies_that_a_parser_reads_in_part_are_quarantined(spark: SparkSession, tmp_path: Path) -> None:
    """Each body that is not exactly one JSON object is quarantined, and stops nothing."""
    bad = [
        b'{"a":1} garbage', b'{"a":1}{"a":2}', b'{"a":1},{"a":2}', b"{'a':1}", b'[{"a":1}]', b'{"a":' + b"[" * 100_000,
        b'{"b":"}', b"{}}", b'\n[{"a":1}]', b'[{"a":1}', b'{"a":1}]', b'{"a":{"b":1}} {}', b'{"a":1} ]',
    ]  # fmt: skip
    good = [
        b'{"a":1}', b' {"a":2}\n', b'{"a":2} ', b'{"a":3,"x":[{"y":1},{"y":2}]}', b'{"x":{"y":{}},"a":3}\t',
        b'{"a":4,"x":"} {"}', b'{"a":5,"x":"},{"}', b'{"a":6,"x":"}]"}',
    ]  # fmt: skip
    fill(tmp_path / "store", "data", [*bad, *good], 1)
    suite = write_suite(tmp_path / "s.json", ("expect_table_row_count_to_be_between", {"min_value": 0}))
    done = _run(spark, _job(tmp_path, suite, body_schema="a int"))
    assert (done.good, done.quarantined, done.malformed) == (len(good), len(bad), len(bad))
    assert [one["body"] for one in rows_of(tmp_path / "store", "good", ["body"])] == good


@pytest.mark.skipif(LEVEL == "sample", reason="a stream of its own: RF_FAULTS=1 runs it")
def test_values_that_are_no_json_strings_break_a_string_of_a_json_schema(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's parser, as used with a DDL, converts any value to a string."""
    inner = {"type": "object", "properties": {"k's": {"type": ["string", "null"]}}}
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"type": "object", "properties": {"s": {"type": "string"}, "in": inner}}))
    bad = [b'{"s":1}', b'{"s":{"a":1}}', b'{"s":["a"]}', b'{"s":true}', b'{"s":"x","in":{"k\'s":5}}']
    good = [b'{"s":"1"}', b'{"s":null}', b"{}", b'{"s":"x","in":{"k\'s":"5"}}', b'{"s":"x","in":null}']
    fill(tmp_path / "store", "data", [*bad, *good], 1)
    suite = write_suite(tmp_path / "s.json", ("expect_table_row_count_to_be_between", {"min_value": 0}))
    done = _run(spark, _job(tmp_path, suite, body_schema=str(schema)))
    assert (done.good, done.malformed) == (len(good), len(bad))
    assert [one["body"] for one in rows_of(tmp_path / "store", "good", ["body"])] == good
    reasons = [dict(one["properties"])["QUALITY_REASON"] for one in rows_of(tmp_path / "store", "bad", ["properties"])]
    assert ["is no string" in one for one in reasons] == [True] * len(bad)
    assert "field in.k's is no string: 5" in reasons[-1]


@pytest.mark.skipif(LEVEL == "sample", reason="a third of a minute of Spark: RF_FAULTS=1 runs it")
def test_violations_are_cut_to_the_room_of_a_record(spark: SparkSession, tmp_path: Path) -> None:
    names = "abcdefghij"
    fill(tmp_path / "store", "data", [json.dumps(dict.fromkeys(names, "漢" * 64)).encode()], 1)
    everything = f"SELECT * FROM {{batch}} WHERE {' + '.join(f'length({one})' for one in names)}"
    broken = [
        ("expect_compound_columns_to_be_unique", {"column_list": list(names[:2])}),
        *(("unexpected_rows_expectation", {"unexpected_rows_query": f"{everything} > {most}"}) for most in range(16)),
        *(("expect_column_value_lengths_to_be_between", {"column": one, "max_value": 1}) for one in names[:5]),
    ]
    suite = write_suite(tmp_path / "s.json", *broken)
    done = _run(spark, _job(tmp_path, suite, body_schema=", ".join(f"{one} string" for one in names)))
    assert (done.good, done.quarantined) == (0, 1)
    (row,) = rows_of(tmp_path / "store", "bad", ["properties"])
    violations = dict(row["properties"])["QUALITY_VIOLATIONS"]
    assert len(violations.encode()) <= 12_000
    assert [list(one) for one in json.loads(violations)] == [["expectation"]] * 20


@pytest.mark.skipif(LEVEL == "sample", reason="a third of a minute of Spark: RF_FAULTS=1 runs it")
def test_several_unique_columns_and_quantiles_are_judged_together(spark: SparkSession, tmp_path: Path) -> None:
    bodies = [json.dumps({"a": n, "b": n // 2, "c": min(n, 7)}).encode() for n in range(10)]
    fill(tmp_path / "store", "data", bodies, 1)
    quantiles = {"quantiles": [0.1, 0.5], "value_ranges": [[0, 5], [3, 7]]}
    suite = write_suite(
        tmp_path / "s.json",
        *(("expect_column_values_to_be_unique", {"column": one}) for one in "ac"),
        ("expect_column_quantile_values_to_be_between", {"column": "a", "quantile_ranges": quantiles}),
    )
    done = _run(spark, _job(tmp_path, suite, body_schema="a int, b int, c int"))
    assert (done.good, done.quarantined) == (7, 3)
    (result,) = read_results(str(tmp_path / "store"))
    assert not result.fields["success"]


def test_copies_of_delivered_delayed_messages_are_not_delayed_again(spark: SparkSession, tmp_path: Path) -> None:
    """Delivered messages still have the property of their delay level, which must not delay good or bad copies."""
    clock = ManualClock(1_700_000_000_000)
    with MessageStore.open(tmp_path / "store", StoreConfig(clock=clock)) as opened:
        for body in (b'{"i": 1}', b'{"i": -3}'):
            opened.put_message(Message("data", body, queue_id=0, delay_time_level=1, properties={"own": "kept"}))
        clock.set(clock.now_ms() + 5_000)
        deliver_due(opened)
    done = _run(spark, _job(tmp_path, write_suite(tmp_path / "s.json", NOT_NEGATIVE, schema="i int")))
    assert (done.rows, done.quarantined) == (2, 1)
    for topic, body in (("good", b'{"i": 1}'), ("bad", b'{"i": -3}')):
        (row,) = rows_of(tmp_path / "store", topic, ["body", "properties"])
        assert row["body"] == body
        assert dict(row["properties"])["own"] == "kept"
        assert "DELAY" not in dict(row["properties"])


@pytest.mark.skipif(LEVEL == "sample", reason="a third of a minute of Spark: RF_FAULTS=1 runs it")
def test_bad_message_that_fills_its_record_is_quarantined_without_some_parts(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Parts of its own are omitted, its origin never. A good message stays as it is."""
    store = tmp_path / "store"
    sizes = [31_000, 32_500, 20_000, 31_000]
    with MessageStore.open(store) as opened:
        for value, size in zip((-1, -2, -3, 4), sizes, strict=True):
            properties = {"own": "o" * 12_000} if size == 20_000 else {"own": "kept"}
            body = json.dumps({"i": value, "s": "x" * 100}).encode()
            opened.put_message(Message("data", body, queue_id=0, tags="t" * size, properties=properties))
        opened.put_message(Message("data", b"no json", queue_id=0, tags="漢" * 10_000, keys="k"))
    suite = write_suite(
        tmp_path / "s.json",
        NOT_NEGATIVE,
        *(("expect_column_value_lengths_to_be_between", {"column": "s", "max_value": most}) for most in range(30)),
    )
    done = _run(spark, _job(tmp_path, suite, body_schema="i int, s string", action=Action.QUARANTINE))
    assert (done.rows, done.quarantined, done.malformed) == (5, 5, 1)
    assert origins(store, "bad") == [("data", 0, at) for at in range(5)]
    rows = rows_of(store, "bad", ["tags", "keys", "properties"])
    found = [dict(one["properties"]) for one in rows]
    assert all(one["QUALITY_SUITE"] == "tested" and one["ORIGIN_MSG_ID"] for one in found)
    assert [len(one["tags"] or "") for one in rows] == [31_000, 0, 20_000, 31_000, 10_000]
    assert [one.get("QUALITY_TAGS_LEFT_OUT") for one in found] == [None, "true", None, None, None]
    assert [one.get("own") for one in found[:2]] == ["kept", "kept"]
    violations = [[each["expectation"] for each in json.loads(one["QUALITY_VIOLATIONS"])] for one in found]
    assert all(one[0] == "expect_column_values_to_be_between(i)" for one in violations[:3])
    assert (violations[4], found[4]["QUALITY_REASON"][:11]) == (["body_matches_schema"], "is not JSON")
    assert verify_store(store).findings == []


def test_violation_of_a_condition_in_sql_shows_the_values_of_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    """They are found in any spelling of the condition, and long values are cut."""
    bodies = [{"a`b": 5, "s": "x" * 100, "n": {"k": 1}, "other": 1}, {"a`b": 1, "s": "", "other": 2}]
    fill(tmp_path / "store", "data", bodies, 1)
    query = "SELECT * FROM {batch} WHERE `A``B` > 3 AND length(S) > 2 AND n.k = 1 AND 'other' <> ''"
    file = write_suite(tmp_path / "s.json", ("unexpected_rows_expectation", {"unexpected_rows_query": query}))
    schema = "`a``b` int, s string, n struct<k: int>, other int"
    assert _run(spark, _job(tmp_path, file, body_schema=schema)).quarantined == 1
    (row,) = rows_of(tmp_path / "store", "bad", ["properties"])
    (violation,) = json.loads(dict(row["properties"])["QUALITY_VIOLATIONS"])
    assert violation["observed"] == {"a`b": "5", "s": "x" * 64, "n": "{1}"}


@pytest.mark.skipif(LEVEL == "sample", reason="a Spark of its own: RF_FAULTS=1 runs it")
def test_job_with_a_failed_expectation_ends_with_one_error_line(tmp_path: Path) -> None:
    fill(tmp_path / "store", "data", [{"i": one} for one in (1, -1, 7, 3)])
    file = write_suite(tmp_path / "s.json", NOT_NEGATIVE, schema="i int")
    command = [
        sys.executable,
        "-c",
        COMMAND_LINE,
        "submit",
        "quality",
        "--source",
        str(tmp_path / "store"),
        "--suite",
        file,
    ]
    command += [
        "--subscribe",
        "data",
        "--quarantine-topic",
        "bad",
        "--checkpoint",
        str(tmp_path / "c"),
        "--action",
        "fail",
    ]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=240)
    assert done.returncode == 1
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith(
        "error: topic data, batch 0 (data/0 [0, 2), data/1 [0, 2)): expect_column_values_to_be_between"
    )
    assert last.endswith(
        "nothing of it was written. Correct the suite, or set action quarantine; then start again on this checkpoint"
    )
    assert "Traceback" not in done.stderr
