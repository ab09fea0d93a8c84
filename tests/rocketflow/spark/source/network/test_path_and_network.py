"""The same questions to a store by path and to the broker that serves it have the same answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from rocketflow.cli.app import run
from rocketflow.errors import UsageError
from rocketflow.spark.shared.option_values import OptionError
from rocketflow.spark.source.batch_reader import RocketFlowBatchReader
from rocketflow.spark.source.columns import Projection, source_schema
from rocketflow.spark.source.source_options import SourceOptions
from rocketflow.spark.source.topic_check import MissingTopicError, check_source
from rocketflow_store import Message, MessageStore, StoreReader
from tests.support.network_stores import SIZES, Brokers, brokers, write
from tests.support.planned_query import PlannedQuery
from tests.support.servers import send
from tests.support.spark_stores import numbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACES = ["path", "network"]
ROWS = 12


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Run a broker over a store with a topic without messages, and one whose queue 3 never had a message."""
    home = tmp_path_factory.mktemp("same")
    write(home / "a", [*numbered("full", range(ROWS), queues=3), Message("%DLQ%g", b"0", queue_id=0)])
    for ms in BORN:
        write(home / "a", [Message("born", b"x", born_timestamp=ms, queue_id=0)])
    with MessageStore.open(home / "a" / "store", SIZES) as store:
        store.create_topic("full", 4)
        store.create_topic("empty", 4)
        for by in PLACES:
            store.create_topic(f"later-{by}", 2)
    with brokers(home) as found:
        found.start("a")
        yield found


def place(cluster: Brokers, by: str) -> dict[str, str]:
    return {"path": f"a={cluster.store('a')}"} if by == "path" else {"namesrvAddr": cluster.address}


def read(options: dict[str, str]) -> list[dict[str, Any]]:
    """Return the rows of a batch read in the order of queues."""
    reader = RocketFlowBatchReader(SourceOptions.parse(options, streaming=False), Projection.of(source_schema(True)))
    found = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: (row["topic"], row["queueId"], row["queueOffset"]))


