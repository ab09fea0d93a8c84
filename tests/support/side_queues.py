"""A small store with a BatchCQ topic and LMQs, and the messages that it must serve whatever damage its queues have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.format.batch_body import BatchEntry, encode_batch_body
from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.format.lmq_properties import lmq_units
from rocketflow_store.model.message import MessageBatch

if TYPE_CHECKING:
    from pathlib import Path

SIZES = StoreConfig(
    mapped_file_size_commit_log=1 << 14,
    mapped_file_size_consume_queue=400,
    mapper_file_size_batch_consume_queue=10 * BATCH_UNIT_SIZE,
    max_hash_slot_num=50,
    max_index_num=400,
)
CONFIG = replace(SIZES, enable_lmq=True, enable_multi_dispatch=True)
Place = tuple[str, int, int]
QUEUES = (("batches", 0), ("batches", 1), ("%LMQ%a", 0), ("%LMQ%b", 0), ("plain", 0))


@dataclass
class SideStore:
    """The messages of a store: bodies by (topic, queue, queue offset), and the end offset of each queue."""

    bodies: dict[Place, bytes]
    ends: dict[tuple[str, int], int]

    def put(self, store: MessageStore, first: int, stop: int) -> None:
        """Put records [first, stop): batches of 1 to 5 messages, and messages for one or both LMQs."""
        for number in range(first, stop):
            if number % 2:
                count = 1 + number % 5
                entries = [BatchEntry(n, b"%d of %d " % (n, number) * (1 + number % 7), b"") for n in range(count)]
                queue = "batches", number // 2 % 2
                body = encode_batch_body(entries)
                result = store.put_message(MessageBatch(*queue[:1], body, queue_id=queue[1]))
                self._noted(queue, body, count)
            else:
                names = ["%LMQ%a", "%LMQ%b"] if number % 3 == 0 else ["%LMQ%a"]
                body = b"light %d " % number * (1 + number % 9)
                lmq = {"INNER_MULTI_DISPATCH": ",".join(names)}
                result = store.put_message(Message("plain", body, tags="t", properties=lmq, queue_id=0))
                for name in (*names, "plain"):
                    self._noted((name, 0), body, 1)
            assert result.stored, result

    def _noted(self, queue: tuple[str, int], body: bytes, count: int) -> None:
        self.bodies[*queue, self.ends.get(queue, 0)] = body
        self.ends[queue] = self.ends.get(queue, 0) + count


def make(path: Path, config: StoreConfig = CONFIG, count: int = 120) -> SideStore:
    """Write a store of `count` records and close it."""
    made = SideStore({}, {})
    with MessageStore.open(path, config) as store:
        store.create_topic("batches", 2, queue_type="BatchCQ")
        made.put(store, 0, count)
    return made


def served(store: MessageStore | StoreReader, *, anyhow: bool = False) -> dict[Place, bytes]:
    """Return every message of every queue, read one after another.

    With `anyhow`, step over offsets of a damaged queue at which a read does not advance.
    """
    found: dict[Place, bytes] = {}
    for topic, queue_id in QUEUES:
        offset, high = store.bounds(topic, queue_id)
        while offset < high:
            got = store.get_message(topic, queue_id, offset)
            for one in got.messages:
                lmq = dict(lmq_units(one.properties))
                found[topic, queue_id, lmq.get(topic, one.queue_offset)] = one.body
            assert anyhow or got.next_begin_offset > offset, (topic, queue_id, offset, got.status)
            offset = max(got.next_begin_offset, offset + 1)
    return found
