"""Reads through brokers of RocketFlow, without Spark: the rows, losses and moves of a read by path."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from rocketflow.aio.peers import Peers
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.errors import NoNameServerError
from rocketflow.client.options import ClientOptions
from rocketflow.client.sync.bridge import LOOP
from rocketflow.remoting.bodies import RegisterBrokerBody, encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.route import RegisterBrokerRequestHeader
from rocketflow.spark.source.batch_reader import RocketFlowBatchReader
from rocketflow.spark.source.columns import Projection, source_schema
from rocketflow.spark.source.data_loss import DataLossError
from rocketflow.spark.source.network.broker_reads import BrokerAwayError
from rocketflow.spark.source.network.stores import close_reads
from rocketflow.spark.source.source_options import SourceOptions
from rocketflow.spark.source.stream_offset import CheckpointError
from rocketflow.spark.source.topic_check import MissingTopicError
from rocketflow_store import CorruptRecordError, Message
from tests.support.golden import config_of
from tests.support.network_stores import Brokers, brokers, write
from tests.support.planned_query import PlannedQuery
from tests.support.servers import send
from tests.support.spark_stores import numbered, remove_first_log_file
from tests.support.trials import LEVEL
from tests.support.unknown_requests import without_queue_units

BODIES = [b"", b"x", b"long" * 20_000, b"\xff" * 300]


def kinds(label: str) -> list[Message]:
    """Return messages of several kinds in the topics `kinds` and `%DLQ%g`."""
    found = [
        Message("kinds", body, tags=tag, keys=["k1", label], properties={"n": str(at)}, queue_id=at % 3, flag=at)
        for at, body in enumerate(BODIES)
        for tag in ("a", None, "b")
    ]
    return [*found, *numbered("%DLQ%g", range(5), queues=1), *numbered("orders", range(500))]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Run two brokers over stores that were written before."""
    home = tmp_path_factory.mktemp("network")
    write(home / "a", kinds("of a"))
    write(home / "b", [*kinds("of b"), *numbered("only-b", range(40))])
    with brokers(home) as found:
        found.start("a")
        found.start("b")
        yield found


def rows(options: dict[str, str], *, properties: bool = True) -> list[dict[str, Any]]:
    """Return the rows of a batch read in the order of queues."""
    reader = reader_of(options, properties=properties)
    return read_all(reader, reader.partitions())


def reader_of(options: dict[str, str], *, properties: bool = True) -> RocketFlowBatchReader:
    return RocketFlowBatchReader(
        SourceOptions.parse(options, streaming=False), Projection.of(source_schema(properties))
    )


def read_all(reader: RocketFlowBatchReader, parts: Sequence[Any]) -> list[dict[str, Any]]:
    found = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: (row["brokerName"], row["topic"], row["queueId"], row["queueOffset"]))


def by_path(cluster: Brokers) -> str:
    return f"a={cluster.store('a')},b={cluster.store('b')}"


@pytest.mark.parametrize(
    "more",
    [
        {"subscribe": "kinds,orders,%DLQ%g"},
        {"subscribe": "b/kinds,only-b"},
        {"subscribePattern": "o.*", "tags": "a"},
        {"subscribe": "kinds", "tags": "b || zz"},
        {"subscribe": "kinds,orders", "sql": "n > 2 AND TAGS = 'a'"},
        {"assign": '{"kinds": [1]}'},
        {"subscribe": "orders", "startingTimestamp": "0"},
        {"subscribe": "a/orders", "startingOffsets": '{"a/orders": {"0": 3, "1": -2, "2": 125, "3": 100}}'},
        {"subscribe": "orders", "minPartitions": "7"},
    ],
)
def test_rows_are_those_of_a_read_by_path(cluster: Brokers, more: dict[str, str]) -> None:
    found = rows({"namesrvAddr": cluster.address, **more})
    assert found
    assert found == rows({"path": by_path(cluster), **more})


def test_a_store_that_rocketmq_wrote_gives_the_rows_of_its_path(golden_store: Any, tmp_path: Path) -> None:
    home = tmp_path / "golden"
    shutil.copytree(golden_store("features-53"), home / "store")
    config = config_of("features-53")
    sizes = (
        f"mappedFileSizeCommitLog={config.mapped_file_size_commit_log}",
        f"mappedFileSizeConsumeQueue={config.mapped_file_size_consume_queue}",
        f"maxHashSlotNum={config.max_hash_slot_num}",
        f"maxIndexNum={config.max_index_num}",
    )
    with brokers(tmp_path) as one:
        one.start("golden", *sizes)
        options = {
            "subscribePattern": "(?!SCHEDULE|rmq_sys|RMQ_SYS|OFFSET|TRANS|f-delay|%RETRY).*",
            "includeSystemTopics": "true",
        }
        found = rows({"namesrvAddr": one.address, **options})
        topics = ",".join(sorted({row["topic"] for row in found}))
        wanted = rows({"path": f"golden={one.store('golden')}", "subscribe": topics})
    assert len(found) > 50
    assert found == wanted


