"""The Spark source without Spark at brokers of RocketMQ 4.9.7, 5.3.3 and 5.5.0: reads, and batches limited by bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import pytest

from rocketflow.aio.loop import run
from rocketflow.client.errors import ClientError
from rocketflow.client.produce.options import ProducerOptions
from rocketflow.client.produce.producer import Producer
from rocketflow.spark.source.batch_reader import RocketFlowBatchReader
from rocketflow.spark.source.columns import Projection, source_schema
from rocketflow.spark.source.source_options import SourceOptions
from rocketflow_store import StoreConfig
from rocketflow_store.spi.messages import Message
from rocketflow_store.spi.table_rows import TopicConfig
from tests.apache.judge import VERSIONS
from tests.support.planned_query import PlannedQuery
from tests.support.real_broker import RealBroker
from tests.support.servers import direct, wait_for_a_broker
from tests.support.trials import LEVEL
from tests.support.unknown_requests import without_queue_units

pytestmark = [
    pytest.mark.apache,
    pytest.mark.slow,
    pytest.mark.skipif(LEVEL != "full", reason="boots three brokers of Apache's: RF_FULL=1 runs it"),
]

SIZES = StoreConfig(mapped_file_size_commit_log=16 << 20, max_hash_slot_num=1000, max_index_num=40_000)
TOPIC = "orders"
MESSAGES = 300


class Servers(NamedTuple):
    """The NameServer and the broker."""

    names: str
    broker: str


@pytest.fixture(scope="module", params=VERSIONS)
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Run a broker of Apache's with a topic of numbered messages."""
    home = tmp_path_factory.mktemp("apache-reads")
    with RealBroker(request.param, home / "store", SIZES, home / "work", last=True) as broker:
        found = Servers(f"127.0.0.1:{broker.names_port}", f"127.0.0.1:{broker.port}")
        wait_for_a_broker(found.names)
        run(fill(found))
        yield found


async def fill(servers: Servers) -> None:
    """Create the topic and send its messages."""
    async with direct(servers.names) as admin, asyncio.timeout(60):
        config = TopicConfig(topic_name=TOPIC, read_queue_nums=2, write_queue_nums=2)
        await admin.create_topic(servers.broker, config)
        while True:
            with suppress(ClientError):
                await admin.route(TOPIC)
                break
            await asyncio.sleep(0.05)
    options = ProducerOptions(group="fill", name_servers=servers.names, send_timeout_s=30)
    async with Producer(options) as producer:
        await asyncio.gather(
            *(
                producer.send(Message(TOPIC, b"%d" % number, tags="ab"[number % 2], keys=[f"k{number}"]))
                for number in range(MESSAGES)
            )
        )


def test_a_batch_read_has_every_message_once(servers: Servers) -> None:
    for tags, wanted in (("*", range(MESSAGES)), ("b", range(1, MESSAGES, 2))):
        options = {"namesrvAddr": servers.names, "subscribe": TOPIC, "tags": tags}
        reader = RocketFlowBatchReader(
            SourceOptions.parse(options, streaming=False), Projection.of(source_schema(True))
        )
        rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
        assert sorted(int(row["body"]) for row in rows) == list(wanted)
        assert all(row["keys"] == f"k{int(row['body'])}" for row in rows), rows[0]


@pytest.mark.parametrize("units", [True, False], ids=["units", "without-units"])
def test_bytes_limit_the_batches_of_a_stream(servers: Servers, monkeypatch: pytest.MonkeyPatch, units: bool) -> None:
    if not units:
        without_queue_units(monkeypatch)
    query = PlannedQuery(None, namesrvAddr=servers.names, subscribe=TOPIC, maxBytesPerTrigger="16k")
    query.drain()
    assert query.numbers() == list(range(MESSAGES))
    assert 2 < len(query.batches) < MESSAGES / 4
