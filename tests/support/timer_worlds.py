"""A store with timer messages and a manual clock, and the messages that it must have delivered."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.delivery.timer.deliver_due import TimerRun, deliver_due_timers
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.topic_names import TIMER_TOPIC

START = 1_800_000_000_000
SECOND, HOUR, DAY = 1000, 3_600_000, 86_400_000
TIMER_FILES = ("timerwheel", "timerlog", "config/timercheck", "rocketflow/timer")


@dataclass
class Sent:
    """One message; `due`, `sent` and `recalled` (-1: not recalled) are times in ms of the clock."""

    number: int
    topic: str
    queue_id: int
    due: int
    sent: int
    recalled: int = -1


@dataclass
class World:
    """The store at `path` and all messages sent to it."""

    path: Path
    roll_window: int = 172_800
    now: int = START
    sent: dict[int, Sent] = field(default_factory=dict)

    def config(self) -> StoreConfig:
        return StoreConfig(
            mapped_file_size_commit_log=256 << 10,
            mapped_file_size_consume_queue=20_000,
            max_hash_slot_num=500,
            max_index_num=4000,
            mapped_file_size_timer_log=4096,
            default_topic_queue_nums=2,
            timer_roll_window_slot=self.roll_window,
            timer_max_delay_sec=40 * 86_400,
            clock=ManualClock(self.now),
        )

    @contextmanager
    def open(self) -> Iterator[MessageStore]:
        with MessageStore.open(self.path, self.config()) as store:
            yield store

    def send(self, store: MessageStore, after_ms: int, topic: str = "t") -> int:
        """Send a message that is due `after_ms` from now; return its number."""
        number = len(self.sent)
        due = self.now + after_ms
        properties = {"TIMER_DELIVER_MS": str(due), "UNIQ_KEY": f"K{number}"}
        result = store.put_message(Message(topic, str(number).encode(), properties=properties, queue_id=number % 2))
        assert result.stored, result
        self.sent[number] = Sent(number, topic, number % 2, due, self.now)
        return number

    def recall(self, store: MessageStore, number: int) -> None:
        """Send the recall of a message as a broker does: RocketMQ 5.3.3 for odd numbers, 5.5.0 for even ones."""
        victim = self.sent[number]
        properties = {
            "TIMER_DEL_UNIQKEY": f"{victim.topic}+K{number}" if number % 2 else f"K{number}",
            "TIMER_DELIVER_MS": str(victim.due),
            "UNIQ_KEY": f"K{number}",
        }
        result = store.put_message(Message(victim.topic, b"0", tags="_RECALL_TAG_", properties=properties))
        assert result.topic == TIMER_TOPIC, result
        victim.recalled = self.now

    def run(self, until_ms: int | None = None, run_id: str = "") -> TimerRun:
        """Deliver the messages that are due now."""
        with self.open() as store:
            return deliver_due_timers(store, until_ms, run_id=run_id)

    def due_by_now(self, at: int) -> set[int]:
        """Return the numbers of all messages that must be delivered after a run at this time."""
        tick = at // SECOND * SECOND
        return {
            one.number
            for one in self.sent.values()
            if one.recalled < 0 and (one.due <= one.sent or (one.due - 1) // SECOND * SECOND < tick)
        }

    def delivered(self) -> Counter[int]:
        """Return how often each message is stored in its target queue."""
        found: Counter[int] = Counter()
        with StoreReader(self.path, self.config()) as reader:
            for topic in {one.topic for one in self.sent.values()}:
                for queue_id in reader.queues(topic):
                    low, high = reader.bounds(topic, queue_id)
                    offset = low
                    while offset < high:
                        got = reader.get_message(topic, queue_id, offset)
                        assert got.messages, (topic, queue_id, offset, got.status)
                        for one in got.messages:
                            sent = self.sent[int(one.body)]
                            assert (sent.topic, sent.queue_id) == (topic, queue_id)
                            assert one.store_timestamp >= sent.due or sent.due <= sent.sent, "early"
                            found[sent.number] += 1
                        offset = got.next_begin_offset
        return found

    def check(self, at: int | None = None) -> None:
        """Assert that every due message was delivered once, and no other."""
        found = self.delivered()
        assert set(found) == self.due_by_now(self.now if at is None else at)
        assert not [number for number, times in found.items() if times != 1]


def lose_something(world: World, rng: random.Random, kept: Path) -> str:
    """Damage the timer's files as a disk, an operator or an older backup does; return the damage."""
    names = [name for name in TIMER_FILES if (world.path / name).exists()]
    kind = rng.choice(["lose", "lose all", "flip", "cut", "old", "nothing"])
    if not names or kind == "nothing":
        return "nothing"
    name = rng.choice(names)
    path = world.path / name
    if kind == "lose all":
        for one in names:
            _remove(world.path / one)
        return kind
    if kind == "lose":
        _remove(path)
        return f"{kind} {name}"
    if kind == "old":
        if not (kept / name).exists():
            return "nothing"
        _remove(path)
        (shutil.copytree if (kept / name).is_dir() else shutil.copy)(kept / name, path)
        return f"{kind} {name}"
    if path.is_dir():
        path = rng.choice(sorted(path.iterdir()))
    data = bytearray(path.read_bytes())
    if kind == "cut":
        path.write_bytes(data[: rng.randrange(len(data))])
    else:
        data[rng.randrange(min(len(data), 4096))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
    return f"{kind} {path.name}"


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def keep(world: World, kept: Path) -> None:
    """Copy the timer's files."""
    shutil.rmtree(kept, ignore_errors=True)
    for name in TIMER_FILES:
        source, target = world.path / name, kept / name
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