def test_a_missing_topic_is_named_with_the_nearest_one(cluster: Brokers) -> None:
    with pytest.raises(MissingTopicError, match="did you mean orders"):
        rows({"namesrvAddr": cluster.address, "subscribe": "order"})
    with pytest.raises(NoNameServerError, match=r"127\.0\.0\.1:1"):
        rows({"namesrvAddr": "127.0.0.1:1", "subscribe": "orders"})


def test_a_stream_is_limited_and_moves_between_path_and_brokers(cluster: Brokers) -> None:
    query = PlannedQuery(None, namesrvAddr=cluster.address, subscribe="only-b", maxOffsetsPerTrigger="12")
    assert query.step()
    for place in ({"path": by_path(cluster)}, {"namesrvAddr": cluster.address}, {"path": str(cluster.store("b"))}):
        moved = PlannedQuery(place.pop("path", None), subscribe="only-b", maxOffsetsPerTrigger="9", **place)
        moved.log = query.log
        assert moved.step()
        query.rows += moved.rows
    assert query.numbers() == list(range(12 + 3 * 9))


def test_bytes_limit_a_batch(cluster: Brokers) -> None:
    query = PlannedQuery(None, namesrvAddr=cluster.address, subscribe="only-b", maxBytesPerTrigger="2k")
    query.drain()
    assert query.numbers() == list(range(40))
    assert len(query.batches) > 2
    by_files = PlannedQuery(f"b={cluster.store('b')}", subscribe="only-b", maxBytesPerTrigger="2k")
    by_files.drain()
    assert query.log == by_files.log


