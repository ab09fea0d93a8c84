"""Stores that Apache RocketMQ wrote: every field of every message, every query, equal to RocketMQ's answers."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocketflow_store import MessageStore, StoreReader
from rocketflow_store.metadata.config_files import ConfigFiles
from rocketflow_store.model.errors import StoreConfigError
from rocketflow_store.records.arrow.columns import SOURCE_COLUMNS
from rocketflow_store.views.queues.offset_by_time import TimeBoundary, offset_by_time
from tests.support.golden import CLOSED, CRASHED, GOLDEN, config_of
from tests.support.trials import sampled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOST_BY_APACHE = {"crash-53-torn": 37}
"""Index queries that RocketMQ does not answer after its recovery, and RocketFlow does (it refills the index)."""


def messages_of(name: str) -> dict[tuple[str, int, int], dict[str, Any]]:
    lines = (GOLDEN / name / "messages.jsonl").read_text().splitlines()
    return {(one["topic"], one["queueId"], one["queueOffset"]): one for one in map(json.loads, lines)}


def queries_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / name / "queries.json").read_text())
    return found


def bounds_of(name: str) -> dict[tuple[str, int], tuple[int, int]]:
    return {(one["topic"], one["queueId"]): (one["minOffset"], one["maxOffset"]) for one in queries_of(name)["queues"]}


@pytest.fixture(scope="module", params=CLOSED)
def closed(request: pytest.FixtureRequest, golden_store: Callable[..., Path]) -> Iterator[tuple[str, StoreReader]]:
    with StoreReader(golden_store(request.param), config_of(request.param)) as reader:
        yield request.param, reader


@pytest.fixture(scope="module", params=CLOSED + CRASHED)
def opened(
    request: pytest.FixtureRequest, golden_store: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, MessageStore]]:
    """Yield a store that all tests of this module read."""
    path = tmp_path_factory.mktemp("opened") / "store"
    shutil.copytree(golden_store(request.param), path)
    with MessageStore.open(path, config_of(request.param)) as store:
        yield request.param, store


def test_columnar_reader_returns_every_message(closed: tuple[str, StoreReader]) -> None:
    name, reader = closed
    wanted = messages_of(name)
    seen = 0
    for (topic, queue_id), (low, high) in bounds_of(name).items():
        assert reader.bounds(topic, queue_id) == (low, high), (topic, queue_id)
        for batch in reader.read(topic, queue_id, low, high, SOURCE_COLUMNS, max_batch_bytes=1 << 16):
            for row in batch.to_pylist():
                check_row(row, wanted[topic, queue_id, row["queueOffset"]])
                seen += 1
    assert seen == len(wanted) == queries_of(name)["messageCount"]


def check_row(row: dict[str, Any], message: dict[str, Any]) -> None:
    for column in (
        *("topic", "queueId", "uniqKey", "tags", "keys", "msgId", "flag", "sysFlag", "bornHost", "storeHost"),
        *("reconsumeTimes", "preparedTransactionOffset", "bodyCRC", "storeSize", "physicalOffset"),
    ):
        assert row[column] == message.get(column), (column, message)
    assert dict(row["properties"]) == message["properties"]
    assert hashlib.sha256(row["body"]).hexdigest() == message["bodySha256"]
    for column in ("bornTimestamp", "storeTimestamp"):
        assert round(row[column].timestamp() * 1000) == message[column]


def test_get_message_returns_every_message(opened: tuple[str, MessageStore]) -> None:
    name, store = opened
    wanted = messages_of(name)
    seen = 0
    for (topic, queue_id), (low, high) in bounds_of(name).items():
        assert store.bounds(topic, queue_id) == (low, high), (topic, queue_id)
        offset = low
        while offset < high:
            got = store.get_message(topic, queue_id, offset)
            assert got.messages
            for one in got.messages:
                message = wanted[topic, queue_id, one.queue_offset]
                assert one.properties == message["properties"]
                assert (one.phy_offset, one.store_size, one.msg_id, one.born_host, one.store_host) == (
                    *(message["physicalOffset"], message["storeSize"], message["msgId"]),
                    *(message["bornHost"], message["storeHost"]),
                )
                assert hashlib.sha256(one.body).hexdigest() == message["bodySha256"]
                assert hashlib.sha256(one.stored_body).hexdigest() == message["storedBodySha256"]
                seen += 1
            offset = got.next_begin_offset
    assert seen == len(wanted)


def test_get_message_answers_as_apache_does(opened: tuple[str, MessageStore]) -> None:
    name, store = opened
    for asked in queries_of(name)["getMessage"]:
        got = store.get_message(asked["topic"], asked["queueId"], asked["offset"], asked["maxNums"])
        assert (
            got.status.name,
            got.next_begin_offset,
            got.min_offset,
            got.max_offset,
            got.buffer_total_size,
            [one.phy_offset for one in got.messages],
        ) == (
            asked["status"],
            asked["nextBeginOffset"],
            asked["minOffset"],
            asked["maxOffset"],
            asked["bufferTotalSize"],
            asked["physicalOffsets"],
        ), asked


FOUND_IN_THE_NEXT_FILE = ("single-queue", 0, 1795229427772)
"""4.9 chose by the modification time, which the kernel had set before the file's last units were put."""


