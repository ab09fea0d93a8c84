"""Requeue by hand: dead letters and quarantined rows go to their origin topic once, however often a run is repeated."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rocketflow.process.job_entry import run_job
from rocketflow.spark.requeue import manual_requeue, requeue_job
from rocketflow.spark.requeue.manual_requeue import ManualResult, requeue_on_spark
from rocketflow.spark.requeue.requeue_arguments import RequeueJob, parse_arguments
from rocketflow.spark.requeue.requeue_job import main
from rocketflow.spark.requeue.requeue_where import Chooser, WhereError
from rocketflow_store import FlushDiskType, Message, MessageStore, ReceivedMessage, StoreConfig, StoreReader
from rocketflow_store.delivery.requeue.requeue_choice import NoOriginError, windows
from rocketflow_store.delivery.requeue.requeue_run import RequeueMismatchError, RequeueRequest
from rocketflow_store.delivery.requeue.send_back import SendBack, consumer_send_msgs_back
from rocketflow_store.files import lock
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.compression import compress_body
from tests.support.output_fields import check_fields
from tests.support.trials import COMMAND_LINE, environment

pytestmark = pytest.mark.spark

SMALL = StoreConfig(
    mapped_file_size_commit_log=256 << 10,
    mapped_file_size_consume_queue=20_000,
    max_hash_slot_num=5_000,
    max_index_num=20_000,
    flush_disk_type=FlushDiskType.ASYNC_FLUSH,
)
DLQ = "%DLQ%billing"
ORIGIN = ("REQUEUE_ORIGIN_TOPIC", "REQUEUE_ORIGIN_QUEUE_ID", "REQUEUE_ORIGIN_QUEUE_OFFSET", "REQUEUE_ORIGIN_MSG_ID")
REMOVED = {"DELAY", "WAIT", "RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "__CRC32#"}


def dead_letters(path: Path, count: int, first: int = 0) -> None:
    """Send back `count` messages of topic orders that group billing gives up."""
    notes = ("it's", 'a "quote"', "back\\slash", "Köln 🚀")
    with MessageStore.open(path, SMALL) as store:
        store.create_topic("orders", 4)
        messages = [
            Message(
                "orders",
                b"body %d " % number + b"x" * (number % 97),
                tags=("paid", "open")[number % 2],
                keys=[f"o-{number}", "all"],
                properties={"note": notes[number % 4], "n": str(number)},
                sharding_key=f"s{number % 3}" if number % 5 == 0 else None,
                flag=number % 7,
                born_timestamp=1_700_000_000_000 + number,
                born_host="10.1.2.3:4567",
            )
            for number in range(first, first + count)
        ]
        put = store.put_messages(messages)
        consumer_send_msgs_back(store, SendBack("billing", -1), [one.physical_offset for one in put])


def job(path: Path, **more: Any) -> RequeueJob:
    return RequeueJob(str(path), frozenset(), 0, None, **more)


def requeue(
    spark: SparkSession, path: Path, run_id: str, source: str = DLQ, *, rate: int | None = None, **more: Any
) -> ManualResult:
    return requeue_on_spark(spark, job(path, rate=rate), RequeueRequest(run_id, source, **more))


def messages(path: Path, topic: str) -> Iterator[ReceivedMessage]:
    with StoreReader(path) as reader:
        for queue_id in reader.queues(topic):
            at, end = reader.bounds(topic, queue_id)
            while at < end:
                got = reader.get_message(topic, queue_id, at)
                yield from got.messages
                at = got.next_begin_offset


def moved(path: Path, run_id: str, topic: str = "orders") -> dict[int, ReceivedMessage]:
    """Return the messages of a run by their number; AssertionError if one exists twice."""
    found = [one for one in messages(path, topic) if one.properties.get("REQUEUE_RUN_ID") == run_id]
    by_number = {int(one.properties["n"]): one for one in found}
    assert len(by_number) == len(found), Counter(one.properties["n"] for one in found).most_common(3)
    return by_number


def end_of_log(path: Path) -> int:
    with StoreReader(path) as reader:
        return reader.max_phy_offset


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with 400 dead letters, for tests that add runs of their own."""
    path = tmp_path_factory.mktemp("requeue") / "s"
    dead_letters(path, 400)
    return path