ANSWERS: list[tuple[dict[str, str], int]] = [
    ({"subscribe": "empty"}, 0),
    ({"subscribe": "full,empty"}, ROWS),
    ({"subscribe": "a/empty,a/full"}, ROWS),
    ({"assign": '{"empty": [0, 3]}'}, 0),
    ({"assign": '{"full": [0, 3], "empty": [1]}'}, ROWS // 3),
    ({"subscribePattern": "emp.*"}, 0),
    ({"subscribePattern": "nothing.*"}, 0),
    ({"subscribePattern": "[e-z]+"}, ROWS),
    ({"subscribe": "empty", "startingTimestamp": "0"}, 0),
    ({"subscribe": "empty", "endingTimestamp": "0"}, 0),
    ({"subscribe": "full", "endingTimestamp": "0"}, 0),
    ({"subscribe": "empty", "startingOffsets": '{"a/empty": {"0": 0, "1": -2}}'}, 0),
    ({"subscribe": "full", "startingOffsets": '{"a/full": {"0": 1, "1": 1, "2": -2}}'}, ROWS - 2),
    ({"subscribe": "full", "endingOffsets": '{"a/full": {"0": 1, "1": 0, "2": -1}}'}, 1 + ROWS // 3),
    ({"subscribe": "full", "tags": "b"}, ROWS // 2),
    ({"subscribe": "%DLQ%g"}, 1),
]


@pytest.mark.parametrize(("question", "rows"), ANSWERS)
def test_the_same_question_has_the_same_rows(cluster: Brokers, question: dict[str, str], rows: int) -> None:
    found = [read({**place(cluster, by), **question}) for by in PLACES]
    assert found[0] == found[1]
    assert len(found[0]) == rows


REFUSALS: list[tuple[dict[str, str], type[Exception], str]] = [
    ({"subscribe": "fulll"}, MissingTopicError, "no topic fulll in the store (did you mean full?)"),
    ({"subscribe": "empty,xyz"}, MissingTopicError, "no topic xyz in the store; it has %DLQ%g, "),
    (
        {"subscribe": "SCHEDULE_TOPIC_XXX"},
        MissingTopicError,
        "no topic SCHEDULE_TOPIC_XXX in the store; it has %DLQ%g, ",
    ),
    ({"assign": '{"full": [8]}'}, MissingTopicError, "topic full has no queue 8"),
    ({"assign": '{"empty": [0, 4]}'}, MissingTopicError, "topic empty has no queue 4"),
    ({"subscribe": "full", "startingOffsets": '{"a/full": {"0": 9, "1": 0, "2": 0}}'}, OptionError, "0 to 4"),
    ({"subscribe": "full", "startingOffsets": '{"a/full": {"0": 0}}'}, OptionError, "names no number for topic a/full"),
    ({"subscribe": "full", "startingTimestamp": "9000000000000"}, OptionError, "no message of topic a/full queue 0"),
]


LEAST, MOST = -62_104_060_800_000, 253_370_764_800_000 - 1  # the years 2 to 9998
BORN = [0, 1, -1, -5000, LEAST, LEAST - 1, MOST, MOST + 1, 1 << 53, 1 << 62, (1 << 63) - 1, -(1 << 63)]


def test_time_that_no_calendar_has_is_null_and_printed_as_its_number(
    cluster: Brokers, capsys: pytest.CaptureFixture[str]
) -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    expected = [epoch + timedelta(milliseconds=ms) if LEAST <= ms <= MOST else None for ms in BORN]
    for by in PLACES:
        rows = read({**place(cluster, by), "subscribe": "born"})
        assert [row["bornTimestamp"] for row in rows] == expected
        assert all(row["storeTimestamp"] is not None for row in rows)
    for words in (["store", "cat", str(cluster.store("a"))], ["consume", "-n", cluster.address]):
        assert run([*words, "--topic", "born", "--json"]) == 0
        printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [one["bornTimestamp"] for one in printed] == BORN


@pytest.mark.parametrize(("question", "kind", "message"), REFUSALS)
def test_the_same_question_has_the_same_refusal(
    cluster: Brokers, question: dict[str, str], kind: type[Exception], message: str
) -> None:
    texts = []
    for by in PLACES:
        with pytest.raises(kind) as caught:
            read({**place(cluster, by), **question})
        texts.append(str(caught.value).replace("a/", ""))
        assert message.replace("a/", "") in texts[-1]
        assert not any(name in texts[-1] for name in ("rmq_sys", "TBW102", "XXXX", "DefaultCluster", " a,"))
    assert texts[0] == texts[1]


def query_of(cluster: Brokers, by: str, **options: str) -> PlannedQuery:
    where = place(cluster, by)
    return PlannedQuery(where.pop("path", None), **where, **options)


@pytest.mark.parametrize("by", PLACES)
def test_stream_that_ends_by_itself_refuses_a_missing_topic(cluster: Brokers, by: str) -> None:
    now, once, endless = (query_of(cluster, by, subscribe="full,absent") for _ in range(3))
    now.planner.prepare_available_now()
    for query, limited in ((now, True), (once, False)):
        with pytest.raises(MissingTopicError, match="no topic absent in the store") as caught:
            query.step(limited=limited)
        assert caught.value.exit_code == 1
    endless.drain()
    assert len(endless.rows) == ROWS
    empty = query_of(cluster, by, subscribe="full,empty")
    empty.planner.prepare_available_now()
    empty.drain()
    assert len(empty.rows) == ROWS


@pytest.mark.parametrize("by", PLACES)
def test_job_that_ends_by_itself_refuses_a_missing_topic_before_spark_starts(cluster: Brokers, by: str) -> None:
    def asked(subscribe: str) -> SourceOptions:
        return SourceOptions.parse({**place(cluster, by), "subscribe": subscribe}, streaming=True)

    for fine in ("full", "a/full", "empty", "full,a/empty"):
        check_source(asked(fine), ends_by_itself=True)
    check_source(asked("absent"), ends_by_itself=False)
    with pytest.raises(UsageError, match="no topic absent in the store"):
        check_source(asked("absent"), ends_by_itself=True)


@pytest.mark.parametrize("by", PLACES)
def test_stream_of_a_topic_without_messages_reads_what_comes(
    cluster: Brokers, by: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = f"later-{by}"
    query = query_of(cluster, by, subscribe=topic, startingOffsets="latest")
    assert not query.step()
    assert "no topic" not in caplog.text
    send(cluster.running["a"], topic, ["1", "2"])
    query.drain()
    assert query.numbers() == [1, 2]


@pytest.mark.spark
@pytest.mark.parametrize("by", PLACES)
def test_trigger_that_ends_by_itself_fails_a_query_of_a_missing_topic(
    spark: SparkSession, cluster: Brokers, by: str
) -> None:
    rows = spark.readStream.format("rocketflow").options(**place(cluster, by), subscribe="absent").load()
    for trigger in ({"availableNow": True}, {"once": True}):
        query = rows.writeStream.format("noop").trigger(**trigger).start()  # type: ignore[arg-type]
        with pytest.raises(Exception, match="MissingTopicError: no topic absent in the store"):
            query.awaitTermination(60)


@pytest.mark.spark
@pytest.mark.parametrize("by", PLACES)
def test_write_without_rows_creates_its_topic(spark: SparkSession, cluster: Brokers, by: str) -> None:
    topic = f"written-{by}"
    where = place(cluster, by) if by == "network" else {"path": str(cluster.store("a"))}
    nothing = spark.range(3).selectExpr("cast(id as string) as body").where("body = 'x'")
    for _ in range(2):
        nothing.write.format("rocketflow").options(**where, topic=topic, queues="2").mode("append").save()
    with StoreReader(cluster.store("a")) as reader:
        assert topic in reader.listed_topics()
        assert reader.queues(topic) == []
    for asked in PLACES:
        assert read({**place(cluster, asked), "assign": json.dumps({topic: [0, 1]})}) == []


@pytest.mark.spark
@pytest.mark.parametrize("by", PLACES)
def test_nulls_among_properties_and_keys_are_no_entries(spark: SparkSession, cluster: Brokers, by: str) -> None:
    topic = f"nulls-{by}"
    where = place(cluster, by) if by == "network" else {"path": str(cluster.store("a"))}
    rows = spark.sql(
        "SELECT '0' body, map('p', null, 'q', '1') properties, array('k1', null, 'k2') keys"
        " UNION ALL SELECT '1', map('p', null, 'q', null), array(cast(null AS string))"
    )
    rows.coalesce(1).write.format("rocketflow").options(**where, topic=topic, queues="1").mode("append").save()
    for asked in PLACES:
        found = read({**place(cluster, asked), "subscribe": topic, "includeProperties": "true"})
        assert [row["keys"] for row in found] == ["k1 k2", None]
        assert [{"p", "q"} & dict(row["properties"]).keys() for row in found] == [{"q"}, set()]
