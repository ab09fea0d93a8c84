"""The sink in real queries: every batch is stored once, completely or not at all, also when repeated."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql.types import StructType

from rocketflow.spark.data_source import RocketFlowDataSource
from rocketflow.spark.shared.option_values import OptionError
from rocketflow.spark.sink.sink_options import SinkOptions
from rocketflow.spark.sink.writers import make_stream_writer
from rocketflow_store import Message, MessageStore, StoreError, StoreReader
from rocketflow_store.commits.batch_commit import ReplayMismatchError, last_commit
from rocketflow_store.fsck.verify import verify_store
from tests.support.trials import LEVEL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def put(path: Path, bodies: list[str], topic: str = "in") -> None:
    with MessageStore.open(path) as store:
        store.put_messages([Message(topic, body.encode(), keys=[body], tags="t") for body in bodies])


def bodies(path: Path, topic: str = "out") -> Counter[str]:
    with StoreReader(path) as reader:
        return Counter(
            body.decode()
            for queue in reader.queues(topic)
            for batch in reader.read(topic, queue, *reader.bounds(topic, queue), columns=["body"])
            for body in batch.column(0).to_pylist()
        )


def source(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    reader = spark.readStream.format("rocketflow").option("path", str(path)).option("subscribe", "in")
    return reader.option("startingOffsets", "earliest").options(**options).load()


def run(rows: DataFrame, path: Path, checkpoint: Path, **options: str) -> Any:
    query = (
        rows.writeStream.format("rocketflow")
        .option("path", str(path))
        .option("checkpointLocation", str(checkpoint))
        .options(**({} if "topic" in rows.columns else {"topic": "out"}) | options)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    return query


def test_a_stream_copies_each_row_once_and_a_second_run_adds_nothing(spark: SparkSession, tmp_path: Path) -> None:
    path, checkpoint = tmp_path / "s", tmp_path / "c"
    wanted = [f"m{number}" for number in range(300)]
    put(path, wanted[:200])
    rows = source(spark, path, maxOffsetsPerTrigger="70").select("body", "tags", "keys", "bornTimestamp")
    query = run(rows, path, checkpoint)
    run(rows, path, checkpoint)
    assert bodies(path) == Counter(wanted[:200])
    put(path, wanted[200:])
    run(rows, path, checkpoint)
    assert bodies(path) == Counter(wanted)
    with StoreReader(path) as reader:
        last = last_commit(reader, query.id)
        assert last is not None
        assert last.query_id == query.id
        message = reader.query_message("out", "m7")[0]
        assert (message.tags, message.keys) == ("t", ["m7"])
    assert verify_store(path).findings == []
    assert not [one for one in (path / "rocketflow" / "staging").rglob("p*") if one.is_file()]


def test_replay_of_a_committed_batch_with_other_rows_raises(spark: SparkSession, tmp_path: Path) -> None:
    path, checkpoint = tmp_path / "s", tmp_path / "c"
    put(path, [f"m{number}" for number in range(40)])
    rows = source(spark, path)
    run(rows.selectExpr("concat('a', cast(body AS string)) AS body"), path, checkpoint)
    before = bodies(path)
    shutil.rmtree(checkpoint / "commits")
    (checkpoint / "commits").mkdir()
    changed = rows.selectExpr("concat('b', cast(body AS string)) AS body")
    with pytest.raises(Exception, match="came again with 40 rows"):
        run(changed, path, checkpoint)
    assert bodies(path) == before
    run(changed, path, checkpoint, replayMismatch="skip")
    assert bodies(path) == before


def test_new_checkpoint_under_an_old_sink_id_raises(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "s"
    put(path, ["a", "b"])
    rows = source(spark, path).select("body")
    run(rows, path, tmp_path / "c1", sinkId="copy")
    with pytest.raises(Exception, match="must use another sinkId"):
        run(rows, path, tmp_path / "c2", sinkId="copy")
    assert bodies(path) == Counter(["a", "b"])


@pytest.mark.parametrize(
    ("expressions", "why"),
    [
        (["IF(body = 'm7', NULL, body) AS body"], "the body is null"),
        (["body", "IF(body = 'm7', '../x', 'out') AS topic"], "topic '../x'"),
        (["IF(body = 'm7', repeat('x', 5000000), body) AS body"], "maxMessageSize"),
        (["body", "IF(body = 'm7', repeat('k', 40000), 'k') AS keys"], "properties of"),
    ],
)
def test_refused_row_fails_its_batch_and_is_named(
    spark: SparkSession, tmp_path: Path, expressions: list[str], why: str
) -> None:
    path = tmp_path / "s"
    put(path, ["a"])
    text = spark.range(20).selectExpr("concat('m', id) AS body").selectExpr(*expressions)
    write = text.write.format("rocketflow").mode("append").option("path", str(path))
    with pytest.raises(Exception, match=r"partition \d+, row \d+: ") as caught:
        (write if "topic" in text.columns else write.option("topic", "out")).save()
    assert why in str(caught.value)
    assert bodies(path) == Counter()


@pytest.mark.parametrize(
    ("schema", "options", "why"),
    [
        ("body binary, colour int", {}, "unknown column 'colour'"),
        ("body binary", {"topik": "x"}, "did you mean topic"),
        ("keys string", {}, "no column body"),
        ("body bigint", {}, "column body is bigint"),
        ("body binary", {"queues": "none"}, "queues='none'"),
        ("body binary", {"flushDiskType": "maybe"}, "SYNC_FLUSH or ASYNC_FLUSH"),
        ("body binary", {"directIO": "maybe"}, "true or false"),
        ("body binary", {"topic": "a/b"}, "may hold only letters"),
    ],
)
def test_wrong_columns_and_options_are_named(
    spark: SparkSession, tmp_path: Path, schema: str, options: dict[str, str], why: str
) -> None:
    """Spark's worker makes the writer in the same way."""
    asked = RocketFlowDataSource({"path": str(tmp_path / "s"), "topic": "out", **options})
    with pytest.raises(StoreError, match=why):
        asked.streamWriter(StructType.fromDDL(schema), overwrite=False)
    assert not (tmp_path / "s").exists()


