"""A small store for damage tests: several files of every kind, and the messages that readers must still get."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from rocketflow_store import Message, MessageStore, SkipFaults, StoreConfig, StoreReader
from rocketflow_store.model.errors import StoreError
from tests.support.trials import sampled

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 14,
    mapped_file_size_consume_queue=400,
    max_hash_slot_num=50,
    max_index_num=200,
)
COUNT = 300
Place = tuple[str, int, int]


@dataclass(frozen=True)
class Planted:
    """The store at `path`; `places` are (physical offset, size) and `bodies` the bodies by (topic, queue, offset)."""

    path: Path
    places: dict[Place, tuple[int, int]]
    bodies: dict[Place, bytes]

    def log_file(self, phy_offset: int) -> tuple[Path, int]:
        """Return the CommitLog file that holds a physical offset, and the position in it."""
        position = phy_offset % CONFIG.mapped_file_size_commit_log
        return self.path / "commitlog" / f"{phy_offset - position:020d}", position

    def queue_file(self, topic: str, queue: int, offset: int) -> tuple[Path, int]:
        """Return the ConsumeQueue file that holds a unit, and the position in it."""
        position = offset * 20 % CONFIG.mapped_file_size_consume_queue
        return self.path / "consumequeue" / topic / str(queue) / f"{offset * 20 - position:020d}", position

    def served(self) -> dict[Place, bytes]:
        """Return the bodies that a reader gets; damaged rows are skipped."""
        with StoreReader(self.path) as reader:
            return bodies_of(reader)

    def keys_missing(self) -> set[Place]:
        """Return the places of the messages that a query for their key does not find; a sample asks for some."""
        with StoreReader(self.path) as reader:
            return {
                place
                for place in sampled(sorted(self.places), 7)
                if place
                not in [
                    (one.topic, one.queue_id, one.queue_offset) for one in reader.query_message(place[0], key_of(place))
                ]
            }


def bodies_of(reader: StoreReader) -> dict[Place, bytes]:
    """Return every body that a reader returns; damaged rows are skipped."""
    found: dict[Place, bytes] = {}
    for topic in reader.topics():
        for queue in reader.queues(topic):
            low, high = reader.bounds(topic, queue)
            for batch in reader.read(topic, queue, low, high, ["queueOffset", "body"], faults=SkipFaults()):
                for row in batch.to_pylist():
                    found[topic, queue, row["queueOffset"]] = row["body"]
    return found


def key_of(place: Place) -> str:
    return "-".join(map(str, place))


def make(path: Path) -> Planted:
    """Write 300 messages to two topics of two queues, commit two consumer offsets, and close the store."""
    places: dict[Place, tuple[int, int]] = {}
    bodies: dict[Place, bytes] = {}
    with MessageStore.open(path, CONFIG) as store:
        for topic in ("orders", "bills"):
            store.create_topic(topic, 2)
        for number in range(COUNT):
            topic, queue = ("orders", "bills")[number % 2], number // 2 % 2
            place = topic, queue, number // 4
            bodies[place] = f"message {number} ".encode() * (1 + number % 12)
            message = Message(topic, bodies[place], queue_id=queue, tags="t", keys=[key_of(place)])
            result = store.put_message(message)
            assert result.queue_offset == place[2]
            following = store.max_phy_offset
            places[place] = result.physical_offset, following - result.physical_offset
        store.config_files.consumer_offsets.commit("readers", "orders", {0: 10, 1: 20})
        store.config_files.consumer_offsets.commit("readers", "bills", {0: 5})
    return Planted(path, places, bodies)


def copied(original: Planted, path: Path) -> Planted:
    shutil.copytree(original.path, path)
    return Planted(path, original.places, original.bodies)


def flip(file: Path, position: int, mask: int = 0x10) -> None:
    """Flip the bits of `mask` in one byte."""
    with file.open("r+b") as opened:
        opened.seek(position)
        (byte,) = opened.read(1)
        opened.seek(position)
        opened.write(bytes([byte ^ mask]))


def digests(path: Path) -> dict[str, str]:
    """Return {relative path: SHA-256} of every file of a store."""
    return {
        str(one.relative_to(path)): hashlib.sha256(one.read_bytes()).hexdigest()
        for one in sorted(path.rglob("*"))
        if one.is_file()
    }


def readable(path: Path) -> bool:
    """Return True if a reader of the store can be opened."""
    try:
        StoreReader(path).close()
    except StoreError:
        return False
    return True
