"""Messages of a pull consumer as columns: the rows of the Spark source, each checked."""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from rocketflow.aio.loop import run
from rocketflow.arrow import pull_arrow, sync
from rocketflow.arrow.decoder import decoder
from rocketflow.client import ConsumeFrom, PullConsumer, PullOptions
from rocketflow.client import sync as clients
from rocketflow.client.consume.subscriptions import subscription
from rocketflow.client.pull.queue_buffer import Answer
from rocketflow.remoting.bodies import MessageQueue
from rocketflow_store import CorruptRecordError, StoreReader, UnknownColumnError
from tests.support.client_cluster import ClientCluster, queue_of
from tests.support.record_bytes import record
from tests.support.servers import store_of
from tests.support.trials import environment

QUEUE = MessageQueue("T", "b", 0)


def options(servers: ClientCluster, **more: Any) -> PullOptions:
    values = {"group": servers.new_name(), "start": ConsumeFrom.FIRST, "name_servers": servers.names.address}
    return PullOptions(**{**values, "timeout_s": 30, **more})


def answer(records: Sequence[bytes], start: int, end: int, expression: str = "*") -> Answer:
    return Answer(QUEUE, subscription("T", expression, version=1), b"".join(records), start, end)


def decoded(one: Answer, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    batches = decoder(columns)(one)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_columns_are_those_of_a_read_of_the_store(servers: ClientCluster) -> None:
    async def call() -> list[pa.RecordBatch]:
        await servers.send(topic, [f"body{k}" for k in range(70)], properties={"TAGS": "t", "KEYS": "k", "x": "y"})
        async with PullConsumer(options(servers)) as consumer:
            await consumer.assign([queue_of(topic)])
            found: list[pa.RecordBatch] = []
            while sum(one.num_rows for one in found) < 70:
                found += await pull_arrow(consumer, columns)
        return found

    topic = run(servers.new_topic())
    with StoreReader(store_of(servers.broker)) as reader:
        columns = None
        found = pa.Table.from_batches(run(call()))
        expected = pa.Table.from_batches(list(reader.read(topic, 0, 0, 70)))
        assert found.equals(expected)
        columns = ["properties", "body"]
        again = pa.Table.from_batches(run(call())).slice(0, 70)
        assert again.equals(pa.Table.from_batches(list(reader.read(topic, 0, 0, 70, columns))))


def test_positions_and_commits_are_those_of_polls(servers: ClientCluster) -> None:
    async def call() -> None:
        queue = queue_of(await servers.new_topic())
        await servers.send(queue.topic, list("abcdef"))
        async with PullConsumer(options(servers, auto_commit=False)) as consumer:
            await consumer.assign([queue])
            assert [one.body for one in await consumer.poll(30, max_messages=2)] == [b"a", b"b"]
            batches = await pull_arrow(consumer, ["body"], timeout_s=30)
            assert [one for batch in batches for one in batch.column(0).to_pylist()] == [b"c", b"d", b"e", b"f"]
            await consumer.commit()
            assert (consumer.position(queue), await consumer.committed(queue)) == (6, 6)
            assert await pull_arrow(consumer, timeout_s=0) == []

    run(call())


def test_synchronous_consumer_returns_the_same_columns(servers: ClientCluster) -> None:
    queue = queue_of(run(servers.new_topic()))
    run(servers.send(queue.topic, ["a"]))
    with clients.PullConsumer(options(servers)) as consumer:
        consumer.subscribe(queue.topic)
        (batch,) = sync.pull_arrow(consumer, ["queueId", "body"], timeout_s=30)
        assert batch.to_pylist() == [{"queueId": 0, "body": b"a"}]
        with pytest.raises(UnknownColumnError, match="nothing"):
            sync.pull_arrow(consumer, ["nothing"], timeout_s=0)


def test_rows_outside_the_range_and_of_other_tags_are_skipped() -> None:
    tags = ("Aa", "BB", "C", "Aa")
    records = [record("T", k, b"%d" % k, {"TAGS": tag}) for k, tag in enumerate(tags)]
    assert decoded(answer(records, 1, 4, "Aa || C"), ["queueOffset", "tags"]) == [(2, "C"), (3, "Aa")]
    assert [row[0] for row in decoded(answer(records, 2, 3), ["body"])] == [b"2"]


def test_compressed_bodies_are_decompressed() -> None:
    compressed = record("T", 0, zlib.compress(b"x" * 5000), sys_flag=1)
    assert decoded(answer([compressed, record("T", 1, b"y")], 0, 2), ["body"]) == [(b"x" * 5000,), (b"y",)]


def test_damaged_body_is_an_error_that_names_the_message() -> None:
    damaged = bytearray(record("T", 1, b"body"))
    damaged[damaged.index(b"body")] ^= 1
    with pytest.raises(CorruptRecordError, match=r"topic T, queue 0, queue offset 1"):
        decoded(answer([record("T", 0, b"fine"), bytes(damaged)], 0, 2), ["body"])


def test_record_of_another_queue_is_an_error() -> None:
    with pytest.raises(CorruptRecordError, match="topic is another one"):
        decoded(answer([record("U", 0, b"")], 0, 1), ["body"])


def test_missing_package_is_named() -> None:
    script = """
import sys
sys.modules["pyarrow"] = None
from rocketflow.arrow.decoder import MissingPackageError, decoder
try:
    decoder(None)
except MissingPackageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment(), check=True)
    assert "pyarrow: run 'pip install" in done.stdout


def test_import_loads_neither_pyarrow_nor_numpy() -> None:
    script = "import sys, rocketflow.arrow.sync; print(sorted({'pyarrow', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment(), check=True)
    assert done.stdout == "[]\n"
