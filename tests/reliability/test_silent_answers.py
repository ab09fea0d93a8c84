"""Row S30: in every way of reading a damaged store, an answer is complete, or reports that it is not.

A table of reading paths (`PATHS`) and damages (`DAMAGES`) of queue units, queue files, the index and state files, of a
store that was stopped in order, of one whose writer was killed, and beside a live writer.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from pyspark.sql.datasource import EqualTo, Filter

from rocketflow.cli import app
from rocketflow.spark.source.batch_reader import RocketFlowBatchReader
from rocketflow.spark.source.columns import Projection, source_schema
from rocketflow.spark.source.source_options import SourceOptions
from rocketflow_store import FlushDiskType, Message, MessageStore, SkipFaults, StoreReader
from rocketflow_store.format.index_layout import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import StoreError
from rocketflow_store.model.java_compat import string_hash
from rocketflow_store.rebuild.rebuild import rebuild_store
from rocketflow_store.rebuild.result import RebuildRequest
from tests.support.damage import CONFIG, Place, key_of
from tests.support.planned_query import PlannedQuery
from tests.support.results import Tally
from tests.support.trials import LEVEL, SEED

COUNT = 66
"""Messages of each queue; a queue file has 20 units."""
QUEUES = (("orders", 0), ("orders", 1), ("bills", 0))
BEGIN_MS = 1_700_000_000_000
MIDDLE_MS = BEGIN_MS + 1000 * (COUNT * len(QUEUES) // 2)
UNIT = struct.Struct(">qiq")


@dataclass(frozen=True)
class Answer:
    """The messages that a reading path found, as (topic, queue id, queue offset), and whether it reported a loss."""

    found: frozenset = frozenset()
    reported: bool = False


@dataclass
class Gathering:
    """An answer that is being collected."""

    found: set = field(default_factory=set)
    reported: bool = False

    def report(self, *_: object) -> None:
        self.reported = True

    def answer(self) -> Answer:
        return Answer(frozenset(self.found), self.reported)


def tag_of(offset: int) -> str:
    return ("red", "blue")[offset % 2]


def put(store: MessageStore, clock: ManualClock, start: int, stop: int) -> None:
    for offset in range(start, stop):
        for topic, queue_id in QUEUES:
            place = topic, queue_id, offset
            body = f"{topic} {queue_id} {offset} ".encode() * (1 + offset % 5)
            message = Message(topic, body, queue_id=queue_id, tags=tag_of(offset), keys=[key_of(place)])
            assert store.put_message(message).queue_offset == offset
            clock.set(clock.now_ms() + 1000)


# -- reading paths


def errors_reported(read: Callable[[Path, Gathering], None]) -> Callable[[Path], Answer]:
    def answer(root: Path) -> Answer:
        gathered = Gathering()
        try:
            read(root, gathered)
        except StoreError:
            gathered.report()
        return gathered.answer()

    return answer


def all_queues(reader: StoreReader) -> Iterator[tuple[str, int, int, int]]:
    for topic in reader.topics():
        for queue_id in reader.queues(topic):
            yield (topic, queue_id, *reader.bounds(topic, queue_id))


def _read(root: Path, gathered: Gathering, *, skip: bool, tags: str | None = None) -> None:
    with StoreReader(root) as reader:
        for topic, queue_id, low, high in all_queues(reader):
            more = {"faults": SkipFaults(gathered.report)} if skip else {}
            for batch in reader.read(topic, queue_id, low, high, ["queueOffset", "body"], tags, **more):
                for row in batch.to_pylist():
                    assert row["body"].startswith(f"{topic} {queue_id} {row['queueOffset']} ".encode())
                    gathered.found.add((topic, queue_id, row["queueOffset"]))


def _get_message(root: Path, gathered: Gathering, tags: str | None = None) -> None:
    with StoreReader(root) as reader:
        for topic, queue_id, at, high in all_queues(reader):
            while at < high:
                with reader.get_message(topic, queue_id, at, 32, tags) as got:
                    for one in got.messages:
                        assert one.body.startswith(f"{topic} {queue_id} {one.queue_offset} ".encode())
                        gathered.found.add((topic, queue_id, one.queue_offset))
                    if got.skipped or got.next_begin_offset <= at:
                        gathered.report()
                    at = max(got.next_begin_offset, at + 1)


def _query_keys(root: Path, gathered: Gathering) -> None:
    with StoreReader(root) as reader:
        for place in PLACES:
            for one in reader.query_message(place[0], key_of(place), faults=SkipFaults(gathered.report)):
                gathered.found.add((one.topic, one.queue_id, one.queue_offset))
        if not reader.index_complete:
            gathered.report()


def _query_tags(root: Path, gathered: Gathering) -> None:
    with StoreReader(root) as reader:
        for topic in ("orders", "bills"):
            for begin, end in ((0, MIDDLE_MS), (MIDDLE_MS + 1, 1 << 62)):  # one answer has at most 64 messages
                found = reader.query_by_tags(topic, "red", 64, begin, end)
                gathered.found.update((one.topic, one.queue_id, one.queue_offset) for one in found.messages)
                if not found.complete:
                    gathered.report()


def _by_time(root: Path, gathered: Gathering) -> None:
    """Find each message by its store time: the answer is its offset."""
    with StoreReader(root) as reader:
        for number, place in enumerate(PLACES):
            found = reader.search_by_time(place[0], place[1], BEGIN_MS + number * 1000)
            if found.offset <= place[2]:
                gathered.found.add(place)
            elif found.unreadable[0] < found.unreadable[1]:
                gathered.report()


def _bounds(root: Path, gathered: Gathering) -> None:
    with StoreReader(root) as reader:
        for topic, queue_id, low, high in all_queues(reader):
            gathered.found.update((topic, queue_id, offset) for offset in range(low, high))


def _snapshot(root: Path, gathered: Gathering) -> None:
    with StoreReader(root) as reader:
        for (topic, queue_id), (low, high) in reader.snapshot().queues.items():
            gathered.found.update((topic, queue_id, offset) for offset in range(low, high))


def _command(root: Path, gathered: Gathering, *words: str) -> list[dict]:
    printed: list[str] = []
    with output(printed):
        gathered.reported |= app.run(["store", words[0], str(root), *words[1:], "--json"]) != 0
    return [json.loads(line) for line in "".join(printed).splitlines() if line.startswith("{")]


def _cat(root: Path, gathered: Gathering) -> None:
    for topic in ("orders", "bills"):
        for one in _command(root, gathered, "cat", "--topic", topic):
            gathered.found.add((topic, one["queueId"], one["queueOffset"]))


def _spark_batch(root: Path, gathered: Gathering, *filters: Filter, **options: str) -> None:
    """Plan and read as Spark's driver and its tasks do."""
    source = {"path": str(root), "subscribe": "orders,bills", **options}
    reader = RocketFlowBatchReader(SourceOptions.parse(source, streaming=False), Projection.of(source_schema(False)))
    if filters:
        list(reader.pushFilters(list(filters)))
    for partition in reader.partitions():
        for batch in reader.read(partition):
            table = batch.select(["topic", "queueId", "queueOffset", "keys"]).to_pydict()
            for *place, keys in zip(*table.values(), strict=True):
                if not filters or filters[0].value in keys.split():
                    gathered.found.add(tuple(place))