def test_bytes_limit_a_batch_at_a_broker_without_the_request_for_queue_units(
    cluster: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = without_queue_units(monkeypatch)
    query = PlannedQuery(None, namesrvAddr=cluster.address, subscribe="only-b", maxBytesPerTrigger="2k")
    query.drain()
    assert query.numbers() == list(range(40))
    assert len(query.batches) > 2
    assert set(answers) == {ResponseCode.REQUEST_CODE_NOT_SUPPORTED}


@pytest.mark.skipif(LEVEL == "sample", reason="a broker of its own: RF_FAULTS=1 runs it")
def test_an_unnamed_store_is_that_of_the_only_broker(tmp_path: Path) -> None:
    write(tmp_path / "x", numbered("orders", range(30)))
    with brokers(tmp_path) as one:
        one.start("x")
        query = PlannedQuery(one.store("x"), subscribe="orders", maxOffsetsPerTrigger="10")
        assert query.step()
        moved = PlannedQuery(None, namesrvAddr=one.address, subscribe="orders", maxOffsetsPerTrigger="10")
        moved.log = query.log
        assert moved.step()
        back = PlannedQuery(one.store("x"), subscribe="orders", maxOffsetsPerTrigger="10")
        back.log = moved.log
        assert back.step()
        assert sorted(query.numbers() + moved.numbers() + back.numbers()) == list(range(30))


def test_several_brokers_need_the_names_of_stores(cluster: Brokers) -> None:
    query = PlannedQuery(cluster.store("b"), subscribe="only-b")
    query.drain()
    query.options = SourceOptions.parse({"namesrvAddr": cluster.address, "subscribe": "only-b"}, streaming=True)
    query.restart()
    with pytest.raises(CheckpointError, match="only-b"):
        query.step()


def test_brokers_and_queues_added_while_a_query_runs_are_read_from_their_beginning(tmp_path: Path) -> None:
    write(tmp_path / "x", numbered("orders", range(20), queues=2))
    write(tmp_path / "y", numbered("orders", range(100, 120)))
    with brokers(tmp_path) as two:
        two.start("x")
        query = PlannedQuery(None, namesrvAddr=two.address, subscribe="orders")
        query.drain()
        assert query.numbers() == list(range(20))
        two.start("y")
        close_reads(query.options.network)  # type: ignore[arg-type] # the routes are asked for at once
        query.restart()
        query.drain()
        assert query.numbers() == [*range(20), *range(100, 120)]
        two.stop("x")
        query.options = SourceOptions.parse(
            {"namesrvAddr": two.address, "subscribe": "orders", "networkTimeout": "300ms"}, streaming=True
        )
        query.restart()
        with pytest.raises(BrokerAwayError, match="broker x does not answer"):
            query.step()
        two.start("x")
        send(two.running["x"], "orders", ["20", "21"])
        close_reads(query.options.network)  # type: ignore[arg-type]
        query.restart()
        query.drain()
        assert query.numbers() == [*range(22), *range(100, 120)]


def test_a_cut_log_and_another_record_are_losses(tmp_path: Path) -> None:
    write(tmp_path / "x", numbered("orders", range(10), queues=1))
    shutil.copytree(tmp_path / "x", tmp_path / "kept")
    write(tmp_path / "x", numbered("orders", range(10, 20), queues=1))
    options = {"subscribe": "orders", "networkTimeout": "20s"}
    with brokers(tmp_path) as one:
        one.start("x")
        query = PlannedQuery(None, namesrvAddr=one.address, **options)
        query.drain()
        one.stop("x")
        shutil.rmtree(tmp_path / "x")
        shutil.copytree(tmp_path / "kept", tmp_path / "x")
        one.start("x")
        with pytest.raises(DataLossError, match="beyond the queue's end"):
            query.step()
        send(one.running["x"], "orders", [str(number) for number in range(50, 70)])
        with pytest.raises(DataLossError, match="is another one now"):
            query.step()
        query.options = SourceOptions.parse(
            {"namesrvAddr": one.address, **options, "failOnDataLoss": "false"}, streaming=True
        )
        query.restart()
        query.drain()
        assert query.numbers()[-10:] == list(range(60, 70))


def test_a_slave_is_read_while_the_master_is_down(tmp_path: Path) -> None:
    write(tmp_path / "x", numbered("orders", range(20), queues=2))
    shutil.copytree(tmp_path / "x", tmp_path / "slave")
    write(tmp_path / "x", numbered("orders", range(20, 30), queues=2))
    options = {"subscribe": "orders", "maxOffsetsPerTrigger": "6", "networkTimeout": "20s"}
    with brokers(tmp_path) as two:
        two.start("x")
        slave = two.start("slave", "namesrvAddr=")
        with registered_slave(two, "x", slave.address):
            query = PlannedQuery(None, namesrvAddr=two.address, **options)
            assert query.step()
            two.stop("x")
            assert query.step()
            query.drain()
            assert query.numbers() == list(range(20))
            ahead = PlannedQuery(None, namesrvAddr=two.address, **options)
            ahead.log = [json.dumps({"queues": {"x/orders": {"0": [15, 1, 1], "1": [15, 1, 1]}}, "version": 1})]
            assert not ahead.step()
            two.start("x")
            close_reads(query.options.network)  # type: ignore[arg-type]
            query.drain()
            assert query.numbers() == list(range(30))


@pytest.mark.parametrize("is_head", [False, True], ids=["body", "head"])
def test_a_damaged_record_fails_the_read_or_is_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_head: bool
) -> None:
    """By path and over the network it is the same error, for the same reason; the broker skips one with a bad head."""
    store = write(tmp_path / "x", numbered("orders", range(8), queues=1, label="payload-"))
    (log,) = (store / "commitlog").iterdir()
    raw = log.read_bytes()
    at = raw.index(b"payload-5") - (84 if is_head else 0)  # the magic code
    log.write_bytes(raw[:at] + b"PAYL" + raw[at + 4 :])

    def reason(options: dict[str, str]) -> str:
        with pytest.raises(CorruptRecordError, match="queue offset 5") as found:
            rows(options)
        assert found.value.exit_code == 3
        return plain(found.value.why)

    def plain(why: str) -> str:
        return why.replace(" 0x5041594c", "")  # only checks of single records show the code

    with brokers(tmp_path) as one:
        one.start("x")
        for tags, wanted in (("*", [0, 1, 2, 3, 4, 6, 7]), ("b", [1, 3, 7])):
            options = {"namesrvAddr": one.address, "subscribe": "orders", "tags": tags}
            by_path = {"path": f"x={store}", "subscribe": "orders", "tags": tags}
            assert reason(options) == reason(by_path)
            for place in (options, by_path):
                caplog.clear()
                with caplog.at_level("WARNING", "rocketflow_store"):
                    kept = rows({**place, "failOnDataLoss": "false"})
                assert [row["queueOffset"] for row in kept] == wanted
                assert [plain(one).split(" offset ")[1] for one in caplog.messages] == [
                    f"5 count 1: skipped in topic orders, queue 0: {reason(by_path).split(' (')[0]}"
                ]


