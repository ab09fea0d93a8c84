"""Small stores whose files are damaged, and the checks that follow.

A trial takes a copy (`Images.take`), damages it, and checks: is a wrong body served, is a message missing that the
damage did not touch, does `verify` name the place, are the damaged bytes still there?
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

from rocketflow_store import FlushDiskType, Message, MessageStore
from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.fsck.findings import Finding
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.fsck.verify import verify_store
from tests.support.checker import Verdict
from tests.support.damage import CONFIG, Place, Planted, key_of
from tests.support.independent_reader import parse_record

STOPS = ("closed", "killed")
IMAGE_CONFIG = replace(CONFIG, enabled_append_prop_crc=True)
LOG_FILE = CONFIG.mapped_file_size_commit_log
CLOSED_AT, FLUSHED_AT, COUNT = 80, 110, 140
TOPICS = ("orders", "bills")
ENDS = {(topic, queue): COUNT // 4 for topic in TOPICS for queue in (0, 1)}


@dataclass
class Images:
    """A store that was closed, and one that was killed after its last ack (SYNC_FLUSH); `older` is an earlier log."""

    room: Path
    whole: dict[str, Planted] = field(default_factory=dict)
    older: dict[str, bytes] = field(default_factory=dict)

    def take(self, stop: str) -> Planted:
        """Return a new copy of the store; it replaces the last one."""
        image = self.room / "image"
        shutil.rmtree(image, ignore_errors=True)
        shutil.copytree(self.whole[stop].path, image)
        return replace(self.whole[stop], path=image)


def make_images(room: Path) -> Images:
    """Write 140 messages to two topics of two queues: closed after 80, flushed after 110."""
    images = Images(room)
    places: dict[Place, tuple[int, int]] = {}
    bodies: dict[Place, bytes] = {}
    config = replace(IMAGE_CONFIG, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    live = room / "live"

    def put(store: MessageStore, first: int, count: int) -> None:
        for number in range(first, count):
            place = TOPICS[number % 2], number // 2 % 2, number // 4
            bodies[place] = f"message {number} ".encode() * (1 + number * 7 % 40)
            message = Message(place[0], bodies[place], queue_id=place[1], tags="t", keys=[key_of(place)])
            result = store.put_message(message)
            assert (result.queue_id, result.queue_offset) == place[1:]
            places[place] = result.physical_offset, store.max_phy_offset - result.physical_offset

    with MessageStore.open(live, config) as store:
        for topic in TOPICS:
            store.create_topic(topic, 2)
        put(store, 0, CLOSED_AT)
        store.config_files.consumer_offsets.commit("readers", "orders", {0: 10, 1: 20})
        store.config_files.consumer_offsets.commit("readers", "bills", {0: 5})
    images.older = {one.name: one.read_bytes() for one in (live / "commitlog").iterdir()}
    with MessageStore.open(live, config) as store:
        put(store, CLOSED_AT, FLUSHED_AT)
        store.flush()
        put(store, FLUSHED_AT, COUNT)
        shutil.copytree(live, room / "killed")
    images.whole = {
        stop: Planted(room / name, places, bodies) for stop, name in zip(STOPS, ("live", "killed"), strict=True)
    }
    return images


def served_of(planted: Planted, context: str) -> set[Place]:
    """Return the messages that a reader gets; check that each is the one that was put, also in the bytes of the log."""
    served = planted.served()
    for place, body in served.items():
        assert planted.bodies.get(place) == body, f"{context}: wrong body at {place}"
        file, position = planted.log_file(planted.places[place][0])
        record = parse_record(file.read_bytes(), position)
        assert record is not None, f"{context}: {place} is served and is no record"
        assert (record.topic, record.queue_id, record.queue_offset, record.body) == (*place, body), context
    return set(served)


def found_places(planted: Planted, context: str) -> set[Place]:
    """Return the messages that are found by their keys; check that a key finds no other message."""
    from rocketflow_store import StoreReader

    found = set()
    with StoreReader(planted.path) as reader:
        for place in planted.places:
            for one in reader.query_message(place[0], key_of(place)):
                assert (one.topic, one.queue_id, one.queue_offset, one.body) == (*place, planted.bodies[place]), context
                found.add(place)
    return found


def judged(planted: Planted, touched: set[Place], context: str) -> Verdict:
    """Report all lost messages that the damage did not touch."""
    served = served_of(planted, context)
    lost = planted.places.keys() - served - touched
    return Verdict(lost=sorted(planted.places[one][0] for one in lost))


def used(planted: Planted, context: str) -> None:
    """Open for writing, and put a message into each queue; check that no queue offset is assigned twice."""
    with MessageStore.open(planted.path, IMAGE_CONFIG) as store:
        for (topic, queue), end in ENDS.items():
            result = store.put_message(Message(topic, b"after", queue_id=queue))
            assert result.queue_offset == end, f"{context}: {topic} {queue} goes on at {result.queue_offset}"
            planted.bodies[topic, queue, end] = b"after"
            planted.places[topic, queue, end] = result.physical_offset, store.max_phy_offset - result.physical_offset


def fresh(planted: Planted) -> Planted:
    """Return a copy of the known messages, for trials that put more."""
    return replace(planted, places=dict(planted.places), bodies=dict(planted.bodies))


def touching(planted: Planted, start: int, stop: int) -> set[Place]:
    """Return the messages with a byte in [start, stop) of the log."""
    return {place for place, (at, size) in planted.places.items() if at < stop and at + size > start}


def names(findings: list[Finding], path: Path, start: int, stop: int) -> bool:
    """Return whether a finding is of `path` and has one of the bytes [start, stop)."""
    return any(
        one.file == str(path) and one.offset < stop and one.offset + max(one.length, 1) > start for one in findings
    )


def hurt(path: Path, kind: str, rng: random.Random) -> None:
    """Damage a file in one way."""
    raw = path.read_bytes()
    start = rng.randrange(len(raw)) if raw else 0
    size = min(len(raw) - start, rng.choice([20, 512, 4096]))
    match kind:
        case "flip":
            path.write_bytes(raw[:start] + bytes([raw[start] ^ 1 << rng.randrange(8)]) + raw[start + 1 :])
        case "zero":
            path.write_bytes(raw[:start] + bytes(size) + raw[start + size :])
        case "noise":
            path.write_bytes(raw[:start] + rng.randbytes(size) + raw[start + size :])
        case "cut":
            path.write_bytes(raw[:start])
        case "longer":
            path.write_bytes(raw + rng.randbytes(50))
        case "missing":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "twice":
            other = rng.choice(sorted(path.parent.iterdir()))
            path.write_bytes(other.read_bytes())
        case "swapped":
            other = rng.choice(sorted(path.parent.iterdir()))
            swapped = other.read_bytes()
            other.write_bytes(raw)
            path.write_bytes(swapped)


def repaired(planted: Planted, touched: set[Place], context: str) -> Verdict:
    """Repair and judge the store, and check that a second repair has nothing to do."""
    repair_store(planted.path)
    verdict = judged(planted, touched, context)
    again = repair_store(planted.path)
    assert again.steps == [], f"{context}: {again.steps}"
    verdict.findings = [
        f"{one.kind} {one.file} {one.offset}"
        for one in again.left.findings
        if one.kind not in ("record", "config") and not _is_lost_message_of(one, planted, touched)
    ]
    return verdict


def _is_lost_message_of(finding: Finding, planted: Planted, touched: set[Place]) -> bool:
    """Return whether a finding reports that a message of `touched` is lost: its record, or its unit."""
    if finding.kind != "lost-message":
        return False
    file = Path(finding.file)
    start = int(file.name) + finding.offset
    stop = start + finding.length
    if file.parent.name == "commitlog":
        return any(start < at + size and at < stop for at, size in map(planted.places.__getitem__, touched))
    units = {(topic, str(queue), offset * UNIT_SIZE) for topic, queue, offset in touched}
    return all((file.parts[-3], file.parts[-2], at) in units for at in range(start, stop, UNIT_SIZE))


def findings_of(planted: Planted) -> list[Finding]:
    """Return the findings of `verify`."""
    return verify_store(planted.path).findings