def test_offsets_by_time_equal_apaches(opened: tuple[str, MessageStore]) -> None:
    name, store = opened
    for asked in sampled(queries_of(name)["offsetByTime"], 5):
        question = (asked["topic"], asked["queueId"], asked["timestamp"])
        if name == "basic-49" and question == FOUND_IN_THE_NEXT_FILE:
            continue
        assert store.get_offset_in_queue_by_time(*question, asked["boundary"].lower()) == asked["offset"], asked


def test_4_9_looks_in_the_file_that_modification_times_name(golden_store: Callable[..., Path]) -> None:
    topic, queue_id, timestamp = FOUND_IN_THE_NEXT_FILE
    (asked,) = (
        one
        for one in queries_of("basic-49")["offsetByTime"]
        if (one["topic"], one["queueId"], one["timestamp"]) == FOUND_IN_THE_NEXT_FILE
    )
    times = {key[2]: one["storeTimestamp"] for key, one in messages_of("basic-49").items() if key[0] == topic}
    files = sorted((golden_store("basic-49") / "consumequeue" / topic / str(queue_id)).iterdir())
    modified = [one.stat().st_mtime_ns // 1_000_000 for one in files]  # whole seconds: the archive keeps no more

    def look(modified_ms: Callable[[int], int] | None) -> int:
        def stored(start: int, stop: int) -> list[int]:
            return [times[offset] for offset in range(start, stop)]

        return offset_by_time(stored, 0, len(times), 300, timestamp, TimeBoundary.NEAREST, modified_ms).offset

    assert look(modified.__getitem__) == asked["offset"] == 600
    assert times[600] > timestamp
    assert times[look(None)] == timestamp


def test_unknown_time_boundary_is_refused(closed: tuple[str, StoreReader]) -> None:
    _, reader = closed
    with pytest.raises(StoreConfigError, match="lower, upper, nearest"):
        reader.get_offset_in_queue_by_time(reader.topics()[0], 0, 0, "middle")


def test_index_queries_equal_apaches_or_have_older_messages_of_the_time_too(opened: tuple[str, MessageStore]) -> None:
    """A broker's answer ends with RocketMQ's; the messages before are of the first second of the query."""
    name, store = opened
    lost = 0
    for asked in queries_of(name)["index"]:
        key, most, begin, end = ((asked["topic"], asked["key"]), *(asked[one] for one in ("max", "begin", "end")))
        answer = store.index.query(*key, min(most, 64), begin, end, store.look_message_by_offset, late_ms=999)
        offsets = [one.phy_offset for one in answer]
        more = answer[: len(answer) - len(asked["offsets"])]
        if offsets[len(more) :] != asked["offsets"] or any(one.store_timestamp >= begin + 1000 for one in more):
            # seconds count from a file's first entry, so a complete index rounds a time limit differently
            assert begin > 0 or set(offsets) > set(asked["offsets"]), asked
            lost += 1
        assert all(begin <= one.store_timestamp < end + 1000 for one in answer)
        exact = store.query_message(*key, most, begin, end)
        assert {one.phy_offset for one in exact} >= {one.phy_offset for one in answer if one.store_timestamp <= end}
        assert all(begin <= one.store_timestamp <= end for one in exact)
    assert lost == LOST_BY_APACHE.get(name, 0)


def test_log_bounds_and_config_files_equal_apaches(closed: tuple[str, StoreReader]) -> None:
    name, reader = closed
    queries = queries_of(name)
    assert reader.min_phy_offset == queries["commitlog"]["minPhyOffset"]
    assert reader.max_phy_offset == queries["commitlog"]["maxPhyOffset"]
    topics = ConfigFiles(reader.paths.config).topics.topics()
    assert {topic: one.write_queue_nums for topic, one in topics.items()} == {
        topic: one["writeQueueNums"] for topic, one in queries["config"]["topics"].items()
    }


@pytest.mark.parametrize("name", ["crash-53-kill9", "crash-55-kill9", "lost-derived-53"])
def test_recovery_rebuilds_the_bytes_that_apache_rebuilds(
    name: str, golden_store: Callable[..., Path], tmp_path: Path
) -> None:
    path, apache = tmp_path / "store", golden_store(name, "rebuilt")
    shutil.copytree(golden_store(name), path)
    with MessageStore.open(path, config_of(name)) as store:
        assert store.recovery.abort_found
    queues = sorted(one.relative_to(apache) for one in (apache / "consumequeue").rglob("*") if one.is_file())
    assert queues
    for one in queues:
        assert (path / one).read_bytes() == (apache / one).read_bytes(), one
    found, expected = (sorted(one for one in (root / "index").iterdir()) for root in (path, apache))
    assert len(found) == len(expected)
    # RocketMQ kept the full files and refilled the newest, which has one record twice (its recovery overlaps)
    same = len(found) - 1 if name.endswith("kill9") else len(found)
    assert [one.read_bytes() for one in found[:same]] == [one.read_bytes() for one in expected[:same]]


@pytest.mark.parametrize("name", sampled(CLOSED, 2))
def test_same_records_appended_again_give_the_same_files(
    name: str, golden_store: Callable[..., Path], tmp_path: Path
) -> None:
    """Byte for byte: CommitLog, ConsumeQueues and index of a store whose records RocketFlow appends again."""
    from tests.support.replay import replay

    golden = golden_store(name)
    if name == "expired-53":
        pytest.skip("its first files were removed by retention: there is no first byte to start from")
    path = tmp_path / "store"
    replay(golden, path, config_of(name))
    for one in sorted((golden / "commitlog").iterdir()):
        written = (path / "commitlog" / one.name).read_bytes()
        assert written == one.read_bytes(), one.name
    for one in sorted((golden / "consumequeue").rglob("*")):
        if one.is_file():
            assert (path / one.relative_to(golden)).read_bytes() == one.read_bytes(), one
    found, expected = (sorted((root / "index").iterdir()) for root in (path, golden))
    assert [one.read_bytes() for one in found] == [one.read_bytes() for one in expected]


def test_reading_changes_no_byte(golden_store: Callable[..., Path]) -> None:
    path = golden_store("crash-53-kill9")
    before = digest(path)
    with StoreReader(path) as reader:
        for topic in reader.topics():
            for queue_id in reader.queues(topic):
                list(reader.read(topic, queue_id, *reader.bounds(topic, queue_id)))
    assert digest(path) == before


def digest(path: Path) -> dict[str, str]:
    return {
        str(one.relative_to(path)): hashlib.sha256(one.read_bytes()).hexdigest()
        for one in sorted(path.rglob("*"))
        if one.is_file() and one.stat().st_size < 50_000_000
    }