def test_messages_that_retention_removes_after_the_plan_are_a_loss_or_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    messages = numbered("orders", range(900), queues=1, label="x" * 20_000)
    store = write(tmp_path / "x", messages)
    with brokers(tmp_path) as one:
        one.start("x")
        read = {"namesrvAddr": one.address, "subscribe": "orders"}
        strict, lenient = (reader_of({**read, "failOnDataLoss": text}) for text in ("true", "false"))
        planned = [(reader, reader.partitions()) for reader in (strict, lenient)]
        one.stop("x")
        remove_first_log_file(store)
        one.start("x")
        with pytest.raises(DataLossError, match=r"messages 0 to [0-9]+ were removed before they were read"):
            read_all(*planned[0])
        with caplog.at_level("WARNING", "rocketflow_store"):
            found = [row["queueOffset"] for row in read_all(*planned[1])]
    assert 0 < found[0] < 899
    assert found == list(range(found[0], 900))
    assert "RF-SKIP" in caplog.text
    assert "removed by retention" in caplog.text


def test_messages_removed_before_a_stream_reads_them_are_a_loss_or_skipped(tmp_path: Path) -> None:
    """The checkpoint is before the queue's first message when the query goes on, or repeats its newest batch."""
    store = write(tmp_path / "x", numbered("orders", range(900), queues=1, label="x" * 20_000))
    with brokers(tmp_path) as one:
        one.start("x")
        options = {"namesrvAddr": one.address, "subscribe": "orders", "maxOffsetsPerTrigger": "100"}
        strict, lenient = (PlannedQuery(None, failOnDataLoss=text, **options) for text in ("true", "false"))
        for query in (strict, lenient):
            assert query.step()
            assert [offset for _, _, offset, _ in query.rows] == list(range(100))
        log = list(strict.log)
        one.stop("x")
        remove_first_log_file(store)
        one.start("x")
        with pytest.raises(DataLossError, match=r"messages 100 to [0-9]+ were removed before they were read"):
            strict.step()
        with pytest.raises(DataLossError, match="removed before they were read"):
            strict.replay()
        with pytest.raises(DataLossError, match=r"messages 100 to [0-9]+ were removed before they were read"):
            strict.step()
        assert strict.log == log
        lenient.drain()
        report = lenient.planner.report()
        lenient.restart()
        (before, after) = (json.loads(text) for text in lenient.log[:2])
        assert lenient.read(before, after) == []
    found = [offset for _, _, offset, _ in lenient.rows]
    low = found[100]
    assert 100 < low < 900
    assert found == [*range(100), *range(low, 900)]
    assert report is not None
    assert report["dataLoss"] == {"events": 1, "messages": low - 100}


def test_progress_of_a_group_is_committed_while_its_query_goes_on(cluster: Brokers) -> None:
    """Each batch publishes what the one before has read; operators see it by the group's statistics."""
    group = "spark-planned"
    query = PlannedQuery(
        None, namesrvAddr=cluster.address, subscribe="only-b", maxOffsetsPerTrigger="16", consumerGroup=group
    )

    async def progress() -> tuple[int, int]:
        async with AdminClient(ClientOptions(name_servers=cluster.address)) as admin:
            stats = await admin.consume_stats(group)
        assert {(one.topic, one.broker_name) for one in stats.queues} == {("only-b", "b")}
        return sum(one.consumer_offset for one in stats.queues.values()), stats.lag

    assert query.step()
    for done in (16, 32):
        assert query.step()
        assert LOOP.wait(progress()) == (done, 40 - done)
    assert not query.step()
    assert LOOP.wait(progress()) == (40, 0)


class registered_slave:  # noqa: N801 - used as a context manager
    """Register a slave at the NameServer, as a broker does, for the time of a block."""

    def __init__(self, cluster: Brokers, name: str, address: str) -> None:
        self._cluster, self._name, self._address = cluster, name, address

    def __enter__(self) -> None:
        async def register() -> Peers:
            peers = Peers()
            header = RegisterBrokerRequestHeader(
                broker_name=self._name,
                broker_addr=self._address,
                cluster_name="DefaultCluster",
                ha_server_addr="",
                broker_id=1,
            )
            body = encode_body(RegisterBrokerBody())
            await peers.request(self._cluster.address, RequestCode.REGISTER_BROKER, header, body=body)
            return peers

        self._peers = LOOP.wait(register())

    def __exit__(self, *_: object) -> None:
        LOOP.wait(self._peers.close())
