"""A store with messages of every kind, and the files that are derived from its log."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.format.batch_body import BatchEntry, encode_batch_body
from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.message import MessageBatch

SIZES = StoreConfig(
    mapped_file_size_commit_log=1 << 15,
    mapped_file_size_consume_queue=400,
    mapper_file_size_batch_consume_queue=10 * BATCH_UNIT_SIZE,
    max_hash_slot_num=50,
    max_index_num=300,
    enable_lmq=True,
    enable_multi_dispatch=True,
)
DERIVED = ("consumequeue", "batchconsumequeue", "index")


def make(path: Path, seed: int, count: int = 400, config: StoreConfig = SIZES) -> None:
    """Write topics of every kind: plain and batch queues, LMQs, delayed messages, with and without keys and tags."""
    rng, clock = random.Random(seed), ManualClock(1_700_000_000_000)
    with MessageStore.open(path, replace(config, clock=clock)) as store:
        store.create_topic("batches", 2, queue_type="BatchCQ")
        for number in range(count):
            clock.set(clock.now_ms() + rng.randrange(4000))
            body = rng.randbytes(rng.randrange(0, 600))
            kind = rng.randrange(10)
            if kind == 0:
                entries = [BatchEntry(n, b"%d" % number, b"") for n in range(rng.randrange(1, 6))]
                batch = MessageBatch("batches", encode_batch_body(entries), queue_id=rng.randrange(2))
                result = store.put_message(batch)
            elif kind == 1:
                names = rng.sample(["%LMQ%a", "%LMQ%b", "%LMQ%c"], rng.randrange(1, 3))
                lmq = {"INNER_MULTI_DISPATCH": ",".join(names)}
                result = store.put_message(Message("plain", body, properties=lmq, queue_id=rng.randrange(3)))
            else:
                message = Message(
                    f"t{rng.randrange(3)}",
                    body,
                    tags=rng.choice([None, "a", "b"]),
                    keys=[f"k{rng.randrange(50)}" for _ in range(rng.randrange(3))],
                    queue_id=rng.randrange(2),
                    delay_time_level=rng.choice([0, 0, 0, 0, 1, 5]),
                )
                result = store.put_message(message)
            assert result.stored, (number, result)


def derived(path: Path) -> dict[str, bytes]:
    """Return the bytes of the queues by file name, and of the index files by their order."""
    found = {}
    for folder in DERIVED[:2]:
        for one in sorted((path / folder).rglob("*")):
            if one.is_file():
                found[str(one.relative_to(path))] = one.read_bytes()
    index = sorted((path / "index").iterdir()) if (path / "index").is_dir() else []
    return found | {f"index {number}": one.read_bytes() for number, one in enumerate(index)}


def everything(path: Path) -> dict[str, bytes]:
    return {str(one.relative_to(path)): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file()}


def lose(path: Path, *folders: str) -> None:
    for folder in folders or DERIVED:
        shutil.rmtree(path / folder, ignore_errors=True)


def assert_same(found: dict[str, bytes], wanted: dict[str, bytes], context: object = "") -> None:
    assert sorted(found) == sorted(wanted), context
    assert [name for name in found if found[name] != wanted[name]] == [], context
