"""A store through random lives against a model made of a list: puts, client and Arrow batches, sink commits, rolls,
stops, crashes, retention.

The reader must show exactly what the model has: bounds, messages by queue, tag, place, time and key. After a step that
only appends it is asked for the new messages, and every few steps, and after any other step, for all. A failure prints
the steps that lead to it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rocketflow_store import (
    FlushDiskType,
    GetMessageStatus,
    Message,
    MessageStore,
    PutMessageStatus,
    StoreConfig,
    StoreReader,
)
from rocketflow_store.commits.batch_commit import CommitStatus, SinkBatch, commit_batch, last_commit
from rocketflow_store.commits.staged_part import batch_directory, stage
from rocketflow_store.format.batch_body import BatchEntry, encode_batch_body
from rocketflow_store.format.properties import encode_properties
from rocketflow_store.metadata.native.commit_envelope import COMMIT_TOPIC
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.message import MessageBatch
from rocketflow_store.records.encoding.encode import BatchEncoder
from tests.support.trials import FULL, LEVEL

LOG_FILE = 4096
QUEUE_UNITS = 7
START_MS = 1_700_000_000_000
TOPICS = ("orders", "%RETRY%g", "t-3")
QUEUES = 2
TAGS = ("Aa", "BB", "paid", "\u00e9t\u00e9")  # the first two have one Java hash
KEYS = ("k0", "k1", "k2", "\u94a5")
HEAD_SIZE = 84 + 4 + 1 + 2  # of a V1 record: fixed fields, body length, topic length, properties length
PROPERTIES_AT = HEAD_SIZE - 2
UNIQ_KEY_SIZE = len("UNIQ_KEY") + 32 + 2
PROPERTY_CRC_SIZE = len("__CRC32#") + 10 + 2
BLANK_SIZE = 8
MOST_KEY_RESULTS = 64
SINK = "sink"
IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
LOOK_EVERY = 8
"""Steps that only append, after which everything is checked all the same."""
LIVES, STEPS = int(os.environ.get("RF_MODEL_LIVES", "1000" if FULL else "30" if LEVEL == "fast" else "8")), 30


def java_hash(text: str) -> int:
    value = 0
    for one in text:
        value = (31 * value + ord(one)) & 0xFFFFFFFF
    return value


def java_hashes_of(expression: str | None) -> set[int]:
    return {java_hash(one.strip()) for one in (expression or "").split("||")}


@dataclass(frozen=True)
class Row:
    """A message to be stored; with a queue of None the store takes turns."""

    topic: str
    queue_id: int | None
    body: bytes
    tags: str | None
    keys: tuple[str, ...]
    place: str | None

    @property
    def joined_keys(self) -> str | None:
        return " ".join(self.keys) or None

    @property
    def properties(self) -> dict[str, str]:
        found = {"place": self.place, "KEYS": self.joined_keys, "TAGS": self.tags}
        return {name: value for name, value in found.items() if value}

    @property
    def plain_size(self) -> int:
        """Bytes of the record, without a property checksum."""
        text = sum(len(name.encode()) + len(value.encode()) + 2 for name, value in self.properties.items())
        return HEAD_SIZE + len(self.body) + len(self.topic) + text + UNIQ_KEY_SIZE


@dataclass(frozen=True)
class Commit:
    """A sink commit as the model has it: its rows, and where its envelope begins and its rows end."""

    batch: SinkBatch
    begin: int
    end: int


@dataclass(frozen=True)
class Stored:
    """A message as the model has it."""

    row: Row
    queue_id: int
    queue_offset: int
    phy_offset: int
    size: int
    store_timestamp: int

    @property
    def end(self) -> int:
        return self.phy_offset + self.size

    @property
    def seen(self) -> tuple[object, ...]:
        """Return the fields that a reader must show (except the UNIQ_KEY, which the store generates)."""
        row = self.row
        return (
            *(row.topic, self.queue_id, self.queue_offset, self.phy_offset, self.size, self.store_timestamp),
            *(row.body, row.properties),
        )


ROWS = st.builds(
    Row,
    st.sampled_from(TOPICS),
    st.none() | st.integers(0, QUEUES - 1),
    st.binary(max_size=40) | st.integers(900, 1500).map(lambda size: b"x" * size),
    st.none() | st.sampled_from(TAGS),
    st.lists(st.sampled_from(KEYS), unique=True, max_size=3).map(tuple),
    st.none() | st.sampled_from(["K\u00f6ln", "\u6771\u4eac"]),
)
FILTERS = st.none() | st.lists(st.sampled_from(TAGS), min_size=1, max_size=2).map(" || ".join)


def seen(message: Any) -> tuple[object, ...]:
    properties = dict(message.properties)
    assert len(properties.pop("UNIQ_KEY")) == 32
    properties.pop("__CRC32#", None)
    return (
        *(message.topic, message.queue_id, message.queue_offset, message.phy_offset, message.store_size),
        *(message.store_timestamp, message.body, properties),
    )


def as_arrow(rows: list[Row]) -> pa.RecordBatch:
    places = [{"place": one.place} if one.place else None for one in rows]
    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array([one.topic for one in rows]),
            "queueId": pa.array([one.queue_id for one in rows], pa.int32()),
            "body": pa.array([one.body for one in rows], pa.binary()),
            "tags": pa.array([one.tags for one in rows], pa.string()),
            "keys": pa.array([one.joined_keys for one in rows], pa.string()),
            "properties": pa.array(places, pa.map_(pa.string(), pa.string())),
        }
    )


class StoreLife(RuleBasedStateMachine):
    """One directory (a new one after a crash), one writer, one reader that stays open beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.room = Path(tempfile.mkdtemp(prefix="rocketflow-model-", dir=IN_MEMORY))
        self.lives = 0
        self.path = self.room / "0"
        self.clock = ManualClock(START_MS)
        self.messages: list[Stored] = []
        self.end = 0
        self.end_marks: set[int] = set()
        """Positions of the marks of unused file ends."""
        self.durable = 0
        self.min_phy_offset = 0
        self.commits: list[Commit] = []
        self.looked = 0
        """Number of messages when everything was checked last."""
        self.steps = 0

    @initialize(sync=st.booleans(), property_crc=st.booleans())
    def begin(self, sync: bool, property_crc: bool) -> None:
        self.config = StoreConfig(
            flush_disk_type=FlushDiskType.SYNC_FLUSH if sync else FlushDiskType.ASYNC_FLUSH,
            mapped_file_size_commit_log=LOG_FILE,
            mapped_file_size_consume_queue=QUEUE_UNITS * 20,
            max_hash_slot_num=5,
            max_index_num=20,
            default_topic_queue_nums=QUEUES,
            enabled_append_prop_crc=property_crc,
            flush_interval_consume_queue=3_600_000,  # the frontier moves when the model says so
            clock=self.clock,
        )
        self.open()

    def open(self) -> None:
        self.store = MessageStore.open(self.path, self.config)
        self.reader = StoreReader(self.path, self.config)
        self.turns = Counter(one.row.topic for one in self.messages)
        self.durable = self.end
        self.newest_ms = max((one.store_timestamp for one in self.messages), default=0)
        self.looked = -1

    def teardown(self) -> None:
        self.looked = -1
        self.what_readers_see()
        self.reader.close()
        self.store.close()
        shutil.rmtree(self.room)

    # -- steps

    def size_of(self, row: Row) -> int:
        return row.plain_size + (PROPERTY_CRC_SIZE if self.config.enabled_append_prop_crc else 0)

    def store_in_model(self, rows: list[Row], together: bool = False) -> list[Stored]:
        """Store rows in the model; with `together`, in one file."""
        self.newest_ms = max(self.newest_ms, self.clock.now_ms())
        added = []
        most = sum(map(self.size_of, rows)) if together else 0
        for row in rows:
            queue_id = row.queue_id
            if queue_id is None:
                queue_id = self.turns[row.topic] % QUEUES
                self.turns[row.topic] = queue_id + 1
            file_end = self.end - self.end % LOG_FILE + LOG_FILE
            size = self.size_of(row)
            if self.end + max(size, most) + BLANK_SIZE > file_end:
                self.end_marks.add(self.end)
                self.end = file_end
            offset = len(self.queue(row.topic, queue_id))
            self.messages.append(Stored(row, queue_id, offset, self.end, size, self.newest_ms))
            self.end += size
            most = 0
            added.append(self.messages[-1])
        return added

    @rule(row=ROWS)
    def put(self, row: Row) -> None:
        result = self.store.put_message(
            Message(
                *(row.topic, row.body, row.tags, row.keys),
                properties={"place": row.place} if row.place else {},
                queue_id=row.queue_id,
            )
        )
        (stored,) = self.store_in_model([row])
        assert (result.queue_id, result.queue_offset, result.physical_offset) == (
            *(stored.queue_id, stored.queue_offset, stored.phy_offset),
        )

    @rule(rows=st.lists(ROWS, min_size=1, max_size=12))
    def append_batch(self, rows: list[Row]) -> None:
        result = self.store.append_batch(as_arrow(rows))
        stored = self.store_in_model(rows)
        assert (result.rows, result.first_phy_offset, result.next_phy_offset) == (
            *(len(rows), stored[0].phy_offset, self.end),
        )

    @rule(
        rows=st.lists(ROWS, min_size=1, max_size=6),
        topic=st.sampled_from(TOPICS),
        queue_id=st.integers(0, QUEUES - 1),
    )
    def put_client_batch(self, rows: list[Row], topic: str, queue_id: int) -> None:
        rows = [replace(one, topic=topic, queue_id=queue_id) for one in rows]
        entries = [BatchEntry(0, one.body, encode_properties(one.properties)) for one in rows]
        result = self.store.put_message(MessageBatch(topic, encode_batch_body(entries), queue_id=queue_id))
        size = sum(map(self.size_of, rows)) + BLANK_SIZE
        if not result.stored:  # the store reserves the longest size of a record
            assert result.status is PutMessageStatus.MESSAGE_ILLEGAL
            assert size + 40 * len(rows) > LOG_FILE
            return
        assert size <= LOG_FILE
        stored = self.store_in_model(rows, together=True)
        assert (result.message_count, result.queue_offset, result.physical_offset) == (
            *(len(rows), stored[0].queue_offset, stored[0].phy_offset),
        )

    @rule(rows=st.lists(ROWS, min_size=1, max_size=12))
    def sink_commit(self, rows: list[Row]) -> None:
        rows = [replace(one, queue_id=one.queue_id or 0) for one in rows]
        batch_id = self.commits[-1].batch.batch_id + 1 if self.commits else 0
        encoder = BatchEncoder(self.config, lambda _: QUEUES, row_hashes=True)
        chunks = encoder.encode(as_arrow(rows), self.clock.now_ms())
        part = stage(chunks, batch_directory(self.store.paths.staging, SINK, batch_id), "p0")
        batch = SinkBatch(SINK, SINK, batch_id, "run", 1, (part,))
        result = commit_batch(self.store, batch)
        assert (result.status, result.rows) == (CommitStatus.COMMITTED, len(rows))
        envelope = self.store.look_message_by_offset(result.begin_offset)
        assert envelope is not None
        head, *_ = self.store_in_model([Row(COMMIT_TOPIC, 0, envelope.body, SINK, (SINK,), None), *rows])
        assert (head.phy_offset, head.size, self.end) == (
            *(result.begin_offset, envelope.store_size, result.end_offset),
        )
        self.commits.append(Commit(batch, result.begin_offset, result.end_offset))

    @precondition(lambda self: self.known_commit is not None)
    @rule()
    def sink_commit_again(self) -> None:
        known = self.known_commit
        assert known is not None
        assert commit_batch(self.store, known.batch).status is CommitStatus.REPLAYED
        assert self.store.max_phy_offset == self.end

    @property
    def known_commit(self) -> Commit | None:
        """Return the last commit if its envelope is still in the log."""
        return self.whole_commits[-1] if self.whole_commits else None

    @property
    def whole_commits(self) -> list[Commit]:
        """Return the commits whose envelope is still in the log: others cannot be known."""
        return [one for one in self.commits if one.begin >= self.min_phy_offset]

    @rule(elapsed_ms=st.integers(-50, 4000))
    def time_passes(self, elapsed_ms: int) -> None:
        self.clock.set(self.clock.now_ms() + elapsed_ms)

    @rule()
    def flush(self) -> None:
        self.store.flush()
        self.durable = self.end

    @rule()
    def stop_and_start(self) -> None:
        self.reader.close()
        self.store.close()
        self.open()
        assert not self.store.recovery.abort_found

    @rule(other_writer=st.booleans(), torn=st.integers(0, 3000))
    def crash(self, other_writer: bool, torn: int) -> None:
        """Continue with the current files, the last `torn` unsynced bytes of the log being zero."""
        self.lives += 1
        crashed = self.room / str(self.lives)
        shutil.copytree(self.path, crashed)
        self.reader.close()
        self.store.close()
        shutil.rmtree(self.path)
        self.path = crashed
        if other_writer:  # it keeps no confirmed frontier, and no record of an orderly stop
            for name in ("confirm", "stop"):
                (self.path / "rocketflow" / name).unlink(missing_ok=True)
        synced = self.config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        kept_from = self.end if synced else self.durable
        if other_writer:  # an empty log begins again, as RocketMQ's does
            kept_from = next((one.end for one in self.messages if one.phy_offset >= self.min_phy_offset), 0)
            kept_from = max([kept_from, *(one.end for one in self.whole_commits if one.begin < kept_from)])
        place = max(self.end - torn, kept_from)
        for one in self.messages:
            # recovery does not notice zeros in properties alone, of a commit's rows neither unless they have CRCs
            if one.phy_offset < place < one.end and not (self.gives_crc and self.is_committed(one)):
                place = min(place, one.phy_offset + PROPERTIES_AT + len(one.row.body) + len(one.row.topic))
        self.tear(place)
        self.open()
        assert self.store.recovery.abort_found
        assert self.store.recovery.truncated_to == self.end

    @property
    def gives_crc(self) -> bool:
        return bool(self.config.enabled_append_prop_crc)

    def is_committed(self, message: Stored) -> bool:
        return any(one.begin <= message.phy_offset < one.end for one in self.whole_commits)

    def tear(self, place: int) -> None:
        for file in (self.path / "commitlog").iterdir():
            start = max(place - int(file.name), 0)
            if start < LOG_FILE:
                with file.open("r+b") as opened:
                    opened.truncate(start)
                    opened.truncate(LOG_FILE)
        if place >= self.end:
            return
        for one in self.whole_commits:
            if one.begin < place < one.end:  # all of it or nothing
                place = one.begin
        self.commits = [one for one in self.commits if one.end <= place]
        self.messages = [one for one in self.messages if one.end <= place]
        end = self.messages[-1].end if self.messages else 0
        self.end_marks = {mark for mark in self.end_marks if mark <= end and mark + BLANK_SIZE <= place}
        self.end = end - end % LOG_FILE + LOG_FILE if end in self.end_marks else end

    @precondition(lambda self: self.end > self.min_phy_offset + LOG_FILE)
    @rule()
    def retention(self) -> None:
        """Remove the oldest file, as a broker's clean-up does."""
        self.reader.close()
        self.store.close()
        (self.path / "commitlog" / f"{self.min_phy_offset:020d}").unlink()
        self.min_phy_offset += LOG_FILE
        self.open()

    # -- expectations

    def queue(self, topic: str, queue_id: int) -> list[Stored]:
        return [one for one in self.messages if (one.row.topic, one.queue_id) == (topic, queue_id)]

    def queues(self) -> dict[tuple[str, int], tuple[int, list[Stored]]]:
        """Return the min offset of every queue and all messages it ever had."""
        found = {}
        for topic, queue_id in {(one.row.topic, one.queue_id) for one in self.messages}:
            there = self.queue(topic, queue_id)
            removed = sum(one.phy_offset < self.min_phy_offset for one in there)
            found[topic, queue_id] = removed, there
        return found

    @invariant()
    def what_readers_see(self) -> None:
        """Check everything after a step that may change everything, now and then, and at the end; else new messages."""
        self.steps += 1
        self.bounds_are_those_of_the_model()
        if self.looked < 0 or self.steps % LOOK_EVERY == 0:
            self.a_new_reader_sees_the_same()
            self.every_message_is_where_it_was_put()
            self.every_queue_reads_in_order()
            self.keys_find_the_newest()
            last = last_commit(self.reader, SINK)
            assert (last and last.begin_offset) == (self.known_commit and self.known_commit.begin)
        else:
            for one in self.messages[self.looked :]:
                message = self.reader.look_message_by_offset(one.phy_offset)
                assert message is not None
                assert seen(message) == one.seen
        self.looked = len(self.messages)

    def bounds_are_those_of_the_model(self) -> None:
        wanted = {key: (low, len(there)) for key, (low, there) in self.queues().items()}
        assert {key: value for key, value in self.reader.snapshot().queues.items() if value != (0, 0)} == wanted
        for topic in TOPICS:
            for queue_id in range(QUEUES):
                assert self.reader.bounds(topic, queue_id) == wanted.get((topic, queue_id), (0, 0))
        assert self.reader.max_phy_offset == self.end

    def a_new_reader_sees_the_same(self) -> None:
        wanted = {key: (low, len(there)) for key, (low, there) in self.queues().items()}
        with StoreReader(self.path) as fresh:
            assert {key: value for key, value in fresh.snapshot().queues.items() if value != (0, 0)} == wanted

    def every_message_is_where_it_was_put(self) -> None:
        for one in self.messages:
            message = self.reader.look_message_by_offset(one.phy_offset)
            if one.phy_offset < self.min_phy_offset:
                assert message is None
            else:
                assert message is not None
                assert seen(message) == one.seen
            assert self.reader.look_message_by_offset(one.phy_offset + 1) is None
        assert self.reader.look_message_by_offset(self.end) is None

    def every_queue_reads_in_order(self) -> None:
        columns = ["queueOffset", "physicalOffset", "storeSize", "body", "tags", "keys"]
        for (topic, queue_id), (low, there) in self.queues().items():
            for tags in (None, "Aa", "paid || BB"):
                wanted = [
                    (one.queue_offset, one.phy_offset, one.size, one.row.body, one.row.tags, one.row.joined_keys)
                    for one in there[low:]
                    if tags is None or one.row.tags in tags.split(" || ")
                ]
                batches = self.reader.read(topic, queue_id, low, len(there), columns, tags)
                rows = [tuple(row[name] for name in columns) for batch in batches for row in batch.to_pylist()]
                assert rows == wanted

    def keys_find_the_newest(self) -> None:
        assert self.reader.index_complete
        for topic in TOPICS:
            for key in (*KEYS, "unused"):
                wanted = [
                    one.seen
                    for one in self.messages
                    if one.row.topic == topic and key in one.row.keys and one.phy_offset >= self.min_phy_offset
                ]
                for most in (2, 100):
                    found = [seen(message) for message in self.reader.query_message(topic, key, most)]
                    assert found == wanted[-min(most, MOST_KEY_RESULTS) :]

    @rule(
        topic=st.sampled_from(TOPICS),
        queue_id=st.integers(0, QUEUES),
        offset=st.integers(0, 60),
        max_count=st.integers(1, 40),
        tags=FILTERS,
    )
    def get_message(self, topic: str, queue_id: int, offset: int, max_count: int, tags: str | None) -> None:
        got = self.reader.get_message(topic, queue_id, offset, max_count, tags)
        low, there = self.queues().get((topic, queue_id), (0, []))
        high = len(there)
        answer = (got.status, got.next_begin_offset, got.min_offset, got.max_offset)
        if high == 0:
            assert answer == (GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
            return
        for refused, status, following in (
            (offset < low, GetMessageStatus.OFFSET_TOO_SMALL, low),
            (offset == high, GetMessageStatus.OFFSET_OVERFLOW_ONE, high),
            (offset > high, GetMessageStatus.OFFSET_OVERFLOW_BADLY, high),
        ):
            if refused:
                assert answer == (status, following, low, high)
                return
        # one ConsumeQueue file a call, and at most 32 messages, as a broker does
        stop = min(high, offset - offset % QUEUE_UNITS + QUEUE_UNITS)
        hashes = java_hashes_of(tags)
        matching = [one for one in there[offset:stop] if tags is None or java_hash(one.row.tags or "") in hashes]
        most = min(max_count, 32)
        taken = matching[:most]
        following = taken[-1].queue_offset + 1 if len(taken) == most else stop
        assert [seen(one) for one in got.messages] == [one.seen for one in taken]
        assert got.buffer_total_size == sum(one.size for one in taken)
        status = GetMessageStatus.FOUND if taken else GetMessageStatus.NO_MATCHED_MESSAGE
        assert answer == (status, following, low, high)

    @rule(topic=st.sampled_from(TOPICS), queue_id=st.integers(0, QUEUES), around=st.integers(0, 60))
    def offset_by_time(self, topic: str, queue_id: int, around: int) -> None:
        low, there = self.queues().get((topic, queue_id), (0, []))
        times = [one.store_timestamp for one in there[low:]]
        chosen = times[around % len(times)] if times else START_MS
        for time in (0, chosen - 1, chosen, chosen + 1, START_MS * 2):
            lower = self.reader.get_offset_in_queue_by_time(topic, queue_id, time)
            upper = self.reader.get_offset_in_queue_by_time(topic, queue_id, time, "upper")
            assert lower == low + bisect_left(times, time)
            assert upper == low + max(bisect_right(times, time) - 1, 0)
            if times:
                nearest = self.reader.get_offset_in_queue_by_time(topic, queue_id, time, "nearest")
                assert low <= nearest < len(there)
                if time in times:
                    assert there[nearest].store_timestamp == time


# without shrinking, which takes minutes; the printed blob and --hypothesis-seed repeat a failure
StoreLife.TestCase.settings = settings(
    max_examples=LIVES,
    stateful_step_count=STEPS,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    print_blob=True,
)
TestStoreLife = StoreLife.TestCase
