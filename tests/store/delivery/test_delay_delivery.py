"""Delivery of delayed messages: each due message once, where a delivery continues, which messages are skipped."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rocketflow_store import FlushDiskType, Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.commits.batch_commit import SinkBatch, commit_batch, last_commit
from rocketflow_store.commits.staged_part import batch_directory, stage
from rocketflow_store.delivery.delay.delivery import SINK_ID, DelayDelivery, deliver_due, positions_seen, preview_due
from rocketflow_store.delivery.delay.positions import file_lags
from rocketflow_store.delivery.delay.service import ScheduleMessageService
from rocketflow_store.format.consume_queue_unit import LOST_TAGS_CODE
from rocketflow_store.format.properties import encode_properties
from rocketflow_store.format.record import RecordFields
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.config_files.delay_offsets import DelayOffsetsFile
from rocketflow_store.metadata.native.commit_envelope import COMMIT_TOPIC, CommitEnvelope
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import StoreClosedError, StoreError, StoreLockedError
from rocketflow_store.model.message import ReceivedMessage
from rocketflow_store.model.message_id import encode_host
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC
from rocketflow_store.records.arrow.unit_types import UNIT_DTYPE
from rocketflow_store.records.encoding.encode import BatchEncoder
from rocketflow_store.telemetry import events

NOW = 1_700_000_000_000
HOST = encode_host("10.0.0.5:10911")
SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 16,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 500,
    "max_index_num": 2000,
    "flush_disk_type": FlushDiskType.ASYNC_FLUSH,
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[MessageStore]:
    with MessageStore.open(tmp_path / "s", StoreConfig(clock=clock, **SIZES)) as store:
        yield store


def put(store: MessageStore, count: int, level: int = 1, *, topic: str = "orders", first: int = 0) -> None:
    for number in range(first, first + count):
        message = Message(topic, b"%d" % number, delay_time_level=level, queue_id=0, keys=[f"k{number}"], tags="t")
        assert store.put_message(message).stored


def all_of(store: MessageStore | StoreReader, topic: str = "orders") -> list[ReceivedMessage]:
    found = []
    for queue_id in store.queues(topic):
        for unit in store.read_units(topic, queue_id, *store.bounds(topic, queue_id)):
            message = store.look_message_by_offset(int(unit["phy_offset"]))
            assert message is not None
            found.append(message)
    return found


def bodies(store: MessageStore | StoreReader, topic: str = "orders") -> list[int]:
    return [int(one.body) for one in all_of(store, topic)]


def delivered_by_a_broker(store: MessageStore, level: int, count: int, *, start: int = 0) -> None:
    """Deliver as a broker does: store the next messages of a level again, without any envelope."""
    for one in all_waiting(store, level)[start : start + count]:
        fields = RecordFields(
            topic=one.properties["REAL_TOPIC"].encode(),
            queue_id=int(one.properties["REAL_QID"]),
            body=one.stored_body,
            properties=encode_properties({k: v for k, v in one.properties.items() if k != "__CRC32#"}),
            flag=one.flag,
            sys_flag=one.sys_flag,
            born_timestamp=one.born_timestamp,
            born_host=encode_host(one.born_host),
            store_host=encode_host(one.store_host),
            reconsume_times=one.reconsume_times,
        )
        assert store.put_record(fields).stored


def topic_names(store: MessageStore) -> list[str]:
    return json.loads((store.path / "config" / "topics.json").read_text())["topicConfigTable"].keys()  # type: ignore[no-any-return]


def all_waiting(store: MessageStore, level: int) -> list[ReceivedMessage]:
    return [one for one in all_of(store, SCHEDULE_TOPIC) if one.queue_id == level - 1]


def claim(path: Path, offsets: dict[int, int] | None) -> None:
    """Write these offsets to delayOffset.json, or remove it."""
    for name in ("delayOffset.json", "delayOffset.json.bak"):
        (path / "config" / name).unlink(missing_ok=True)
    if offsets is not None:
        DelayOffsetsFile(path / "config").commit(offsets)


def test_message_is_delivered_once_when_it_is_due(store: MessageStore, clock: ManualClock) -> None:
    put(store, 3, level=1)
    put(store, 2, level=2, first=3)
    result = deliver_due(store)
    assert (result.rows, result.next_due_ms, bodies(store)) == (0, NOW + 1000, [])
    clock.set(NOW + 999)
    assert deliver_due(store).rows == 0
    clock.set(NOW + 1000)
    result = deliver_due(store)
    assert (result.rows, result.next_due_ms, bodies(store)) == (3, NOW + 5000, [0, 1, 2])
    assert deliver_due(store).rows == 0
    clock.set(NOW + 9000)
    result = deliver_due(store)
    assert (result.rows, result.next_due_ms, bodies(store)) == (2, None, [0, 1, 2, 3, 4])
    for one in all_of(store):
        assert one.store_timestamp >= NOW + (1000 if int(one.body) < 3 else 5000)
        assert one.properties["DELAY"] == ("1" if int(one.body) < 3 else "2")
        assert (one.properties["REAL_TOPIC"], one.properties["REAL_QID"]) == ("orders", "0")
    assert [int(one.body) for one in store.query_message("orders", "k4")] == [4]
    assert [int(one.body) for one in store.get_message("orders", 0, 0, tags="t").messages] == [0, 1, 2, 3, 4]
    assert DelayOffsetsFile(store.path / "config").offsets() == {1: 3, 2: 2}
    store.close()
    assert verify_store(store.path).findings == []


def test_until_after_now_counts_as_now(store: MessageStore, clock: ManualClock) -> None:
    put(store, 1)
    result = deliver_due(store, until_ms=NOW + 3_600_000)
    assert (result.rows, result.until_ms) == (0, NOW)
    clock.set(NOW + 5000)
    assert deliver_due(store, until_ms=NOW + 999).rows == 0
    assert deliver_due(store, until_ms=NOW + 1000).rows == 1


def test_dry_run_counts_and_changes_nothing(store: MessageStore, clock: ManualClock) -> None:
    put(store, 3)
    put(store, 2, level=3, topic="%RETRY%g")
    store.close()  # its services would write their files meanwhile
    before = {path: path.read_bytes() for path in store.path.rglob("*") if path.is_file()}
    with StoreReader(store.path) as reader:
        result = preview_due(reader, NOW + 10_000)
    assert result.as_dict()["levels"] == {
        "1": {"delivered": 3, "retries": 0, "skipped": {}},
        "3": {"delivered": 2, "retries": 2, "skipped": {}},
    }
    assert (result.dry_run, result.rows, result.retries, result.next_due_ms) == (True, 5, 2, None)
    assert {path: path.read_bytes() for path in store.path.rglob("*") if path.is_file()} == before
    clock.set(NOW + 10_000)
    with MessageStore.open(store.path, StoreConfig(clock=clock, **SIZES)) as again:
        done = deliver_due(again)
    assert (done.rows, done.retries, done.bytes) == (5, 2, result.bytes)


@pytest.mark.parametrize("jumps", [[-3_600_000, 0, 86_400_000], [86_400_000, -5_000, 86_400_000 + 30_000]])
def test_no_message_is_early_whatever_the_clock_does(store: MessageStore, clock: ManualClock, jumps: list[int]) -> None:
    for number, jump in enumerate([0, *jumps]):
        clock.set(NOW + jump)
        put(store, 2, level=1 + number, first=10 * number)
        deliver_due(store)
        deliver_due(store)
    clock.set(NOW + 10 * 86_400_000)
    deliver_due(store)
    waited = {int(one.body): one.store_timestamp for one in all_of(store, SCHEDULE_TOPIC)}
    level = {int(one.body): int(one.properties["DELAY"]) for one in all_of(store)}
    assert sorted(bodies(store)) == sorted(waited)
    for one in all_of(store):
        number = int(one.body)
        assert one.store_timestamp >= waited[number] + store.config.delay_levels_ms[level[number] - 1]


def test_changed_levels_do_not_affect_waiting_messages(tmp_path: Path, clock: ManualClock) -> None:
    """They are neither early nor forgotten, although the level is shorter now, or removed."""
    with MessageStore.open(tmp_path / "s", StoreConfig(clock=clock, **SIZES)) as store:
        put(store, 2, level=2)
        put(store, 2, level=5, first=2)
    with MessageStore.open(tmp_path / "s", StoreConfig(clock=clock, **SIZES, message_delay_level="1s 1s")) as store:
        clock.set(NOW + 4_999)
        assert deliver_due(store).rows == 0
        clock.set(NOW + 5_000)
        assert deliver_due(store).rows == 2
        clock.set(NOW + 60_000)
        assert deliver_due(store).rows == 2
        assert bodies(store) == [0, 1, 2, 3]


def test_burst_is_delivered_in_several_commits(store: MessageStore, clock: ManualClock) -> None:
    rows = {
        "body": [b"%d" % n for n in range(3000)],
        "delayTimeLevel": pa.array([1 + n % 2 for n in range(3000)], pa.int32()),
    }
    store.append_batch(pa.RecordBatch.from_pydict(rows), "orders")
    clock.set(NOW + 5000)
    progress: list[tuple[int, int]] = []
    delivery = DelayDelivery(store, commit_bytes=150_000)
    result = delivery.deliver(progress=lambda done, total: progress.append((done, total)))
    assert result.rows == 3000
    assert result.commits == len(progress) > 3
    assert progress[-1] == (3000, 3000)
    assert Counter(bodies(store)) == Counter(range(3000))
    delivered = all_of(store)
    for queue_id in store.queues("orders"):
        found = [int(one.body) for one in delivered if one.queue_id == queue_id]
        assert [n for n in found if n % 2 == 0] == sorted(n for n in found if n % 2 == 0)
        assert [n for n in found if n % 2] == sorted(n for n in found if n % 2)


def test_delayed_rows_of_a_sink_commit_are_delivered(store: MessageStore, clock: ManualClock) -> None:
    """delayTimeLevel as a column of staged rows: in one commit with rows that are not delayed."""
    encoder = BatchEncoder(store.config, store.queue_count, default_topic="orders", row_hashes=True)
    rows = pa.RecordBatch.from_pydict(
        {
            "body": [b"%d" % n for n in range(40)],
            "delayTimeLevel": pa.array([None if n % 4 == 0 else n % 4 for n in range(40)], pa.int32()),
            "shardingKey": [f"s{n % 3}" for n in range(40)],
        }
    )
    part = stage(encoder.encode(rows, NOW), batch_directory(store.paths.staging, "sink", 0), "p0")
    commit_batch(store, SinkBatch("sink", "query", 0, "run", 1, [part]))
    assert Counter(bodies(store)) == Counter(range(0, 40, 4))
    clock.set(NOW + 10_000)
    assert deliver_due(store).rows == 30
    assert Counter(bodies(store)) == Counter(range(40))
    shards: dict[int, set[int]] = {}
    for one in all_of(store):
        shards.setdefault(int(one.body) % 3, set()).add(one.queue_id)
    assert all(len(queues) == 1 for queues in shards.values())


# -- where a delivery continues


@pytest.mark.parametrize(
    ("file", "index"),
    [
        (None, True),
        ({1: 1}, True),
        ({1: 3}, True),
        ({1: 5}, True),
        ({1: 1 << 40}, True),
        ({7: 4}, True),
        ({1: 9}, False),
    ],
)
def test_delivery_continues_at_the_envelopes_position(
    tmp_path: Path, clock: ManualClock, file: dict[int, int] | None, index: bool
) -> None:
    """The content of delayOffset.json does not matter. Without an index it counts only as far as messages were due."""
    config = StoreConfig(clock=clock, **SIZES, message_index_enable=index)
    with MessageStore.open(tmp_path / "s", config) as store:
        put(store, 3)
        clock.set(NOW + 1000)
        assert deliver_due(store).rows == 3
        put(store, 6, first=3)
    claim(tmp_path / "s", file)
    with MessageStore.open(tmp_path / "s", config) as store:
        assert deliver_due(store).rows == 0
        assert DelayOffsetsFile(tmp_path / "s" / "config").offsets()[1] == 3
        clock.set(NOW + 2000)
        assert deliver_due(store).rows == 6
        assert bodies(store) == list(range(9))
        assert DelayOffsetsFile(tmp_path / "s" / "config").offsets()[1] == 9


@pytest.mark.parametrize(
    ("native", "broker", "file"),
    [(0, 2, "missing"), (0, 33, "ahead"), (4, 1, "right"), (4, 7, "missing"), (4, 33, "outdated"), (4, 2, "ahead")],
)
def test_messages_that_a_broker_delivered_are_not_delivered_again(
    tmp_path: Path, clock: ManualClock, native: int, broker: int, file: str
) -> None:
    """Also after the broker was killed before it wrote the file; wrongly claimed messages are delivered."""
    path, config = tmp_path / "s", StoreConfig(clock=clock, **SIZES)
    with MessageStore.open(path, config) as store:
        put(store, native)
        clock.set(NOW + 1000)
        assert deliver_due(store).rows == native
        put(store, 40, first=native)
        clock.set(NOW + 2000)
        delivered_by_a_broker(store, 1, broker, start=native)
    position = native + broker
    claim(
        path, {"right": {1: position}, "missing": None, "outdated": {1: position - 1}, "ahead": {1: 40 + native}}[file]
    )
    with MessageStore.open(path, config) as store:
        assert deliver_due(store).rows == 40 - broker
        assert bodies(store) == list(range(40 + native))
        assert DelayOffsetsFile(path / "config").offsets()[1] == 40 + native
    assert verify_store(path).findings == []


def test_outdated_delay_offset_file_is_noticed(store: MessageStore, clock: ManualClock) -> None:
    """A kill between a commit and the file leaves it: a broker would deliver again."""
    put(store, 3)
    clock.set(NOW + 1000)
    assert not file_lags(last_commit(store, SINK_ID), {})
    deliver_due(store)
    assert not file_lags(last_commit(store, SINK_ID), {1: 3})
    assert not file_lags(last_commit(store, SINK_ID), {1: 4, 2: 7})
    assert file_lags(last_commit(store, SINK_ID), {1: 2})
    assert file_lags(last_commit(store, SINK_ID), {})


def test_reader_of_an_unclean_store_sees_due_messages(tmp_path: Path, clock: ManualClock) -> None:
    """A job that looks before it opens the store would otherwise never open it."""
    path, config = tmp_path / "s", StoreConfig(clock=clock, **SIZES)
    with MessageStore.open(path, config) as store:
        put(store, 4)
    (path / "abort").touch()
    claim(path, {1: 4})
    with StoreReader(path) as reader:
        assert preview_due(reader, NOW + 1000).rows == 4
        positions, lags = positions_seen(reader, NOW + 1000)
        assert (positions.by_level, lags) == ({1: 0}, False)


def test_claim_without_counter_evidence_is_believed(tmp_path: Path, clock: ManualClock) -> None:
    """Without an index, a broker's position is the only evidence, and RocketMQ relies on it too."""
    path, config = tmp_path / "s", StoreConfig(clock=clock, **SIZES, message_index_enable=False)
    with MessageStore.open(path, config) as store:
        put(store, 10)
        clock.set(NOW + 1000)
        delivered_by_a_broker(store, 1, 4)
    claim(path, {1: 4})
    with MessageStore.open(path, config) as store:
        assert deliver_due(store).rows == 6
        assert bodies(store) == list(range(10))


