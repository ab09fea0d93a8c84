"""A reader of the three file formats that uses struct alone; it shares no code with the product."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

V1, V2, BLANK = 0xDAA320A7, 0xDAA320AB, 0xCBD43194


@dataclass(frozen=True)
class Record:
    """One message, decoded from its record."""

    topic: str
    queue_id: int
    queue_offset: int
    phy_offset: int
    size: int
    body: bytes


def parse_record(data: bytes, at: int) -> Record | None:
    """Return the record at `at`, or None if there is no complete and valid one."""
    if at + 91 > len(data):
        return None
    size, magic, crc, queue_id, _flag, queue_offset, phy_offset, sys_flag, _born = struct.unpack_from(
        ">IIIiiqqiq", data, at
    )
    if magic not in (V1, V2) or at + size > len(data) or size < 91:
        return None
    position = at + 48 + (20 if sys_flag & 0x10 else 8) + 8 + (20 if sys_flag & 0x20 else 8) + 12
    (body_size,) = struct.unpack_from(">i", data, position)
    position += 4
    if body_size < 0 or position + body_size > at + size:
        return None
    body = data[position : position + body_size]
    if zlib.crc32(body) & 0x7FFFFFFF != crc:
        return None
    position += body_size
    topic_size = data[position] if magic == V1 else struct.unpack_from(">h", data, position)[0]
    position += 1 if magic == V1 else 2
    topic = data[position : position + topic_size].decode()
    position += topic_size
    (properties_size,) = struct.unpack_from(">h", data, position)
    if position + 2 + properties_size != at + size:
        return None
    return Record(topic, queue_id, queue_offset, phy_offset, size, body)


def log_records(store: Path) -> Iterator[Record]:
    """Yield the records of the CommitLog in order, up to the first position without a valid one."""
    for file in sorted((store / "commitlog").iterdir()):
        data, at, base = file.read_bytes(), 0, int(file.name)
        while (record := parse_record(data, at)) is not None and record.phy_offset == base + at:
            yield record
            at += record.size
        if at + 8 <= len(data) and struct.unpack_from(">I", data, at + 4)[0] != BLANK:
            return


def queue_units(store: Path, topic: str, queue_id: int) -> list[tuple[int, int, int]]:
    """Return (physical offset, size, tags code) of every unit of a queue, from the first file's first slot on."""
    units: list[tuple[int, int, int]] = []
    for file in sorted((store / "consumequeue" / topic / str(queue_id)).iterdir()):
        for unit in struct.iter_unpack(">qiq", file.read_bytes()):
            if unit[1] <= 0:
                return units
            units.append(unit)
    return units


def queue_messages(store: Path, topic: str) -> dict[tuple[int, int], Record]:
    """Return {(queue id, queue offset): record} of a topic's queues; assert that every unit has its record."""
    logs = {int(file.name): file.read_bytes() for file in (store / "commitlog").iterdir()}
    size = len(next(iter(logs.values()), b""))
    found: dict[tuple[int, int], Record] = {}
    queues = store / "consumequeue" / topic
    for queue in sorted(queues.iterdir()) if queues.is_dir() else []:
        queue_id = int(queue.name)
        for offset, (phy_offset, msg_size, _) in enumerate(queue_units(store, topic, queue_id)):
            record = parse_record(logs[phy_offset // size * size], phy_offset % size)
            assert record is not None, (topic, queue_id, offset)
            assert (record.topic, record.queue_id, record.queue_offset, record.size) == (
                topic,
                queue_id,
                offset,
                msg_size,
            )
            found[queue_id, offset] = record
    return found