def test_query_with_a_wrong_column_fails_at_its_start(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "s"
    put(path, ["a"])
    with pytest.raises(StreamingQueryException, match="unknown column 'colour'"):
        run(source(spark, path).selectExpr("body", "1 AS colour"), path, tmp_path / "c")
    assert bodies(path) == Counter()


def test_option_topic_wins_over_the_column(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql("SELECT 'a' AS body, 'of-column' AS topic UNION ALL SELECT 'b', NULL")
    rows.write.format("rocketflow").mode("append").option("path", str(tmp_path / "s")).option("topic", "out").save()
    assert bodies(tmp_path / "s") == Counter("ab")
    assert bodies(tmp_path / "s", "of-column") == Counter()
    with pytest.raises(Exception, match="may hold only letters"):
        rows.write.format("rocketflow").mode("append").options(path=str(tmp_path / "s"), topic="a/b").save()


def test_a_frame_of_the_source_is_refused_with_the_columns_to_select(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "s"
    put(path, ["a"])
    rows = spark.read.format("rocketflow").options(path=str(path), subscribe="in").load()
    with pytest.raises(Exception, match="queueOffset, uniqKey, msgId") as caught:
        rows.write.format("rocketflow").mode("append").options(path=str(path), topic="out").save()
    said = str(caught.value)
    select = said[said.index("df.select(") + len("df.select(") :].partition(")")[0]
    columns = [one.strip(' "') for one in select.split(",")]
    rows.select(*columns).write.format("rocketflow").mode("append").options(path=str(path), topic="out").save()
    assert bodies(path) == Counter("a")


def test_one_row_batches_spread_over_the_queues(spark: SparkSession, tmp_path: Path) -> None:
    path, checkpoint = tmp_path / "s", tmp_path / "c"
    for number in range(4):
        put(path, [f"m{number}"])
    run(source(spark, path, maxOffsetsPerTrigger="1").select("body"), path, checkpoint, queues="2")
    with StoreReader(path) as reader:
        assert [reader.max_offset("out", queue) for queue in range(2)] == [2, 2]


def test_batch_writes_once_per_txn_id_and_large_parts_go_through_files(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "s"
    rows = spark.range(30_000).selectExpr(
        "concat(id, repeat('-', 100)) AS body",
        "array(cast(id AS string), 'all') AS keys",
        "map('n', string(id)) AS properties",
    )
    for _ in range(2):
        rows.write.format("rocketflow").mode("append").option("path", str(path)).option("topic", "out").option(
            "txnId", "load-1"
        ).save()
    found = bodies(path)
    assert len(found) == 30_000
    assert set(found.values()) == {1}
    with StoreReader(path) as reader:
        message = reader.query_message("out", "123")[0]
        assert message.properties["n"] == "123"
        assert message.keys == ["123", "all"]
        assert len(reader.query_message("out", "all", 64)) == 64
    write = rows.write.format("rocketflow").option("path", str(path)).option("topic", "out")
    with pytest.raises(Exception, match=r'use \.mode\("append"\)'):
        write.mode("overwrite").save()
    for mode in ("errorifexists", "ignore"):  # Spark's own refusal
        with pytest.raises(AnalysisException) as caught:
            write.mode(mode).save()
        assert any('use df.write.mode("append")' in note for note in caught.value.__notes__)
    with pytest.raises(Exception, match="sinkId is for streaming queries: txnId"):
        write.mode("append").option("sinkId", "copy").save()
    assert bodies(path) == found


def test_error_of_an_unsupported_output_mode_names_append(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "s", ["a"])
    rows = source(spark, tmp_path / "s").selectExpr("body")
    cases = [("update", rows), ("complete", rows.groupBy("body").count().select("body"))]
    for mode, counted in cases if LEVEL != "sample" else cases[1:]:
        write = counted.writeStream.format("rocketflow").outputMode(mode).option("topic", "out")
        write = write.option("path", str(tmp_path / "s")).option("checkpointLocation", str(tmp_path / mode))
        with pytest.raises(StreamingQueryException) as caught:
            write.start().awaitTermination(120)
        message = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
        assert '.outputMode("append")' in message, message
    with StoreReader(tmp_path / "s") as reader:
        assert reader.topics() == ["in"]


def test_every_sink_column_is_stored(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "s"
    rows = spark.sql(
        "SELECT 'text' AS body, 'many' AS topic, 'tag' AS tags, 'k1 k2' AS keys, map('a', 'ä') AS properties, "
        "3 AS queueId, 'shard' AS shardingKey, 7 AS flag, 0 AS delayTimeLevel, "
        "timestamp'2020-01-01 00:00:00' AS deliverTimestamp, timestamp'2021-02-03 04:05:06' AS bornTimestamp"
    )
    rows.write.format("rocketflow").mode("append").option("path", str(path)).save()
    with StoreReader(path) as reader:
        message = reader.get_message("many", 3, 0).messages[0]
    assert (message.body, message.tags, message.keys, message.flag) == (b"text", "tag", ["k1", "k2"], 7)
    assert message.properties["a"] == "ä"
    assert message.properties["__SHARDINGKEY"] == "shard"
    assert message.born_timestamp == 1612325106000


@pytest.mark.skipif(LEVEL == "sample", reason="two Sparks; test_starter.py runs one: RF_FAULTS=1 runs it")
def test_stream_job_runs_under_spark_submit(tmp_path: Path) -> None:
    import subprocess

    from rocketflow.spark.submit import submit_command

    path = tmp_path / "s"
    put(path, [f"m{number}" for number in range(50)])
    command = submit_command(
        "stream.py",
        [
            *("--source", str(path), "--subscribe", "in", "--sink", str(path), "--topic", "out"),
            *("--checkpoint", str(tmp_path / "c"), "--sql", "SELECT body FROM messages WHERE queueId < 4"),
            *("--", "--master", "local[2]"),
        ],
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    summary = json.loads(done.stdout.strip().splitlines()[-1])
    assert (summary["job"], summary["rows"]) == ("stream", 50)
    with StoreReader(path) as reader:
        wanted = sum(reader.max_offset("in", queue) for queue in range(4))
    assert sum(bodies(path).values()) == wanted
    wrong = submit_command(
        "stream.py", ["--source", str(tmp_path / "missing"), *command[command.index("--subscribe") :]]
    )
    failed = subprocess.run(wrong, capture_output=True, text=True, timeout=180, check=False)
    assert failed.returncode == 2
    said = failed.stdout + failed.stderr  # spark-submit sends a job's stderr to its own stdout
    assert "missing: does not exist" in said
    assert "Traceback" not in said


def test_empty_replay_of_a_committed_batch_raises(spark: SparkSession, tmp_path: Path) -> None:
    """Without a partition no task names the query of the batch: the checkpoint does."""
    path, checkpoint = tmp_path / "s", tmp_path / "c"
    put(path, ["a", "b", "c"])
    query = run(source(spark, path).select("body"), path, checkpoint)
    options = {"path": str(path), "topic": "out", "checkpointLocation": str(checkpoint)}
    with StoreReader(path) as reader:
        last = last_commit(reader, query.id)
        assert last is not None
    writer = make_stream_writer(options, StructType.fromDDL("body binary"), overwrite=False)
    with pytest.raises(ReplayMismatchError, match="committed with 3 rows"):
        writer.commit([], last.batch_id)
    writer.commit([], last.batch_id + 1)
    assert bodies(path) == Counter(["a", "b", "c"])


def test_keys_of_an_array_with_nulls_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "s"
    rows = spark.sql(
        "SELECT * FROM VALUES ('x', array('k1', CAST(NULL AS string), 'k2')), ('y', array()), ('z', NULL) "
        "AS t(body, keys)"
    )
    rows.write.format("rocketflow").option("path", str(path)).option("topic", "out").mode("append").save()
    with StoreReader(path) as reader:
        assert [one.body for one in reader.query_message("out", "k1")] == [b"x"]
        assert [one.body for one in reader.query_message("out", "k2")] == [b"x"]
    assert bodies(path) == Counter(["x", "y", "z"])


def test_path_that_cannot_be_written_is_named_and_not_changed(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(3).selectExpr("cast(id AS string) AS body")
    a_file = tmp_path / "file"
    a_file.write_text("text")
    other = tmp_path / "other"
    (other / "docs").mkdir(parents=True)
    for path, why in ((a_file, "is a file|directory"), (other, "holds no commitlog")):
        with pytest.raises(Exception, match=why):
            rows.write.format("rocketflow").option("path", str(path)).option("topic", "out").mode("append").save()
    assert a_file.read_text() == "text"
    assert sorted(one.name for one in other.rglob("*")) == ["docs"]


def test_a_failed_batch_leaves_no_staged_part(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path):
        pass
    rows = spark.range(0, 40_000, 1, 1).selectExpr(
        "CASE WHEN id = 39999 THEN NULL ELSE cast(repeat('x', 200) AS binary) END AS body"
    )
    with pytest.raises(Exception, match="the body is null"):
        rows.write.format("rocketflow").option("path", str(path)).option("topic", "out").mode("append").save()
    assert [one for one in (path / "rocketflow" / "staging").rglob("*p[0-9]*") if one.is_file()] == []


@pytest.mark.parametrize("direct_io", ["true", "false"] if LEVEL != "sample" else ["true"])
def test_large_batches_reuse_the_staged_files_of_earlier_ones(
    spark: SparkSession, tmp_path: Path, direct_io: str
) -> None:
    path, checkpoint = tmp_path / "s", tmp_path / "c"
    wanted = [f"m{number}-".ljust(4000, "x") for number in range(1800)]
    put(path, wanted)
    rows = source(spark, path, maxOffsetsPerTrigger="600").select("body")
    query = run(rows, path, checkpoint, directIO=direct_io)
    assert len([one for one in query.recentProgress if one["numInputRows"]]) == 3
    assert bodies(path) == Counter(wanted)
    assert any((path / "rocketflow" / "spare").iterdir())
    assert verify_store(path).findings == []


@pytest.mark.parametrize("path", ["s3://bucket/store", "hdfs://nn/store"])
def test_path_on_another_file_system_raises(path: str) -> None:
    with pytest.raises(OptionError, match=r"option path='\w+://.*local file system"):
        SinkOptions.parse({"path": path, "topic": "t"})
    assert SinkOptions.parse({"path": "file:///a/b%20c", "topic": "t"}).path == "/a/b c"