def test_message_that_was_sent_twice_is_delivered_twice(store: MessageStore, clock: ManualClock) -> None:
    """Twins have one UNIQ_KEY: one copy in the log is the delivery of one of them."""
    for _ in range(3):
        twin = Message(
            "orders", b"7", delay_time_level=1, queue_id=0, properties={"UNIQ_KEY": "U7"}, born_timestamp=NOW
        )
        assert store.put_message(twin).stored
    clock.set(NOW + 1000)
    delivered_by_a_broker(store, 1, 1)
    assert deliver_due(store).rows == 2
    assert bodies(store) == [7, 7, 7]


def test_position_after_the_end_of_the_queue_is_ignored(tmp_path: Path, clock: ManualClock) -> None:
    """The queue was created again (RocketMQ does that to a lost one): the messages that wait in it are delivered."""
    path, config = tmp_path / "s", StoreConfig(clock=clock, **SIZES)
    with MessageStore.open(path, config) as store:
        put(store, 2)
    known = CommitEnvelope(SINK_ID, 3, "run", 1, 5, "", progress={"1": 5})
    (path / "rocketflow" / "sinks.json").write_text(json.dumps({SINK_ID: known.encode().decode()}))
    claim(path, {1: 5})
    with MessageStore.open(path, config) as store:
        clock.set(NOW + 9000)
        assert deliver_due(store).rows == 2
        assert bodies(store) == [0, 1]