def _spark_by_key(root: Path, gathered: Gathering) -> None:
    """Read the few rows that the index finds."""
    for place in BY_KEY:
        _spark_batch(root, gathered, EqualTo(("keys",), key_of(place)))


def _spark_stream(root: Path, gathered: Gathering) -> None:
    query = PlannedQuery(root, subscribe="orders,bills")
    try:
        query.drain()
    finally:
        gathered.found.update(row[:3] for row in query.rows)


def _writer(root: Path, gathered: Gathering) -> None:
    """Open for writing, which repairs what it can, and read."""
    with MessageStore.open(root, CONFIG) as store:
        gathered.reported |= bool(store.recovery.quarantined)
    _read(root, gathered, skip=True)


def _rebuild(root: Path, gathered: Gathering) -> None:
    gathered.reported |= rebuild_store(root, RebuildRequest(force=True), CONFIG).exit_code == 3
    _read(root, gathered, skip=True)
    _query_keys(root, gathered)


PATHS: dict[str, Callable[[Path], Answer]] = {
    "read": errors_reported(lambda root, into: _read(root, into, skip=False)),
    "read, skip": errors_reported(lambda root, into: _read(root, into, skip=True)),
    "read with tags": errors_reported(lambda root, into: _read(root, into, skip=True, tags="red")),
    "get_message": errors_reported(_get_message),
    "get_message with tags": errors_reported(lambda root, into: _get_message(root, into, "red")),
    "query by key": errors_reported(_query_keys),
    "query by tags": errors_reported(_query_tags),
    "by time": errors_reported(_by_time),
    "bounds": errors_reported(_bounds),
    "snapshot": errors_reported(_snapshot),
    "Spark batch": errors_reported(_spark_batch),
    "Spark batch with tags": errors_reported(lambda root, into: _spark_batch(root, into, tags="red")),
    "Spark batch by key": errors_reported(_spark_by_key),
    "Spark stream": errors_reported(_spark_stream),
    "cat": errors_reported(_cat),
    "open": errors_reported(_writer),
    "rebuild": errors_reported(_rebuild),
}
WRITES = ("open", "rebuild")
"""Paths that are not tested beside a live writer."""
PLACES: tuple[Place, ...] = tuple((topic, queue_id, offset) for offset in range(COUNT) for topic, queue_id in QUEUES)
RED = frozenset(place for place in PLACES if tag_of(place[2]) == "red")
BY_KEY = PLACES[::11]
WANTED = {name: RED if "tags" in name else frozenset(PLACES) for name in PATHS}
WANTED["Spark batch by key"] = frozenset(BY_KEY)


