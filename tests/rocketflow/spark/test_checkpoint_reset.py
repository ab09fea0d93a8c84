"""`rocketflow checkpoint`: a query goes on where a reset says, and its sink stores each batch once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from rocketflow.cli.app import run as command
from rocketflow.spark.source.batch_log import read_batch_log
from rocketflow.spark.source.stream_offset import CheckpointError, StreamOffset
from rocketflow.spark.stream.stream_job import StreamJob, run
from rocketflow_store import StoreReader
from rocketflow_store.spi.reads import stored_at
from tests.support.network_stores import Brokers, brokers, write
from tests.support.output_fields import check_fields
from tests.support.planned_query import PlannedQuery
from tests.support.spark_stores import append, numbered
from tests.support.trials import LEVEL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Place(NamedTuple):
    """The address that a query reads and writes, and the directory of that store."""

    address: str
    store: Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Run a broker with a store of 48 messages in 4 queues."""
    with brokers(tmp_path_factory.mktemp("reset")) as found:
        write(found.home / "a", numbered("t", range(48)))
        found.start("a")
        yield found


@pytest.fixture(params=["path", "network"] if LEVEL != "sample" else ["path"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Provide the same store by path and through a broker."""
    if request.param == "path":
        append(tmp_path / "s", numbered("t", range(48)))
        return Place(str(tmp_path / "s"), tmp_path / "s")
    found: Brokers = request.getfixturevalue("cluster")
    return Place(found.address, found.store("a"))


def copied(place: Place) -> Counter[int]:
    with StoreReader(place.store) as reader:
        return Counter(
            int(body)
            for queue in reader.queues("copy")
            for rows in reader.read("copy", queue, *reader.bounds("copy", queue), columns=["body"])
            for body in rows.column("body").to_pylist()
        )


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert command(["checkpoint", *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    check_fields(f"checkpoint {arguments[0]}", found)
    return found


@pytest.mark.spark
def test_query_goes_on_where_a_reset_says_and_its_sink_stores_each_batch_once(
    spark: SparkSession, place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "cp"
    limit = {"maxOffsetsPerTrigger": "24"}
    job = StreamJob(place.address, "t", place.address, str(home), topic="copy", options=limit)
    assert run(spark, job).batches == 2
    (home / "commits" / "1").unlink()  # a driver that was killed after its sink had committed
    expected = Counter(range(48))
    before = {one: one.read_bytes() for one in sorted(home.rglob("*")) if one.is_file()}

    state = shown(capsys, "show", str(home), "--source", place.address)
    assert (state["committedBatch"], state["plannedBatch"], state["resetWaits"]) == (0, 1, False)
    assert [(one["nextOffset"], one["plannedOffset"], one["maxOffset"], one["lag"]) for one in state["queues"]] == [
        (6, 12, 12, 6)
    ] * 4

    arguments = ["reset", str(home), "--source", place.address, "--to-offset", "t:1=9", "--to-offset", "t:3=-1"]
    plan = shown(capsys, *arguments)
    assert [(one["from"], one["to"]) for one in plan["queues"]] == [(6, 6), (6, 9), (6, 6), (6, 12)]
    assert not plan["executed"]
    assert {one: one.read_bytes() for one in sorted(home.rglob("*")) if one.is_file()} == before
    done = shown(capsys, *arguments, "--yes")
    assert (done["executed"], done["batch"], done["queues"]) == (True, 2, plan["queues"])
    assert {one: one.read_bytes() for one in before} == before
    assert {str(one) for one in home.rglob("*") if one.is_file()} - set(map(str, before)) == {done["file"]}
    assert shown(capsys, "show", str(home))["resetWaits"]

    assert run(spark, job).rows == 6 + 3 + 6
    expected.update(one for one in range(48) if one // 4 >= {0: 6, 1: 9, 2: 6, 3: 12}[one % 4])
    assert copied(place) == expected

    shown(
        capsys, "reset", str(home), "--source", str(place.store), "--to-earliest", "--yes"
    )  # by path, wherever it reads
    assert run(spark, job).rows == 48
    expected.update(range(48))
    assert copied(place) == expected


def started(spark: SparkSession, store: Path, home: Path, *, distinct: bool = False, **trigger: Any) -> StreamingQuery:
    """Start a query that copies topic t to topic copy."""
    read = spark.readStream.format("rocketflow").option("subscribe", "t").option("startingOffsets", "earliest")
    rows = read.load(str(store)).selectExpr("cast(body as string) as body")
    if distinct:
        rows = rows.dropDuplicates(["body"])
    options = {"path": str(store), "topic": "copy", "checkpointLocation": str(home)}
    return rows.writeStream.format("rocketflow").options(**options).trigger(**trigger).start()


@pytest.mark.spark
@pytest.mark.skipif(LEVEL == "sample", reason="it checks Spark more than this command: RF_FAULTS=1 runs it")
def test_running_query_fails_at_its_next_batch_after_a_reset_and_its_next_run_begins_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    store, home = tmp_path / "s", tmp_path / "cp"
    append(store, numbered("t", range(48)))
    query = started(spark, store, home, processingTime="100 milliseconds")
    try:
        while not (home / "commits" / "0").exists():
            assert query.isActive, query.exception()
            query.awaitTermination(0.1)  # type: ignore[arg-type]
        assert command(["checkpoint", "reset", str(home), "--source", str(store), "--to-offset", "t:1=2", "--yes"]) == 0
        append(store, numbered("t", range(48, 52)))
        with pytest.raises(Exception, match="CONCURRENT_STREAM_LOG_UPDATE"):
            query.awaitTermination(60)
    finally:
        query.stop()
    started(spark, store, home, availableNow=True).awaitTermination()
    assert copied(Place("", store)) == Counter([*range(52), *range(9, 48, 4)])


@pytest.mark.spark
@pytest.mark.skipif(LEVEL == "sample", reason="it checks Spark more than this command: RF_FAULTS=1 runs it")
def test_query_with_state_keeps_it_over_a_reset(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, home = tmp_path / "s", tmp_path / "cp"
    append(store, numbered("t", range(48)))
    started(spark, store, home, distinct=True, availableNow=True).awaitTermination()
    reset = ["checkpoint", "reset", str(home), "--source", str(store), "--to-earliest", "--yes"]
    assert command(reset) == 0
    assert command(reset) == 2
    assert "has state and a reset that waits (batch 1): run the query until" in capsys.readouterr().err
    append(store, numbered("t", range(48, 52)))
    query = started(spark, store, home, distinct=True, availableNow=True)
    query.awaitTermination()
    assert [one["numInputRows"] for one in query.recentProgress] == [0, 52]
    assert copied(Place("", store)) == Counter(range(52))


class Logged(NamedTuple):
    """A checkpoint without Spark, of a query over a store of its own."""

    home: Path
    store: Path

    def entry(self, kind: str, batch: int, *lines: str) -> Path:
        file = self.home / kind / str(batch)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(("v1", '{"batchWatermarkMs":5,"batchTimestampMs":1,"conf":{"a":"b"}}', *lines)))
        return file

    def reset(self, *arguments: str) -> int:
        return command(["checkpoint", "reset", str(self.home), "--source", str(self.store), *arguments])


@pytest.fixture
def logged(tmp_path: Path) -> Logged:
    """Provide the checkpoint of a query that has read 48 messages in two batches and committed them."""
    found = Logged(tmp_path / "cp", tmp_path / "s")
    append(found.store, numbered("t", range(48)))
    query = PlannedQuery(found.store, subscribe="t", maxOffsetsPerTrigger="24")
    query.drain()
    for batch, offset in enumerate(query.log[1:]):
        found.entry("offsets", batch, offset)
        (found.home / "commits").mkdir(exist_ok=True)
        (found.home / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":9}')
    (found.home / "metadata").write_text('{"id":"7969773c-baba-42ed-b0de-c245cc025d44"}')
    return found


def test_batch_of_a_reset_has_no_rows_and_the_next_one_begins_there(logged: Logged) -> None:
    assert logged.reset("--to-offset", "t:2=5", "--to-offset", "t:0=-2", "--yes") == 0
    query = PlannedQuery(logged.store, subscribe="t")
    before, reset = (logged.home / "offsets" / name for name in ("1", "2"))
    lines = reset.read_text().splitlines()
    metadata = json.loads(lines[1])
    assert (metadata.pop("batchTimestampMs") > 1, metadata) == (True, {"batchWatermarkMs": 9, "conf": {"a": "b"}})
    assert query.read(json.loads(before.read_text().splitlines()[2]), json.loads(lines[2])) == []
    query.log = [lines[2]]
    query.drain()
    assert query.numbers() == sorted([*range(0, 48, 4), *range(22, 48, 4)])
    assert logged.reset("--to-latest", "--yes") == 0
    forward = (logged.home / "offsets" / "3").read_text().splitlines()
    query = PlannedQuery(logged.store, subscribe="t")
    assert query.read(json.loads(lines[2]), json.loads(forward[2])) == []
    query.log = [forward[2]]
    query.drain()
    assert query.rows == []


def test_reset_to_a_time_takes_the_first_message_stored_then_or_later(
    logged: Logged, capsys: pytest.CaptureFixture[str]
) -> None:
    with StoreReader(logged.store) as reader:
        stored_ms = stored_at(reader, "t", 2, 7)
        assert stored_ms is not None
        at = {queue: reader.search_by_time("t", queue, stored_ms).offset for queue in range(4)}
    for time, expected in (
        (str(stored_ms), at),
        ("2001-01-01", dict.fromkeys(at, 0)),
        ("2100-01-01", dict.fromkeys(at, 12)),
    ):
        plan = shown(
            capsys, "reset", str(logged.home), "--source", str(logged.store), "--to-time", time, "--topic", "t"
        )
        assert {one["queueId"]: one["to"] for one in plan["queues"]} == expected


def test_queues_that_a_reset_does_not_name_repeat_a_batch_that_has_not_ended(
    logged: Logged, capsys: pytest.CaptureFixture[str]
) -> None:
    (logged.home / "commits" / "1").unlink()
    plan = shown(capsys, "reset", str(logged.home), "--source", str(logged.store), "--to-offset", "t:1=9")
    assert [(one["from"], one["to"]) for one in plan["queues"]] == [(6, 6), (6, 9), (6, 6), (6, 6)]


def test_first_batch_that_has_not_ended_can_be_reset_as_a_whole_only(
    logged: Logged, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("offsets/1", "commits/0", "commits/1"):
        (logged.home / name).unlink()
    assert logged.reset("--to-offset", "t:1=3") == 2
    assert "begin of the query's first batch is not stored" in capsys.readouterr().err
    assert logged.reset("--to-latest", "--yes") == 0
    assert read_batch_log(str(logged.home)).waits
    out = capsys.readouterr().out.splitlines()
    assert out[:3] == [
        "no batch has ended; batch 0 is planned and has not ended",
        "queue  from  to  difference",
        out[2],
    ]
    assert out[2].split() == ["t:0", "-", "12", "-"]


def test_queues_that_do_not_exist_any_more_are_dropped_and_new_ones_are_noted(
    logged: Logged, capsys: pytest.CaptureFixture[str]
) -> None:
    offset = json.loads((logged.home / "offsets" / "1").read_text().splitlines()[2])
    queues = offset["queues"]["t"]
    queues["7"] = queues.pop("3")
    logged.entry("offsets", 1, json.dumps(offset))
    assert logged.reset("--to-earliest", "--yes") == 0
    err = capsys.readouterr().err
    assert "note: topic t queue 3: not in the checkpoint, read from the beginning" in err
    assert "the reset drops them" in err
    assert {key.queue_id for key in read_batch_log(str(logged.home)).starts()} == {0, 1, 2}


def test_reset_beside_a_query_that_plans_the_same_batch_changes_nothing(logged: Logged) -> None:
    log = read_batch_log(str(logged.home))
    planned = logged.entry("offsets", 2, "{}")
    with pytest.raises(CheckpointError, match=r"offsets/2 was written meanwhile: the query is running; stop it"):
        log.append(StreamOffset({}, resets=True), 1)
    assert planned.read_text().endswith("{}")
    assert sorted(one.name for one in planned.parent.iterdir()) == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "give one of --to-earliest, --to-latest, --to-time and --to-offset"),
        (("--to-latest", "--to-earliest"), "give one of"),
        (("--to-offset", "t1"), "--to-offset 't1': TOPIC:QUEUE=N is expected"),
        (("--to-offset", "t:1=3", "--to-offset", "t:1=4"), "topic t queue 1 twice"),
        (("--to-offset", "t:1=13"), "--to-offset t:1=13: the queue holds 0 to 12"),
        (("--to-offset", "t:9=1"), "topic t has no queue 9 with messages in this checkpoint"),
        (("--to-offset", "tt:1=3"), "topic tt is not in this checkpoint: did you mean t?"),
        (("--to-latest", "--topic", "u"), "--topic: topic u is not in this checkpoint"),
        (("--to-offset", "t:1=3", "--topic", "t"), "give it without --topic"),
        (("--to-time", "yesterday"), "'yesterday' is not a valid time"),
        (("--to-latest", "--option", "subscrib=t"), "unknown option 'subscrib'"),
    ],
)
def test_reset_refuses_what_it_cannot_do(
    logged: Logged, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], why: str
) -> None:
    assert logged.reset(*arguments, "--yes") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert why in err
    assert err.count("\n") == 1
    assert not (logged.home / "offsets" / "2").exists()


KAFKA, FILES = '{"topic":{"0":3}}', '{"logOffset":0}'


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ((KAFKA,), "the checkpoint's offset is not one of format rocketflow"),
        ((FILES,), "the checkpoint's offset is not one of format rocketflow"),
        (('{"queues": {}, "version": 9}',), "has version 9"),
        (("3",), "not one of format rocketflow"),
        (('{"queues"',), "is damaged"),
        ((), "is damaged: it has 2 lines"),
        (("-",), "the query has not read its source yet"),
        (('{"queues": {}, "version": 1}', KAFKA), "of a query with 2 sources"),
    ],
)
def test_checkpoint_of_another_query_is_refused_in_one_line(
    logged: Logged, capsys: pytest.CaptureFixture[str], lines: tuple[str, ...], why: str
) -> None:
    file = logged.entry("offsets", 1, *lines)
    for arguments in (["show"], ["reset", "--source", str(logged.store), "--to-latest", "--yes"]):
        assert command(["checkpoint", arguments[0], str(logged.home), *arguments[1:]]) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"error: {file}")
        assert why in err
        assert err.count("\n") == 1


def test_directory_that_is_no_complete_checkpoint_is_refused_in_one_line(
    logged: Logged, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(location: str) -> str:
        assert command(["checkpoint", "show", location]) == 2
        return capsys.readouterr().err

    home = logged.home
    assert "is not on a file system of this machine" in refused(f"hdfs://host{home}")
    assert "is no checkpoint of a query" in refused(str(logged.store))
    assert command(["checkpoint", "show", f"file://{home}"]) == 0
    (home / "offsets" / "1").unlink()
    assert f"is damaged: {home / 'offsets' / '1'} is missing" in refused(str(home))
    (home / "commits" / "1").unlink()
    (home / "offsets" / "0").write_bytes(b"v2\n{}\n{}")
    assert "is damaged or of another release of Spark: it begins with 'v2'" in refused(str(home))
    (home / "offsets" / "0").write_bytes(b"\xff")
    assert "it is no text" in refused(str(home))
    (home / "offsets" / "0").unlink()
    (home / "commits" / "0").unlink()
    assert "has no batch yet: the query begins where its options" in refused(str(home))


def test_checkpoint_of_another_store_is_refused_in_one_line(logged: Logged, capsys: pytest.CaptureFixture[str]) -> None:
    source = f"a={logged.store},b={logged.store}2"
    append(Path(f"{logged.store}2"), numbered("t", range(4)))
    assert command(["checkpoint", "show", str(logged.home), "--source", source]) == 2
    assert "the checkpoint is of a store without a name, --source is a, b" in capsys.readouterr().err