def test_second_of_two_deliveries_plans_again(store: MessageStore, clock: ManualClock) -> None:
    put(store, 4)
    put(store, 4, level=2, first=4)
    one, other = DelayDelivery(store), DelayDelivery(store)
    assert one.deliver().rows == other.deliver().rows == 0  # both have their positions
    clock.set(NOW + 1000)
    assert one.deliver().rows == 4
    assert other.deliver().rows == 0
    clock.set(NOW + 5000)
    assert other.deliver().rows == 4
    assert one.deliver().rows == 0
    assert bodies(store) == list(range(8))


def test_failed_commit_leaves_everything_for_the_next(
    store: MessageStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, 4)
    clock.set(NOW + 1000)
    delivery = DelayDelivery(store)
    with monkeypatch.context() as patch:
        patch.setattr(store, "append_commit", lambda *_: (_ for _ in ()).throw(StoreError("no")))
        with pytest.raises(StoreError, match="no"):
            delivery.deliver()
    assert bodies(store) == []
    assert delivery.deliver().rows == 4
    assert bodies(store) == [0, 1, 2, 3]


# -- skipped messages


def _forged(**properties: str) -> RecordFields:
    given = {"DELAY": "1", "REAL_TOPIC": "orders", "REAL_QID": "0", **properties}
    raw = encode_properties({name: value for name, value in given.items() if value})
    return RecordFields(SCHEDULE_TOPIC.encode(), 0, b"99", raw, 0, 0, NOW, HOST, HOST)


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({"REAL_TOPIC": ""}, "noTarget"),
        ({"REAL_TOPIC": "../../evil"}, "noTarget"),
        ({"REAL_TOPIC": SCHEDULE_TOPIC}, "noTarget"),
        ({"REAL_TOPIC": COMMIT_TOPIC}, "noTarget"),
        ({"REAL_TOPIC": "rmq_sys_wheel_timer"}, "noTarget"),
        ({"REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC"}, "half"),
        ({"REAL_QID": ""}, "noTarget"),
        ({"REAL_QID": "2147483647"}, "noTarget"),
        ({"REAL_QID": "9" * 5000}, "noTarget"),
        ({"REAL_QID": "½"}, "noTarget"),
    ],
)
def test_message_without_a_legal_target_is_skipped_and_reported(
    store: MessageStore, clock: ManualClock, properties: dict[str, str], kind: str
) -> None:
    put(store, 1)
    assert store.put_record(_forged(**properties)).stored
    put(store, 1, first=1)
    clock.set(NOW + 1000)
    result = deliver_due(store)
    assert bodies(store) == [0, 1]
    assert result.levels[1].skipped == {kind: 1}
    assert events.counts(store.path).get(events.SKIPPED, 0) == (kind != "half")
    assert list(topic_names(store)) == ["orders"]
    assert deliver_due(store).skipped == 0


