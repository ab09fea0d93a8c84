"""Commits of Kafka messages into a store, without a broker: only the envelope decides what is copied."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rocketflow.kafka.client.partition_rows import KafkaRows
from rocketflow.kafka.errors import MessageRefusedError, TopicNameError
from rocketflow.kafka.into_store.store_commit import CommitOutcome, PartEncoder, PartitionPart, PartsCommit
from rocketflow.kafka.options.bridge_options import BridgeOptions, parse
from rocketflow.kafka.shared.topic_names import to_kafka_name, to_store_name
from rocketflow_store import MessageStore
from rocketflow_store.spi.commits import StoreCommits
from tests.rocketflow.kafka.bridging import small_store, stored


def asked(store: str, *more: str) -> BridgeOptions:
    given = ["--bootstrap", "nowhere:1", "--store", store, "--topics", "t", "--id", "b", *more]
    return parse(given, program="bridge", direction="kafka-to-store", example="")


def part(first: int, following: int, base: int | None, values: list[bytes] | None = None) -> PartitionPart:
    values = values or [b"%d" % number for number in range(first, following)]
    count = len(values)
    rows = KafkaRows(
        "t",
        0,
        np.arange(first, first + count),
        np.full(count, 1_700_000_000_000),
        np.zeros(count, bool),
        pa.array([b"k"] * count, pa.binary()),
        pa.array(values, pa.binary()),
    )
    return PartitionPart("t", 0, "t", 1, base, following, [rows])


def commit(store: str, one: PartitionPart, *more: str) -> CommitOutcome:
    options = asked(store, *more)
    with MessageStore.open(store, small_store(Path(store))) as opened:
        encoded = PartEncoder(opened.config, options).encode(one)
        return PartsCommit(options, "run", [encoded])(StoreCommits(opened))


def test_commit_skips_parts_that_do_not_start_at_the_envelope(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    assert commit(store, part(0, 10, None)).committed == {("t", 0): 10}
    again = commit(store, part(0, 12, None))
    assert (again.rows, again.stale) == (0, {("t", 0): 10})
    overlapping = commit(store, part(5, 15, 5))
    assert (overlapping.rows, overlapping.stale) == (0, {("t", 0): 10})
    assert commit(store, part(12, 15, 10)).progress == {"t": {"0": 15}}  # offsets 10 and 11 are transaction markers
    assert [int(body) for body, _ in stored(store, "t")[0]] == [*range(10), 12, 13, 14]


def test_commit_of_a_part_without_rows_advances_progress(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    nothing = PartitionPart("t", 0, "t", 3, None, 7, ())
    assert commit(store, nothing).committed == {("t", 0): 7}
    assert commit(store, part(7, 9, 7)).rows == 2


def test_refused_messages_raise_or_are_quarantined_in_the_same_commit(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    large = {1, 2, 30, 39}
    values = [b"B" * (5 << 20) if number in large else b"%d" % number for number in range(40)]
    mixed = part(0, 40, None, values)
    with pytest.raises(MessageRefusedError, match="t partition 0 offset 1: body of 5242880 bytes"):
        commit(store, mixed)
    done = commit(store, mixed, "--on-refused", "quarantine")
    assert (done.rows, done.quarantined) == (40, 4)
    assert [int(body) for body, _ in stored(store, "t")[0]] == [one for one in range(40) if one not in large]
    assert {int(row["KAFKA_OFFSET"]) for _, row in stored(store, "KAFKA_QUARANTINE")[0]} == large


def test_topic_names_are_mapped_to_the_store_and_back() -> None:
    for kafka, stored_as in (("a.b-c_d", "a|b-c_d"), ("..x", "||x"), ("plain", "plain")):
        assert to_store_name(kafka) == stored_as
        assert to_kafka_name(stored_as) == kafka
    for name in ("", ".", "a/b", "a%b", "x" * 128, "TBW102 ", "SCHEDULE_TOPIC_XXXX", "rmq_sys_x", "a\n"):
        with pytest.raises(TopicNameError):
            to_store_name(name)
    for name in ("%RETRY%g", "%DLQ%g", "a%b", "|"):
        with pytest.raises(TopicNameError):
            to_kafka_name(name)
