"""A search by time over records that cannot be read: the answer is the first, last or nearest that can."""

from __future__ import annotations

import json
import shutil
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from rocketflow.cli.app import run
from rocketflow_store import Message, MessageStore, StoreReader
from rocketflow_store.format.batch_body import BatchEntry, encode_batch_body
from rocketflow_store.model.message import MessageBatch
from rocketflow_store.views.queues.offset_by_time import TimeBoundary, offset_by_time
from tests.support.damage import flip
from tests.support.planned_query import PlannedQuery
from tests.support.side_queues import CONFIG

QUEUES = ("plain", "%LMQ%a", "batches")
COUNT = 100
SMALL = replace(CONFIG, enabled_append_prop_crc=True)


class SteppingClock:
    """A clock that advances by 10 ms at each reading."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def now_ms(self) -> int:
        self.now += 10
        return self.now


@dataclass
class Stored:
    """The store, and for each of `QUEUES` the place in the log and the store time by queue offset."""

    path: Path
    records: dict[str, list[tuple[int, int]]]

    def damage(self, phy_offset: int) -> None:
        """Flip a bit in the body of the record at `phy_offset`."""
        size = CONFIG.mapped_file_size_commit_log
        flip(self.path / "commitlog" / f"{phy_offset - phy_offset % size:020d}", phy_offset % size + 88)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    path = tmp_path_factory.mktemp("times") / "s"
    records: dict[str, list[tuple[int, int]]] = {topic: [] for topic in QUEUES}
    with MessageStore.open(path, replace(SMALL, clock=SteppingClock())) as store:
        store.create_topic("batches", 1, queue_type="BatchCQ")
        for number in range(COUNT):
            light = Message("plain", b"%d" % number, queue_id=0, properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})
            entries = [BatchEntry(one, b"%d" % number, b"") for one in range(1 + number % 3)]
            for message in (light, MessageBatch("batches", encode_batch_body(entries), queue_id=0)):
                result = store.put_message(message)
                place = result.physical_offset, result.store_timestamp
                for topic in ("plain", "%LMQ%a") if message is light else ("batches",):
                    records[topic] += [place] * (len(entries) if topic == "batches" else 1)
    return Stored(path, records)


@pytest.fixture
def stored(whole: Stored, tmp_path: Path) -> Stored:
    shutil.copytree(whole.path, tmp_path / "s")
    return Stored(tmp_path / "s", whole.records)


@pytest.mark.parametrize("topic", QUEUES)
@pytest.mark.parametrize("which", [[50], [50, 51, 52, 75], [0], [-1], [0, 1, 2, 24, 25, 26, -2, -1]])
def test_search_by_time_skips_unreadable_records(stored: Stored, topic: str, which: list[int]) -> None:
    records = stored.records[topic]
    damaged = {records[one][0] for one in which}
    for place in damaged:
        stored.damage(place)
    readable = [offset for offset, (place, _) in enumerate(records) if place not in damaged]
    times = [records[offset][1] for offset in readable]
    with StoreReader(stored.path) as reader:
        for time in sorted({records[one + beside][1] + step for one in which for beside in (-1, 0) for step in (0, 1)}):
            first, after = bisect_left(times, time), bisect_right(times, time)
            lower = reader.search_by_time(topic, 0, time)
            assert lower.offset == (readable[first] if first < len(readable) else len(records)), time
            assert lower.offset == reader.get_offset_in_queue_by_time(topic, 0, time)
            before = readable[first - 1] + 1 if first else 0
            assert lower.unreadable == (before, lower.offset), time
            upper = reader.search_by_time(topic, 0, time, "upper")
            assert upper.offset == readable[max(after - 1, 0)], time
            assert upper.unreadable[0] == upper.offset + 1
            nearest = reader.get_offset_in_queue_by_time(topic, 0, time, "nearest")
            assert nearest in readable
            if topic != "plain":  # in files of 20 units the nearest is that of one file
                continue
            file = [at for at, offset in enumerate(readable) if offset // 20 == nearest // 20]
            distance = min(abs(times[at] - time) for at in file)
            assert abs(records[nearest][1] - time) == distance, time


def test_search_by_time_continues_past_lost_units(stored: Stored) -> None:
    directory = stored.path / "consumequeue" / "plain" / "0"
    (directory / f"{800:020d}").unlink()  # units 40 to 59
    records = stored.records["plain"]
    with StoreReader(stored.path) as reader:
        assert reader.get_offset_in_queue_by_time("plain", 0, records[10][1]) == 10
        assert reader.get_offset_in_queue_by_time("plain", 0, records[90][1]) == 90
        assert reader.search_by_time("plain", 0, records[50][1]) == (60, (40, 60))


def test_unreadable_queue_has_no_time() -> None:
    for boundary, offset in ((TimeBoundary.LOWER, 9), (TimeBoundary.UPPER, 3), (TimeBoundary.NEAREST, 3)):
        assert offset_by_time(lambda start, stop: [-1] * (stop - start), 3, 9, 4, 77, boundary).offset == offset


def test_store_offset_reports_unreadable_candidates(stored: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    records = stored.records["plain"]
    stored.damage(records[50][0])

    def offset(time: int) -> tuple[int, str, int]:
        arguments = ["--topic", "plain", "--queue", "0", "--timestamp", str(time), "--json"]
        code = run(["store", "offset", str(stored.path), *arguments])
        out, err = capsys.readouterr()
        return json.loads(out)["offset"], err, code

    assert offset(records[10][1]) == (10, "", 0)
    assert offset(records[49][1]) == (49, "", 0)
    found, errors, code = offset(records[50][1])
    assert (found, code) == (51, 3)
    assert "topic plain queue 0, offsets 50 to 50" in errors


def test_stream_from_a_time_begins_at_the_first_message_of_that_time(stored: Stored) -> None:
    records = stored.records["plain"]
    stored.damage(records[50][0])
    for first, wanted in ((10, 89), (49, 50), (50, 49), (51, 49), (90, 10)):
        options = {"startingTimestamp": str(records[first][1]), "failOnDataLoss": "false"}
        query = PlannedQuery(stored.path, subscribe="plain", **options)
        query.drain()
        assert len(query.rows) == wanted, first