def test_messages_whose_body_cannot_be_decoded_are_requeued_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    bodies = [(b"plain", 0), (b"no zlib", 0x301), (compress_body(b"packed", 1), 0x101), (b"no type", 0x701)]
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        store.create_topic("orders", 1)
        for at, (body, sys_flag) in enumerate(bodies):
            store.put_message(Message("from", body, queue_id=0, sys_flag=sys_flag, properties={"n": str(at)}))
    path = tmp_path / "s"
    assert requeue(spark, path, "all", "from", to_topic="orders").rows == 4
    found = moved(path, "all")
    assert [(found[at].stored_body, found[at].sys_flag) for at in range(4)] == bodies
    assert requeue(spark, path, "bad", "from", to_topic="orders", where="bodyError IS NOT NULL").rows == 2
    assert sorted(moved(path, "bad")) == [1, 3]
    where = "body = CAST('packed' AS binary) OR body = CAST('no zlib' AS binary)"
    assert requeue(spark, path, "by-body", "from", to_topic="orders", where=where).rows == 2


def test_chosen_rows_go_to_their_topic_once(spark: SparkSession, store: Path) -> None:
    where = "properties['note'] in ('it''s', 'a \"quote\"') and queueOffset < 300 and bornHost like '10.%'"
    result = requeue(spark, store, "once", where=where)
    assert (result.rows, result.topics, result.finished) == (150, {"orders": 150}, True)
    found = moved(store, "once")
    assert sorted(found) == [number for number in range(300) if number % 4 < 2]
    for dead in messages(store, DLQ):
        again = found.get(int(dead.properties["n"]))
        if again is None:
            continue
        assert (again.stored_body, again.flag, again.sys_flag) == (dead.stored_body, dead.flag, dead.sys_flag)
        assert (again.born_timestamp, again.born_host) == (dead.born_timestamp, "10.1.2.3:4567")
        assert (again.reconsume_times, dead.reconsume_times) == (0, 1)
        origin = (DLQ, str(dead.queue_id), str(dead.queue_offset), dead.msg_id)
        assert tuple(again.properties[name] for name in ORIGIN) == origin
        own = {name: value for name, value in dead.properties.items() if name not in REMOVED}
        mine = {name: value for name, value in again.properties.items() if not name.startswith(("REQUEUE_", "__CRC"))}
        assert own == mine
        assert {"TAGS", "KEYS", "UNIQ_KEY", "n", "note"} <= own.keys()
    of_shard = {one.queue_id for number, one in found.items() if number % 5 == 0 and number % 3 == 1}
    assert len(of_shard) == 1
    assert len({one.queue_id for one in found.values()}) == 4
    end = end_of_log(store)
    again = requeue(spark, store, "once", where=where)
    assert (again.rows, again.total_rows, end_of_log(store)) == (0, 150, end)
    assert verify_store(store).findings == []
    with StoreReader(store) as reader:
        assert [one.queue_offset for one in reader.query_message("orders", "o-4")] != []
        assert "requeue:once" not in str(list((store / "rocketflow" / "staging").glob("*/0*")))


def test_second_run_counts_or_skips_rows_requeued_before(spark: SparkSession, store: Path) -> None:
    requeue(spark, store, "first", where="queueOffset < 20", to_topic="elsewhere")
    known = requeue(spark, store, "probe-none", where="queueOffset between 10 and 13", to_topic="elsewhere")
    assert known.already_requeued == 4
    second = requeue(
        spark, store, "second", where="queueOffset between 10 and 29", to_topic="elsewhere", skip_requeued=True
    )
    assert (second.skipped, second.rows) == (second.already_requeued, 20 - second.already_requeued)
    assert not set(moved(store, "second", "elsewhere")) & set(moved(store, "first", "elsewhere"))