@pytest.mark.parametrize("level", ["0", "", "x", "77"])
def test_invalid_stored_level_does_not_block_its_queue(store: MessageStore, clock: ManualClock, level: str) -> None:
    assert store.put_record(_forged(DELAY=level)).stored
    put(store, 1)
    clock.set(NOW + 7_200_000)
    assert deliver_due(store).rows == 2
    assert bodies(store) == [99, 0]


def test_damaged_record_is_skipped_alone(tmp_path: Path, clock: ManualClock) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, StoreConfig(clock=clock, **SIZES)) as store:
        put(store, 5)
        place = int(store.read_units(SCHEDULE_TOPIC, 0, 2, 3)["phy_offset"][0])
    with (path / "commitlog" / "0".zfill(20)).open("r+b") as log:
        log.seek(place + 90)
        byte = log.read(1)[0]
        log.seek(place + 90)
        log.write(bytes([byte ^ 1]))
    with MessageStore.open(path, StoreConfig(clock=clock, **SIZES)) as store:
        clock.set(NOW + 1000)
        before = events.counts(path).get(events.SKIPPED, 0)
        result = deliver_due(store)
        assert result.levels[1].skipped == {"unreadable": 1}
        assert events.counts(path)[events.SKIPPED] == before + 1
        assert bodies(store) == [0, 1, 3, 4]
        assert deliver_due(store).skipped == 0


