"""The limits of one commit, `--max-batch-rows` and `--max-batch-bytes`, for any size of a poll result."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rocketflow.kafka.client.batch_consumer import count_of, cut
from rocketflow.kafka.client.record_batches import decode_batches
from rocketflow_store import StoreReader
from rocketflow_store.commits.batch_commit import commit_at, commit_places
from tests.rocketflow.kafka.bridging import Sent, Topics, bridge, stored
from tests.rocketflow.kafka.test_mapping import batch_of

pytestmark = pytest.mark.kafka
Name = Callable[[str], str]


def rows_of_commits(store: str, bridge_id: str) -> list[int]:
    """Return the number of rows of every commit of a bridge, newest first."""
    sink_id = f"kafka-bridge:{bridge_id}"
    with StoreReader(store) as reader:
        found = [commit_at(reader, place, sink_id) for place in commit_places(reader, sink_id)]
    return [one.rows for one in found if one is not None]


@pytest.mark.parametrize("records", ["0", "1"], ids=["batches", "records"])
def test_commit_never_exceeds_max_batch_rows(
    topics: Topics, store: str, name: Name, records: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETFLOW_KAFKA_RECORDS", records)
    source, back = name("t"), name("back")
    topics.create(source, back)
    topics.send(source, [Sent(b"k", b"%d" % number) for number in range(900)], linger_ms=500, batch_size=1 << 18)
    asked = ["--topics", source, "--id", source, "--max-batch-rows", "100"]
    assert bridge("kafka-to-store", topics.address, store, *asked).rows == 900
    rows = rows_of_commits(store, source)
    assert (sum(rows), max(rows)) == (900, 100)
    assert len(rows) < 18
    for first in (0, 1):
        assert [int(body) for body, _ in stored(store, source)[first]] == list(range(first, 900, 2))
    done = bridge("store-to-kafka", topics.address, store, *asked, "--map", f"{back}={source}")
    assert (done.rows, done.batches) == (900, 9)


def test_max_batch_rows_below_the_number_of_queues(topics: Topics, store: str, name: Name) -> None:
    source, back = name("t"), name("back")
    topics.create(source, back, partitions=5)
    for partition in range(5):
        topics.send(source, [Sent(b"k", b"%d" % number) for number in range(4)], partition)
    asked = ["--topics", source, "--id", source, "--max-batch-rows", "2"]
    assert bridge("kafka-to-store", topics.address, store, *asked).rows == 20
    assert max(rows_of_commits(store, source)) == 2
    done = bridge("store-to-kafka", topics.address, store, *asked, "--map", f"{back}={source}")
    assert (done.rows, done.batches) == (20, 10)
    assert topics.read(back, 5) == topics.read(source, 5)


def test_commit_ends_with_the_batch_that_reaches_max_batch_bytes(topics: Topics, store: str, name: Name) -> None:
    source = name("t")
    topics.create(source, partitions=1)
    topics.send(source, [Sent(b"k", bytes(1000)) for _ in range(400)], 0, batch_size=4096)
    bridge("kafka-to-store", topics.address, store, "--topics", source, "--id", source, "--max-batch-bytes", "20000")
    rows = rows_of_commits(store, source)
    assert sum(rows) == 400
    assert max(rows) <= 24  # 20,000 bytes, and the batch that reaches them


def test_cut_splits_batches_at_any_row() -> None:
    batches = [batch_of([(b"k", b"%d" % at, [], 5, False) for at in range(10)], base, 3) for base in (0, 20, 40)]
    for rows in range(1, 28):
        left, taken = list(batches), []
        while left:
            some, left = cut(left, rows, 1 << 30)
            assert 0 < count_of(some) <= rows
            decoded = decode_batches("t", 0, some)
            assert len(decoded) == count_of(some)
            assert some[-1].offset + 1 > decoded.offsets[-1]
            taken.append(decoded.offsets)
        assert np.concatenate(taken).tolist() == [*range(3, 10), *range(20, 30), *range(40, 50)]
    assert cut(batches, 100, 1) == (batches[:1], batches[1:])
    assert cut(batches, 0, 1) == ([], batches)
