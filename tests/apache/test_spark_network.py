"""Spark through a broker of Apache RocketMQ: the source, the progress of its group, and the sink with its replays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.options import ClientOptions
from rocketflow.client.sync.bridge import LOOP
from rocketflow.spark.sink.row_messages import RowKeys
from rocketflow_store import StoreConfig
from tests.apache.test_mqadmin import mqadmin
from tests.support.real_broker import RealBroker
from tests.support.servers import wait_for_a_broker
from tests.support.trials import LEVEL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.apache,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(LEVEL == "sample", reason="boots Apache's broker beside Spark: RF_FULL=1 runs it"),
]

VERSION = "5.3.3"
SIZES = StoreConfig(mapped_file_size_commit_log=16 << 20, max_hash_slot_num=1000, max_index_num=40_000)


class Names(NamedTuple):
    """The NameServer of the broker."""

    address: str


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Names]:
    """Run a broker of Apache's; yield its NameServer."""
    home = tmp_path_factory.mktemp("apache")
    with RealBroker(VERSION, home / "store", SIZES, home / "work", last=True) as broker:
        found = Names(f"127.0.0.1:{broker.names_port}")
        wait_for_a_broker(found.address)
        yield found


def read(spark: SparkSession, names: Names, topic: str, **options: str) -> list[Any]:
    rows = spark.read.format("rocketflow").options(namesrvAddr=names.address, subscribe=topic, **options)
    return rows.load().selectExpr("CAST(body AS STRING) body", "tags", "keys", "uniqKey", "queueId").collect()


def bodies(spark: SparkSession, names: Names, topic: str) -> Counter[str]:
    return Counter(row.body for row in read(spark, names, topic))


def test_a_repeated_write_adds_nothing_and_mqadmin_finds_its_rows(
    spark: SparkSession, names: Names, tmp_path: Path
) -> None:
    rows = spark.range(0, 3000, 1, 2).selectExpr("CAST(id AS STRING) body", "'a' tags", "CAST(id AS STRING) keys")
    for _ in range(2):
        options = {"namesrvAddr": names.address, "topic": "table", "txnId": "load-1", "queues": "4"}
        rows.write.format("rocketflow").options(**options).mode("append").save()
    found = read(spark, names, "table")
    assert Counter(row.body for row in found) == Counter(str(number) for number in range(3000))
    assert {row.tags for row in found} == {"a"}
    assert {row.queueId for row in found} == {0, 1, 2, 3}
    key = RowKeys("txn.load-1", 0, 1).key(7)
    assert [row.body for row in found if row.uniqKey == key] == ["1507"]
    (text,) = mqadmin(names, tmp_path, [["queryMsgByUniqueKey", "-n", names.address, "-t", "table", "-i", key]])  # type: ignore[arg-type]
    assert "table" in text
    assert key in text, text


def test_a_half_sent_batch_is_completed_without_a_double(spark: SparkSession, names: Names) -> None:
    """A task fails after it has sent some of its rows; the same write again sends the others."""
    options = {"namesrvAddr": names.address, "topic": "half", "txnId": "load-2"}
    rows = spark.range(0, 60_000, 1, 1)
    broken = rows.selectExpr("IF(id < 59000, CAST(id AS STRING), raise_error('no row')) body")
    with pytest.raises(Exception, match="no row"):
        broken.write.format("rocketflow").options(**options).mode("append").save()
    before = sum(bodies(spark, names, "half").values())
    rows.selectExpr("CAST(id AS STRING) body").write.format("rocketflow").options(**options).mode("append").save()
    assert 0 < before < 60_000
    assert bodies(spark, names, "half") == Counter(str(number) for number in range(60_000))


def test_a_query_copies_and_replays_its_last_batch_and_mqadmin_shows_its_progress(
    spark: SparkSession, names: Names, tmp_path: Path
) -> None:
    rows = spark.range(0, 400).selectExpr("CAST(id AS STRING) body")
    rows.write.format("rocketflow").options(namesrvAddr=names.address, topic="in").mode("append").save()

    def copy() -> None:
        source = spark.readStream.format("rocketflow").options(
            namesrvAddr=names.address,
            subscribe="in",
            startingOffsets="earliest",
            maxOffsetsPerTrigger="150",
            consumerGroup="spark-copy",
        )
        sink = source.load().select("body").writeStream.format("rocketflow")
        query = sink.options(
            namesrvAddr=names.address, topic="out", sinkId="copy", checkpointLocation=str(tmp_path / "checkpoint")
        )
        assert query.trigger(availableNow=True).start().awaitTermination(240)

    copy()
    wanted = Counter(str(number) for number in range(400))
    assert bodies(spark, names, "out") == wanted
    for name in ("2", ".2.crc"):  # as if the driver was killed before it wrote that batch 2 is done
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    copy()
    assert bodies(spark, names, "out") == wanted
    (text,) = mqadmin(names, tmp_path, [["consumerProgress", "-n", names.address, "-g", "spark-copy"]])  # type: ignore[arg-type]
    lines = [line.split() for line in text.splitlines() if line.startswith("in ")]
    assert len(lines) >= 4, text
    assert sum(int(line[4]) for line in lines) == 400, text


def test_topics_of_groups_are_read_by_name(spark: SparkSession, names: Names) -> None:
    rows = spark.range(0, 3).selectExpr("CAST(id AS STRING) body", "'%DLQ%billing' topic")
    rows.write.format("rocketflow").options(namesrvAddr=names.address).mode("append").save()
    assert bodies(spark, names, "%DLQ%billing") == Counter("012")

    async def topics() -> list[str]:
        async with AdminClient(ClientOptions(name_servers=names.address)) as admin:
            return await admin.topics()

    assert "%RETRY%spark-copy" in LOOP.wait(topics())
    assert bodies(spark, names, "%RETRY%spark-copy") == Counter()