def test_unit_without_a_valid_time_does_not_make_a_message_early(tmp_path: Path, clock: ManualClock) -> None:
    """An address of the queue's extension, or a damaged time: the record's time counts."""
    path = tmp_path / "s"
    with MessageStore.open(path, StoreConfig(clock=clock, **SIZES)) as store:
        put(store, 3)
    (queue,) = sorted((path / "consumequeue" / SCHEDULE_TOPIC / "0").iterdir())
    units = np.memmap(queue, ">i8, >i4, >i8".replace(" ", ""), "r+")
    times = np.ndarray((3,), ">i8", units, 12, (20,))
    times[0], times[1], times[2] = -(1 << 63) + 20, 5, 1 << 61
    units.flush()
    with StoreReader(path) as reader:
        assert preview_due(reader, NOW + 999).rows == 0
        assert preview_due(reader, NOW + 1000).rows == 3


def test_unit_of_a_lost_message_does_not_block_its_level(tmp_path: Path, clock: ManualClock) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, StoreConfig(clock=clock, **SIZES)) as store:
        put(store, 3)
        end = store.max_phy_offset
    (queue,) = sorted((path / "consumequeue" / SCHEDULE_TOPIC / "0").iterdir())
    units = np.memmap(queue, UNIT_DTYPE, "r+")
    units[1]["phy_offset"], units[1]["msg_size"], units[1]["tags_code"] = end - 1, 1, LOST_TAGS_CODE
    units.flush()
    with StoreReader(path) as reader:
        result = preview_due(reader, NOW + 1000)
    assert (result.rows, result.levels[1].skipped, result.next_due_ms) == (2, {"unreadable": 1}, None)


