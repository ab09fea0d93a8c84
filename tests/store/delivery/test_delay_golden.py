"""Pending delays that a RocketMQ 5.3.3 broker left (golden store features-53), delivered by RocketFlow."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rocketflow_store import FlushDiskType, MessageStore, StoreConfig, StoreReader
from rocketflow_store.delivery.delay.delivery import deliver_due
from rocketflow_store.delivery.delay.redelivery import redeliveries
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.config_files.delay_offsets import DelayOffsetsFile
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC
from rocketflow_store.records.encoding.relocate import relocate
from tests.support.golden import GOLDEN
from tests.support.replay import records_of

Row = dict[str, Any]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Return every message that RocketMQ's own store finds in the golden store."""
    lines = (GOLDEN / "features-53" / "messages.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def _identity(row: Row) -> tuple[object, ...]:
    """Return the fields that a delivery keeps, with those that distinguish retries."""
    properties = row["properties"]
    return row["uniqKey"], row["reconsumeTimes"], *(properties.get(n) for n in ("DELAY", "REAL_TOPIC", "REAL_QID"))


def test_delivered_records_equal_the_brokers(golden_store: Callable[..., Path], rows: list[Row]) -> None:
    """Byte for byte, at the place and time of the broker's records; 101 messages of 4 levels."""
    golden = golden_store("features-53")
    delivered = DelayOffsetsFile(golden / "config").offsets()
    raw = {int.from_bytes(one[28:36], "big"): one for one in records_of(golden / "commitlog")}
    copies = {
        _identity(row): row for row in rows if "REAL_TOPIC" in row["properties"] and row["topic"] != SCHEDULE_TOPIC
    }
    waiting = {(row["queueId"], row["queueOffset"]): row for row in rows if row["topic"] == SCHEDULE_TOPIC}
    compared = 0
    with StoreReader(golden) as reader:
        for level, end in delivered.items():
            for one in redeliveries(reader, reader.config, level, 0, end, 1 << 60):
                assert one.chunk is not None
                assert not one.skipped
                octets, starts, sizes = one.chunk.writable(), one.chunk.starts, one.chunk.sizes
                for row in range(one.rows):
                    copy = copies[_identity(waiting[level - 1, one.next_offset - one.rows + row])]
                    part = octets[starts[row] : starts[row] + sizes[row]].copy()
                    relocate(
                        part,
                        np.zeros(1, np.int64),
                        sizes[row : row + 1],
                        np.array([copy["physicalOffset"]]),
                        np.array([copy["queueOffset"]]),
                        copy["storeTimestamp"],
                    )
                    assert part.tobytes() == raw[copy["physicalOffset"]]
                    assert int(one.chunk.tags_codes[row]) == copy["tagsCode"]
                    compared += 1
    assert compared == 101


def test_pending_delays_are_delivered_at_their_time(
    golden_store: Callable[..., Path], rows: list[Row], tmp_path: Path
) -> None:
    path = tmp_path / "s"
    shutil.copytree(golden_store("features-53"), path)
    positions = DelayOffsetsFile(path / "config").offsets()
    pending: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        if row["topic"] == SCHEDULE_TOPIC and row["queueOffset"] >= positions.get(row["queueId"] + 1, 0):
            pending[row["tagsCode"]].append(row)
    assert sum(map(len, pending.values())) == 49
    clock = ManualClock(max(row["storeTimestamp"] for row in rows))
    config = StoreConfig(clock=clock, flush_disk_type=FlushDiskType.ASYNC_FLUSH)
    before = {(row["topic"], row["queueId"]) for row in rows}
    with MessageStore.open(path, config) as store:
        ends = {queue: store.max_offset(*queue) for queue in before}
        assert deliver_due(store).rows == 0
        for due in sorted(pending):
            clock.set(due - 1)
            assert deliver_due(store).rows == 0
            clock.set(due)
            assert deliver_due(store).rows == len(pending[due])
            for row in pending[due]:
                queue = row["properties"]["REAL_TOPIC"], int(row["properties"]["REAL_QID"])
                copy = _message(store, *queue, ends[queue])
                ends[queue] += 1
                for name in ("uniqKey", "flag", "sysFlag", "bornTimestamp", "bornHost", "storeHost", "reconsumeTimes"):
                    assert copy[name] == row[name], name
                assert copy["properties"] == row["properties"]
                assert copy["storeTimestamp"] >= due
        clock.set(max(pending) + 86_400_000)
        assert deliver_due(store).rows == 0
        assert DelayOffsetsFile(path / "config").offsets() == {
            level: store.max_offset(SCHEDULE_TOPIC, level - 1) for level in positions
        }
    assert verify_store(path).findings == []


def _message(store: MessageStore, topic: str, queue_id: int, offset: int) -> Row:
    unit = store.read_units(topic, queue_id, offset, offset + 1)[0]
    one = store.look_message_by_offset(int(unit["phy_offset"]))
    assert one is not None
    return {
        "uniqKey": one.uniq_key,
        "flag": one.flag,
        "sysFlag": one.sys_flag,
        "bornTimestamp": one.born_timestamp,
        "bornHost": one.born_host,
        "storeHost": one.store_host,
        "storeTimestamp": one.store_timestamp,
        "reconsumeTimes": one.reconsume_times,
        "properties": dict(one.properties),
    }


@pytest.mark.parametrize("file", [None, 0, 1 << 40])
def test_log_shows_what_the_broker_delivered(
    golden_store: Callable[..., Path], tmp_path: Path, file: int | None
) -> None:
    """With delayOffset.json lost, outdated or absurd, the same messages remain."""
    path = tmp_path / "s"
    shutil.copytree(golden_store("features-53"), path)
    rightly = DelayOffsetsFile(path / "config").offsets()
    for one in (path / "config").glob("delayOffset.json*"):
        one.unlink()
    if file is not None:
        DelayOffsetsFile(path / "config").commit(dict.fromkeys(rightly, file))
    clock = ManualClock(1 << 41)
    with MessageStore.open(path, StoreConfig(clock=clock, flush_disk_type=FlushDiskType.ASYNC_FLUSH)) as store:
        result = deliver_due(store)
        assert result.rows == 49
        for level, counts in result.levels.items():
            assert counts.delivered == store.max_offset(SCHEDULE_TOPIC, level - 1) - rightly[level]