def test_rows_are_fixed_at_the_start_and_a_stopped_run_continues(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s"
    dead_letters(path, 90)
    monkeypatch.setattr(manual_requeue, "BATCH_ROWS", 10)
    real, seen = manual_requeue.advance_run, []

    def stops(*arguments: Any) -> Any:
        if len(seen) == 3:
            raise KeyboardInterrupt
        seen.append(1)
        return real(*arguments)

    monkeypatch.setattr(manual_requeue, "advance_run", stops)
    with pytest.raises(KeyboardInterrupt):
        requeue(spark, path, "r", where="tags = 'open'", max_rows=42)
    monkeypatch.setattr(manual_requeue, "advance_run", real)
    assert len(moved(path, "r")) == 30
    dead_letters(path, 90, first=90)
    for other in ({"where": "tags = 'paid'"}, {"max_rows": None}, {"to_topic": "x"}, {"source": "orders"}):
        with pytest.raises(RequeueMismatchError, match="another run id"):
            requeue(spark, path, "r", **{"where": "tags = 'open'", "max_rows": 42, **other})
    result = requeue(spark, path, "r", where="tags = 'open'", max_rows=42)
    assert (result.rows, result.total_rows, result.batches) == (12, 42, 2)
    assert sorted(moved(path, "r")) == list(range(1, 85, 2))
    assert requeue(spark, path, "all", where="tags = 'open'").rows == 90


def test_rows_removed_by_retention_before_the_run_reached_them_are_counted_as_missing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s"
    monkeypatch.setattr(manual_requeue, "advance_run", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    dead_letters(path, 1500)
    with pytest.raises(KeyboardInterrupt):
        requeue(spark, path, "r", where="tags = 'open'")
    monkeypatch.undo()
    with MessageStore.open(path, replace(SMALL, file_reserved_time=0)) as store:
        assert store.clean().log_files
        low, high = store.bounds(DLQ, 0)
    assert 0 < low < high == 1500
    result = requeue(spark, path, "r", where="tags = 'open'")
    assert (result.missing, result.exit_code, result.finished) == (low, 3, True)
    assert sorted(moved(path, "r")) == [number for number in range(low, 1500) if number % 2]


def test_rate_limit_ignores_time_spent_on_choosing_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s"
    dead_letters(path, 30)
    now, slept = [1_000.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(manual_requeue, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    choose = Chooser.choose

    def slow(*asked: Any) -> Any:
        now[0] += 60
        return choose(*asked)

    monkeypatch.setattr(Chooser, "choose", slow)
    result = requeue(spark, path, "r", rate=10)
    assert (result.rows, result.batches) == (30, 3)
    assert slept == [0, 1.0, 1.0]


def test_two_runs_at_once_with_one_id_move_each_row_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s"
    dead_letters(path, 60)
    monkeypatch.setattr(manual_requeue, "BATCH_ROWS", 6)
    monkeypatch.setattr(lock, "RETRY_S", 0.002)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: requeue(spark, path, "r", rate=300), range(2)))
    assert sorted(moved(path, "r")) == list(range(60))
    assert sum(result.rows for result in results) == 60
    assert {result.total_rows for result in results} == {60}
    assert verify_store(path).findings == []


def test_each_run_of_a_driver_has_its_own_reader(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that another run closes while it is in use would report an empty queue."""
    path = tmp_path / "s"
    dead_letters(path, 20)
    chunks, readers = manual_requeue.requeued_chunks, []

    def meanwhile(reader: StoreReader, *asked: Any) -> Any:
        readers.append(reader)
        if len(readers) == 1:
            assert requeue(spark, path, "inner", to_topic="inner").rows == 20
        return chunks(reader, *asked)

    monkeypatch.setattr(manual_requeue, "requeued_chunks", meanwhile)
    assert requeue(spark, path, "outer", to_topic="outer").rows == 20
    assert readers[0] is not readers[1]


def test_quarantined_rows_go_back_to_their_origin_topics(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, SMALL) as store:
        store.create_topic("bad", 3)
        properties = {"QUALITY_VIOLATIONS": "[]", "ORIGIN_QUEUE_ID": "0", "ORIGIN_MSG_ID": "A", "RETRY_TOPIC": "old"}
        store.put_messages(
            Message("bad", b"%d" % n, properties={**properties, "ORIGIN_TOPIC": f"t{n % 3}", "n": str(n)})
            for n in range(30)
        )
        store.put_message(Message("bad", b"x", properties={"n": "30"}))
    with pytest.raises(NoOriginError, match=r"topic bad, queue 0, queue offset 10: .*ORIGIN_TOPIC.*--to-topic"):
        requeue(spark, path, "r", "bad")
    assert requeue(spark, path, "r2", "bad", where="properties['ORIGIN_TOPIC'] is not null").topics == {
        "t0": 10,
        "t1": 10,
        "t2": 10,
    }
    for topic in range(3):
        found = moved(path, "r2", f"t{topic}")
        assert sorted(found) == list(range(topic, 30, 3))
        assert not any(
            name.startswith(("ORIGIN_", "QUALITY_", "RETRY_")) for one in found.values() for name in one.properties
        )
    with StoreReader(path) as reader:
        assert len(reader.queues("t0")) == 8
    assert requeue(spark, path, "back", "bad", to_topic="%RETRY%g", max_rows=5).rows == 5
    with StoreReader(path) as reader:
        assert (reader.queues("%RETRY%g"), reader.bounds("%RETRY%g", 0)) == ([0], (0, 5))


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("tags = 'paid", "PARSE_SYNTAX_ERROR"),
        ("tags = 'paid') or (1 = 1", "PARSE_SYNTAX_ERROR"),
        ("tagz = 'paid'", r"`tagz` cannot be resolved.*`tags`"),
        ("count(*) > 1", "aggregate"),
        ("body", "not a boolean"),
        ("rand() < 0.5", "random"),
        ("storeTimestamp < now() - interval 1 hour", "time of day"),
        ("tags = 'paid' AND", "PARSE_SYNTAX_ERROR"),
        ("tags = 'paid' nonsense", "PARSE_SYNTAX_ERROR"),
    ],
)
def test_unusable_where_raises_and_writes_nothing(spark: SparkSession, store: Path, where: str, words: str) -> None:
    end = end_of_log(store)
    with pytest.raises(WhereError, match=words) as error:
        requeue(spark, store, "never", where=where)
    assert (error.value.exit_code, end_of_log(store)) == (2, end)


def test_job_moves_the_row_and_the_ledger_lists_the_run(
    spark: SparkSession, store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(requeue_job, "run_in_own_session", _in(spark))
    arguments = ["--store", str(store), "--from-topic", DLQ, "--to-topic", "fixed", "--where", "keys = 'o-7 all'"]
    end = end_of_log(store)
    assert main([*arguments, "--dry-run"]) == 0
    out, err = capsys.readouterr()
    preview = json.loads(out)
    assert (preview["rows"], preview["to"], preview["dryRun"], end_of_log(store)) == (1, {"fixed": 1}, True, end)
    assert (preview["sample"][0]["queueOffset"], preview["sample"][0]["toTopic"]) == (7, "fixed")
    assert "1 rows would be moved" in err
    assert main([*arguments, "--run-id", "job-1"]) == 0
    result = json.loads(capsys.readouterr().out)
    expected = {"job": "requeue", "rows": 1, "batches": 1, "runId": "job-1", "totalRows": 1, "finished": True}
    assert expected.items() <= result.items()
    check_fields("submit requeue --from-topic", preview, result)
    assert result["seconds"] > 0
    assert result["rowsPerSecond"] > 0
    command = [sys.executable, "-c", COMMAND_LINE, "store", "ledger", str(store), "--run-id", "job-1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    (line,) = [json.loads(one) for one in done.stdout.splitlines()]
    assert (line["kind"], line["from"], line["to"], line["rows"]) == ("requeue", DLQ, {"fixed": 1}, 1)
    (only,) = moved(store, "job-1", "fixed").values()
    assert line["beginOffset"] < only.phy_offset < line["endOffset"]
    assert line["time"] == only.store_timestamp
    read = spark.read.format("rocketflow").option("subscribe", "fixed").option("includeProperties", "true")
    read.load(str(store)).createOrReplaceTempView("messages")
    rows = spark.sql(
        """SELECT properties['REQUEUE_RUN_ID'] AS run, properties['REQUEUE_ORIGIN_TOPIC'] AS origin,
                  CAST(properties['REQUEUE_ORIGIN_QUEUE_OFFSET'] AS BIGINT) AS originOffset, topic, queueId, queueOffset
           FROM messages WHERE properties['REQUEUE_RUN_ID'] IS NOT NULL"""
    ).collect()
    assert [(row.run, row.origin, row.originOffset) for row in rows] == [("job-1", DLQ, 7)]


def _in(spark: SparkSession) -> Callable[[RequeueJob], Any]:
    def run(job: RequeueJob) -> Any:
        requeue_job.preflight(job)
        return requeue_job.run_without_spark(job) or requeue_job.run_with_spark(spark, job)

    return run


def test_a_finished_run_and_wrong_arguments_need_no_jvm(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    requeue(spark, store, "done", where="queueOffset = 1", to_topic="fixed")
    monkeypatch.setattr("rocketflow.spark.session.build_session", lambda *_, **__: pytest.fail("a session was begun"))
    finished = ["--from-topic", DLQ, "--to-topic", "fixed", "--where", "queueOffset = 1", "--run-id", "done"]
    assert main(["--store", str(store), *finished]) == 0
    assert json.loads(capsys.readouterr().out)["totalRows"] == 1
    monkeypatch.setattr(requeue_job, "COMMITS_TAKE_S", 0.1)
    with MessageStore.open(store, SMALL):
        assert run_job(partial(main, ["--store", str(store), *finished])) == 75
    assert "locked by" in capsys.readouterr().err
    for wrong, words in (
        (["--from-topic", "nope"], "no topic 'nope'"),
        (["--from-topic", DLQ, "--to-topic", "rmq_sys_wheel_timer"], "only the store itself"),
        (["--from-topic", "a b"], "topic name"),
        (["--from-topic", "SCHEDULE_TOPIC_XXXX", "--to-topic", "x"], "would arrive twice"),
        (["--from-topic", DLQ, "--run-id", "a b"], "runId"),
        (["--kinds", "delay,nope"], "--kinds"),
        (["--until", "soon"], "--until"),
    ):
        assert run_job(partial(main, ["--store", str(store), *wrong])) == 2
        assert words in capsys.readouterr().err
    assert run_job(partial(main, ["--store", str(store / "nowhere"), "--from-topic", DLQ])) == 2
    for wrong in (["--max", "3"], ["--from-topic", DLQ, "--max", "0"], ["--from-topic", DLQ, "--kinds", "delay"]):
        with pytest.raises(SystemExit) as ended:
            parse_arguments(["--store", str(store), *wrong])
        assert ended.value.code == 2


def test_windows_cover_all_and_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketflow_store.delivery.requeue.requeue_choice.WINDOW_OFFSETS", 10)
    assert list(windows({})) == []
    found = list(windows({0: (5, 9), 1: (0, 3), 2: (0, 17), 3: (4, 4)}))
    assert found == [{0: (5, 9), 1: (0, 3), 2: (0, 3)}, {2: (3, 13)}, {2: (13, 17)}]
