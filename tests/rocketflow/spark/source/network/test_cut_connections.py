"""Connections of the Spark source that end at any byte: rows exact, each once, and none is taken for a loss."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from rocketflow.spark.source.network.broker_reads import BrokerReads
from rocketflow.spark.source.network.stores import close_reads
from rocketflow.spark.source.stream_offset import QueueKey
from tests.support.between import between, place_of_a_cut
from tests.support.network_stores import Brokers, brokers, write
from tests.support.planned_query import PlannedQuery, Row
from tests.support.spark_stores import numbered
from tests.support.trials import seeds

CUTS = 8
MESSAGES = 700
"""Of 20 kB in two queues: an answer of 4 MiB has a part of a queue."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Run a broker over a store that was written before."""
    home = tmp_path_factory.mktemp("cut")
    write(home / "x", numbered("orders", range(MESSAGES), queues=2, label="x" * 20_000))
    with brokers(home) as found:
        found.start("x")
        yield found


@pytest.fixture(scope="module")
def stored(cluster: Brokers) -> list[Row]:
    """Return the rows of a read by path."""
    query = PlannedQuery(f"x={cluster.store('x')}", subscribe="orders")
    query.drain()
    assert len(query.rows) == MESSAGES
    return sorted(query.rows)


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "pulls"])
@pytest.mark.parametrize("seed", seeds(6, 60))
def test_rows_are_exact_whatever_byte_a_cut_hits(
    cluster: Brokers, stored: list[Row], monkeypatch: pytest.MonkeyPatch, seed: int, ranges: bool
) -> None:
    print(f"seed {seed}")
    if not ranges:  # as for a broker of RocketMQ

        async def has_ranges(reads: BrokerReads, key: QueueKey) -> bool:
            return False

        monkeypatch.setattr(BrokerReads, "has_ranges", has_ranges)
    chance, places = random.Random(seed), random.Random(-seed)

    def cut() -> int | None:
        return place_of_a_cut(places) if broker.cuts < CUTS else None

    with between(cluster.names.port, cluster.running["x"].port, cut, counts_requests=True) as (names, broker):
        while broker.cuts < CUTS:
            query = PlannedQuery(
                None,
                namesrvAddr=names.address,
                subscribe="orders",
                maxOffsetsPerTrigger=str(chance.choice((200, 400, MESSAGES))),
                failOnDataLoss=chance.choice(("true", "false")),
            )
            query.drain()
            report = query.planner.report()
            assert sorted(query.replay()) == sorted(query.batches[-1])
            assert sorted(query.rows) == stored
            assert report is not None
            assert report["dataLoss"] == {"events": 0, "messages": 0}
        assert query.options.network is not None
        close_reads(query.options.network)
