"""The records of a client's batch: one for each entry, consecutive in the log and in one queue.

Batches are checked before (`message_encoder.MessageEncoder.check_batch`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from isal.isal_zlib import crc32

from rocketflow_store.format.record import BEFORE_PLACE, PLACED_HEAD, PROPERTY_CRC_SIZE, property_crc_tail
from rocketflow_store.records.encoding.unplaced_record import UnplacedRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow_store.format.batch_body import Entry


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """A batch that can be stored. `suffix` is the part that its own properties add to every message's string."""

    topic: str
    queue_id: int
    entries: list[Entry]
    suffix: bytes
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    reconsume_times: int


class BatchRecords(NamedTuple):
    """Records without their places; the lists have one item for each record.

    `messages` are flag, body and complete properties, without the record's CRC, whose size `sizes` includes.
    `magic`, `after_place` (the fields between offsets and body size) and `topic_part` are those of every record.
    """

    topic: str
    queue_id: int
    magic: int
    after_place: bytes
    topic_part: bytes
    messages: list[Entry]
    sizes: list[int]
    tags_codes: list[int]
    keys: list[list[str]]

    def place(self, queue_offset: int, phy_offset: int, *, property_crc: bool) -> list[bytes]:
        """Return the bytes of the records in pieces, the first at the given offsets."""
        magic, after, topic_part, queue_id, pack = (*self[2:5], self.queue_id, PLACED_HEAD.pack)
        reserved = PROPERTY_CRC_SIZE if property_crc else 0
        pieces: list[bytes] = []
        for (flag, body, properties), size in zip(self.messages, self.sizes):
            head = pack(size, magic, crc32(body) & 0x7FFFFFFF, queue_id, flag, queue_offset, phy_offset)
            sizes = len(body).to_bytes(4, "big"), (len(properties) + reserved).to_bytes(2, "big")
            record = b"".join((head, after, sizes[0], body, topic_part, sizes[1], properties))
            pieces.append(record)
            if property_crc:
                pieces.append(property_crc_tail(record))
            queue_offset += 1
            phy_offset += size
        return pieces

    def one_by_one(self, *, property_crc: bool) -> Sequence[UnplacedRecord]:
        """Return the records as single ones."""
        found, reserved = [], PROPERTY_CRC_SIZE if property_crc else 0
        for (flag, body, raw), size, tags_code, keys in zip(self.messages, self.sizes, self.tags_codes, self.keys):
            before = BEFORE_PLACE.pack(size, self.magic, crc32(body) & 0x7FFFFFFF, self.queue_id, flag)
            sizes = len(body).to_bytes(4, "big"), (len(raw) + reserved).to_bytes(2, "big")
            rest = b"".join((self.after_place, sizes[0], body, self.topic_part, sizes[1], raw))
            found.append(UnplacedRecord(before, rest, size, self.topic, self.queue_id, tags_code, keys, 1))
        return found