@contextmanager
def output(printed: list[str]) -> Iterator[None]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        yield
    printed.append(out.getvalue())


# -- damages


def queue_file(root: Path, number: int, queue: tuple[str, int] = QUEUES[0]) -> Path:
    return sorted((root / "consumequeue" / queue[0] / str(queue[1])).iterdir())[number]


def unit_at(root: Path, offset: int, queue: tuple[str, int] = QUEUES[0]) -> tuple[int, int, int]:
    return UNIT.unpack_from(queue_file(root, offset // 20, queue).read_bytes(), offset % 20 * UNIT.size)


def write(file: Path, at: int, data: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(data)


def set_unit(root: Path, offset: int, unit: tuple[int, int, int]) -> None:
    write(queue_file(root, offset // 20), offset % 20 * UNIT.size, UNIT.pack(*unit))


Damage = Callable[[Path, random.Random], None]


def unit_damage(change: Callable[[Path, int, tuple[int, int, int], random.Random], tuple[int, int, int]]) -> Damage:
    def damage(root: Path, rng: random.Random) -> None:
        offset = rng.randrange(COUNT)
        set_unit(root, offset, change(root, offset, unit_at(root, offset), rng))

    return damage


def zeroed(first: int, stop: int) -> Damage:
    def damage(root: Path, _: random.Random) -> None:
        for offset in range(first, stop):
            set_unit(root, offset, (0, 0, 0))

    return damage


def removed(*names: str) -> Damage:
    def damage(root: Path, _: random.Random) -> None:
        for name in names:
            for one in root.glob(name):
                if one.is_dir():
                    shutil.rmtree(one)
                else:
                    one.unlink()

    return damage


def overwritten(name: str, *, with_zeros: bool = False) -> Damage:
    def damage(root: Path, rng: random.Random) -> None:
        file = root / name
        if file.exists():
            file.write_bytes(bytes(file.stat().st_size) if with_zeros else rng.randbytes(file.stat().st_size))

    return damage


def bit_flipped(name: str) -> Damage:
    def damage(root: Path, rng: random.Random) -> None:
        file = root / name
        if file.exists() and file.stat().st_size:
            at = rng.randrange(file.stat().st_size)
            write(file, at, bytes([file.read_bytes()[at] ^ 1 << rng.randrange(8)]))

    return damage


def queue_replaced(root: Path, _: random.Random) -> None:
    shutil.rmtree(root / "consumequeue" / "orders" / "0")
    shutil.copytree(root / "consumequeue" / "bills" / "0", root / "consumequeue" / "orders" / "0")


def index_file(root: Path, rng: random.Random) -> Path:
    return rng.choice(sorted((root / "index").iterdir()))


SLOTS = CONFIG.max_hash_slot_num


def slot(value: Callable[[random.Random], int]) -> Damage:
    def damage(root: Path, rng: random.Random) -> None:
        file = index_file(root, rng)
        data = file.read_bytes()
        used = [n for n in range(SLOTS) if struct.unpack_from(">i", data, HEADER_SIZE + n * SLOT_SIZE)[0]]
        write(file, HEADER_SIZE + rng.choice(used) * SLOT_SIZE, struct.pack(">i", value(rng)))

    return damage


def entry(at: int, size: int, value: Callable[[random.Random], bytes | None]) -> Damage:
    def damage(root: Path, rng: random.Random) -> None:
        file = index_file(root, rng)
        count = struct.unpack_from(">i", file.read_bytes(), 36)[0]
        place = HEADER_SIZE + SLOTS * SLOT_SIZE + rng.randrange(1, max(count, 2)) * ENTRY_SIZE + at
        old = file.read_bytes()[place : place + size]
        new = value(rng)
        if new is None:
            byte = rng.randrange(size)
            new = bytes(b ^ (1 << rng.randrange(8) if n == byte else 0) for n, b in enumerate(old))
        write(file, place, new)

    return damage


def meta_value(name: str, value: int) -> Damage:
    def damage(root: Path, _: random.Random) -> None:
        for file in (root / "rocketflow").glob("store.meta*"):
            values = json.loads(file.read_text())
            file.write_text(json.dumps({**values, name: value}))

    return damage


LIMITS = {
    ("unit with the other tag's code", "read with tags"),
    ("unit with the other tag's code", "get_message with tags"),
    ("unit with the other tag's code", "query by tags"),
    ("unit with the other tag's code", "Spark batch with tags"),
    ("entry's link 0", "query by key"),
    ("entry's link 0", "query by tags"),
    ("entry's link 0", "Spark batch by key"),
}
"""Damage that only `verify` finds: a unit with the valid code of another tag, a chain that ends early."""
DAMAGES: dict[str, Damage] = {
    # queue units
    "unit zeroed": unit_damage(lambda root, offset, unit, rng: (0, 0, 0)),
    "unit's place": unit_damage(lambda root, offset, unit, rng: (unit[0] ^ 1 << rng.randrange(63), *unit[1:])),
    "unit's size": unit_damage(lambda root, offset, unit, rng: (unit[0], unit[1] ^ 1 << rng.randrange(31), unit[2])),
    "unit's code": unit_damage(
        lambda root, offset, unit, rng: (unit[0], unit[1], unit[2] ^ 1 << rng.randrange(63)),
    ),
    "unit with the other tag's code": unit_damage(
        lambda root, offset, unit, rng: (unit[0], unit[1], string_hash(tag_of(offset + 1)))
    ),
    "unit of a neighbour": unit_damage(lambda root, offset, unit, rng: unit_at(root, (offset + 1) % COUNT)),
    "unit of two places on": unit_damage(lambda root, offset, unit, rng: unit_at(root, (offset + 2) % COUNT)),
    "unit of another queue": unit_damage(lambda root, offset, unit, rng: unit_at(root, offset, QUEUES[1])),
    "blank unit": unit_damage(lambda root, offset, unit, rng: (0, 0x7FFFFFFF, 0)),
    "last unit zeroed": zeroed(COUNT - 1, COUNT),
    "first unit zeroed": zeroed(0, 1),
    "tail zeroed": zeroed(45, COUNT),
    "file of units zeroed": zeroed(20, 40),
    "all units zeroed": zeroed(0, COUNT),
    # queue files
    "first queue file": lambda root, rng: queue_file(root, 0).unlink(),
    "middle queue file": lambda root, rng: queue_file(root, 1).unlink(),
    "last queue file": lambda root, rng: queue_file(root, -1).unlink(),
    "queue's directory": removed("consumequeue/orders/0"),
    "topic's directory": removed("consumequeue/orders"),
    "all queues": removed("consumequeue"),
    "another queue's files": queue_replaced,
    "queue file cut": lambda root, rng: os.truncate(queue_file(root, 3), 100),
    "random bytes in a queue file": lambda root, rng: write(queue_file(root, 1), 40, rng.randbytes(60)),
    # index
    "slot zeroed": slot(lambda rng: 0),
    "slot out of range": slot(lambda rng: rng.choice((-1, 1 << 30, CONFIG.max_index_num))),
    "slot of others": slot(lambda rng: rng.randrange(1, 20)),
    "entry's hash": entry(0, 4, lambda rng: None),
    "entry's place": entry(4, 8, lambda rng: None),
    "entry's time": entry(12, 4, lambda rng: None),
    "entry's link": entry(16, 4, lambda rng: None),
    "entry's link 0": entry(16, 4, lambda rng: bytes(4)),
    "entry zeroed": entry(0, ENTRY_SIZE, lambda rng: bytes(ENTRY_SIZE)),
    "index header": lambda root, rng: write(index_file(root, rng), rng.randrange(40), rng.randbytes(1)),
    "index count lower": lambda root, rng: write(index_file(root, rng), 36, struct.pack(">i", 5)),
    "first index file": lambda root, rng: sorted((root / "index").iterdir())[0].unlink(),
    "last index file": lambda root, rng: sorted((root / "index").iterdir())[-1].unlink(),
    "all index files": removed("index"),
    "index file zeroed": lambda root, rng: (
        write(one, 0, bytes(one.stat().st_size)) for one in [index_file(root, rng)]
    ).__next__(),
    # state files
    "store.meta missing": removed("rocketflow/store.meta*"),
    "store.meta flipped": bit_flipped("rocketflow/store.meta"),
    "store.meta's log size": meta_value("mappedFileSizeCommitLog", 1 << 15),
    "store.meta's queue size": meta_value("mappedFileSizeConsumeQueue", 800),
    "store.meta's entries": meta_value("maxIndexNum", 400),
    "store.meta's slots": meta_value("maxHashSlotNum", 100),
    "stop record missing": removed("rocketflow/stop"),
    "stop record flipped": bit_flipped("rocketflow/stop"),
    "ends missing": removed("rocketflow/ends"),
    "ends flipped": bit_flipped("rocketflow/ends"),
    "rocketflow's files missing": removed("rocketflow"),
    "checkpoint missing": removed("checkpoint"),
    "checkpoint zeroed": overwritten("checkpoint", with_zeros=True),
    "checkpoint random": overwritten("checkpoint"),
    "checkpoint flipped": bit_flipped("checkpoint"),
    "topics.json missing": removed("config/topics.json*"),
    "topics.json random": overwritten("config/topics.json"),
    "abort's content": overwritten("abort"),
    "abort flipped": bit_flipped("abort"),
    "abort missing": removed("abort"),
    "a stale abort": lambda root, rng: (root / "abort").touch(),
}
STATES = ("clean", "killed", "live")


def made(path: Path) -> MessageStore:
    """Return the open store, of which all but the last six messages of each queue are flushed."""
    clock = ManualClock(BEGIN_MS)
    store = MessageStore.open(path, replace(CONFIG, clock=clock, flush_disk_type=FlushDiskType.ASYNC_FLUSH))
    store.create_topic("orders", 2)
    store.create_topic("bills", 1)
    put(store, clock, 0, COUNT - 6)
    store.flush()
    put(store, clock, COUNT - 6, COUNT)
    return store


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a store that was stopped in order, and one whose writer was killed."""
    room = tmp_path_factory.mktemp("answers")
    with made(room / "clean"):
        shutil.copytree(room / "clean", room / "killed")
    return {"clean": room / "clean", "killed": room / "killed"}


@contextmanager
def opened(state: str, stores: dict[str, Path], path: Path) -> Iterator[None]:
    """Put a store in this state at `path` while the block runs."""
    if state == "live":
        store = made(path)
        try:
            yield
        finally:
            with contextlib.suppress(StoreError):
                store.close()
    else:
        shutil.copytree(stores[state], path)
        yield
    shutil.rmtree(path)


def trials(state: str) -> Iterator[tuple[int, str, str]]:
    """Yield (seed, damage, reading path): every pair, in a sample each damage with one path, in one of the states."""
    rounds = {"sample": 1, "fast": 2, "full": 3}[LEVEL]
    for turn in range(rounds):
        for number, damage in enumerate(DAMAGES):
            seed = SEED + 1000 * turn + number
            if LEVEL == "sample" and STATES[seed % len(STATES)] != state:
                continue
            paths = [random.Random(seed).choice(sorted(PATHS))] if LEVEL == "sample" else sorted(PATHS)
            for path in paths:
                yield seed, damage, path


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
def test_every_answer_is_complete_or_reports_that_it_is_not(
    stores: dict[str, Path], tmp_path: Path, state: str, tally: Callable[..., Tally]
) -> None:
    counts, silent = tally("S30", state), list[str]()
    root = tmp_path / "s"
    for seed, damage, path in trials(state):
        if state == "live" and path in WRITES:
            continue
        context = f"seed {seed}: {damage}, {path}, {state}"
        with opened(state, stores, root):
            DAMAGES[damage](root, random.Random(seed))
            answer = PATHS[path](root)
        lost, wrong = WANTED[path] - answer.found, answer.found - WANTED[path]
        if (wrong or (lost and not answer.reported)) and (damage, path) not in LIMITS:
            silent.append(f"{context}: {len(lost)} lost, as {sorted(lost)[:2]}; {len(wrong)} wrong")
        counts.trial(None, context, hit=bool(lost or answer.reported))
    assert silent == []
