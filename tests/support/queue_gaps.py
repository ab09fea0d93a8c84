"""Messages whose place is damaged: one flipped bit of a record's topic, queueId or queueOffset."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rocketflow_store import Message, MessageStore, StoreConfig
from tests.support.damage import flip

FILE_SIZE = 1 << 14
CONFIG = StoreConfig(mapped_file_size_commit_log=FILE_SIZE, mapped_file_size_consume_queue=400)
QUEUES = (("orders", 0), ("orders", 1), ("bills", 0))
HEAD = 88
Place = tuple[str, int, int]


@dataclass(frozen=True)
class Written:
    """A store at `path`, with the physical offset and the body of the record at each place."""

    path: Path
    places: dict[Place, int]
    bodies: dict[Place, bytes]


def put(store: MessageStore, start: int, stop: int, known: Written) -> None:
    for number in range(start, stop):
        for topic, queue_id in QUEUES:
            body = b"%s %d %d" % (topic.encode(), queue_id, number)
            done = store.put_message(Message(topic, body, queue_id=queue_id))
            known.places[topic, queue_id, done.queue_offset] = done.physical_offset
            known.bodies[topic, queue_id, done.queue_offset] = body


def made(path: Path, length: int) -> Written:
    written = Written(path, {}, {})
    with MessageStore.open(path, CONFIG) as store:
        for topic in ("orders", "bills"):
            store.create_topic(topic, 2)
        put(store, 0, length, written)
    return written


def hit(written: Written, path: Path, place: Place, field: str, bit: int) -> Place:
    """Flip a bit of a record's field; return the place that the record claims afterwards."""
    phy_offset = written.places[place]
    topic, queue_id, queue_offset = place
    at = {"queueId": 12, "queueOffset": 20, "topic": HEAD + len(written.bodies[place]) + 1}[field]
    width = {"queueId": 4, "queueOffset": 8, "topic": len(topic)}[field]
    file = path / "commitlog" / f"{phy_offset - phy_offset % FILE_SIZE:020d}"
    flip(file, phy_offset % FILE_SIZE + at + width - 1 - bit // 8, 1 << bit % 8)
    if field == "queueId":
        return topic, queue_id ^ 1 << bit, queue_offset
    if field == "queueOffset":
        return topic, queue_id, queue_offset ^ 1 << bit
    changed = bytearray(topic.encode())
    changed[len(topic) - 1 - bit // 8] ^= 1 << bit % 8
    return changed.decode("latin-1"), queue_id, queue_offset