# -- the service


def test_services_of_two_stores_are_independent(tmp_path: Path) -> None:
    clocks = [ManualClock(NOW), ManualClock(NOW + 10)]
    stores = [
        MessageStore.open(tmp_path / f"s{n}", StoreConfig(clock=clock, **SIZES)) for n, clock in enumerate(clocks)
    ]
    services = [ScheduleMessageService(store, poll_s=0.005, first_s=0.0) for store in stores]
    try:
        for number, store in enumerate(stores):
            put(store, 50, first=100 * number)
        clocks[0].set(NOW + 1000)
        _until(lambda: services[0].delivered == 50)
        assert (bodies(stores[0]), bodies(stores[1])) == (list(range(50)), [])
        clocks[1].set(NOW + 1010)
        _until(lambda: services[1].delivered == 50)
        put(stores[0], 1, first=50)
        clocks[0].set(NOW + 2000)
        assert deliver_due(stores[0]).rows + services[0].delivered >= 50
        _until(lambda: bodies(stores[0]) == list(range(51)))
    finally:
        for service in services:
            service.stop()
        for store in stores:
            store.close()
    assert all(service.error is None for service in services)


def test_service_that_cannot_deliver_reports_and_tries_again(
    store: MessageStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, 3)
    clock.set(NOW + 1000)
    broken = threading.Event()
    append = store.append_commit
    failures = []

    def failing(*given: object) -> object:
        if not broken.is_set():
            failures.append(given)
            raise StoreError("no space")
        return append(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "append_commit", failing)
    service = ScheduleMessageService(store, poll_s=0.005, back_off_s=0.02, first_s=0.0)
    try:
        _until(lambda: len(failures) > 1)
        assert isinstance(service.error, StoreError)
        assert events.counts(store.path)[events.DELAY_HELD] >= 1
        assert bodies(store) == []
        broken.set()
        _until(lambda: service.delivered == 3)
    finally:
        service.stop()
    assert bodies(store) == [0, 1, 2]
    assert service.error is None


def test_stop_ends_a_service_that_backs_off(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = threading.Event()

    def failing(*_: object) -> object:
        failed.set()
        raise StoreError("no")

    monkeypatch.setattr(store, "queues", failing)
    service = ScheduleMessageService(store, poll_s=0.001, back_off_s=3600.0, first_s=0.0)
    assert failed.wait(30)
    service.stop()


def test_delivery_from_a_locked_store_is_refused(store: MessageStore) -> None:
    with pytest.raises(StoreLockedError):
        MessageStore.open(store.path)


def _until(true: Callable[[], bool]) -> None:
    """Wait for a condition, 30 s at most."""
    tick = threading.Event()
    for _ in range(6000):
        if true():
            return
        tick.wait(0.005)
    raise AssertionError("it did not come true")


def test_delivery_from_a_closed_store_raises(store: MessageStore, clock: ManualClock) -> None:
    put(store, 3)
    clock.set(NOW + 2_000)
    store.close()
    with pytest.raises(StoreClosedError):
        deliver_due(store)
    with MessageStore.open(store.path, store.config) as opened:
        assert deliver_due(opened).rows == 3


def test_delivery_works_with_sync_flush(tmp_path: Path, clock: ManualClock) -> None:
    config = StoreConfig(clock=clock, **{**SIZES, "flush_disk_type": FlushDiskType.SYNC_FLUSH})
    with MessageStore.open(tmp_path / "s", config) as store:
        put(store, 3)
        clock.set(NOW + 1000)
        assert deliver_due(store).rows == 3
        assert bodies(store) == [0, 1, 2]


def test_new_retry_topic_gets_one_queue(store: MessageStore, clock: ManualClock) -> None:
    assert store.put_record(_forged(REAL_TOPIC="%RETRY%h")).stored
    clock.set(NOW + 1000)
    assert deliver_due(store).retries == 1
    topic = store.config_files.topics.get("%RETRY%h")
    assert topic is not None
    assert topic.write_queue_nums == topic.read_queue_nums == 1
