"""A process with few file descriptors that writes, or reads, a store with many more queues.

python crowding.py STORE QUEUES DESCRIPTORS fill|again|read

It prints the most descriptors and maps that it had, as JSON; `fill` then waits, to be killed.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
from contextlib import ExitStack

import pyarrow as pa

from rocketflow_store import DescriptorLimitError, Message, MessageStore, PutMessageStatus, StoreConfig, StoreReader
from tests.support.memory import rss_anon_mib

FILES = {"mapped_file_size_commit_log": 1 << 26, "mapped_file_size_consume_queue": 20_000}
TOPIC_QUEUES = 4_000
"""The most queues of a topic; topics are t0, t1 ..."""


def keys(queues: int) -> list[tuple[str, int]]:
    """Return topic and id of each queue."""
    return [(f"t{number // TOPIC_QUEUES}", number % TOPIC_QUEUES) for number in range(queues)]


class Peaks:
    """The most descriptors and maps of this process, in samples."""

    def __init__(self) -> None:
        self.descriptors = self.maps = 0
        self._ended = threading.Event()
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while not self._ended.wait(0.01):
            self.descriptors = max(self.descriptors, len(os.listdir("/proc/self/fd")))
            with open("/proc/self/maps") as maps:
                self.maps = max(self.maps, sum(1 for _ in maps))

    def print(self) -> None:
        """Print them."""
        self._ended.set()
        found = {"descriptors": self.descriptors, "maps": self.maps, "rssAnonMiB": round(rss_anon_mib())}
        os.write(1, json.dumps(found).encode() + b"\n")


def put(store: MessageStore, topic: str, queue_id: int) -> None:
    """Put a message, which must be stored."""
    result = store.put_message(Message(topic, b"%d" % queue_id, queue_id=queue_id))
    assert result.status is PutMessageStatus.PUT_OK, result


def check_ends(store: MessageStore | StoreReader, queues: int, end: int) -> None:
    """Check the bounds of every queue."""
    wrong = [(key, store.bounds(*key)) for key in keys(queues) if store.bounds(*key) != (0, end)]
    assert not wrong, wrong[:5]


def fill(store: MessageStore, queues: int) -> None:
    """Put two messages to each queue, one at a time and many at once, and read them."""
    topics: dict[str, list[int]] = {}
    for topic, queue_id in keys(queues):
        topics.setdefault(topic, []).append(queue_id)
    for topic, ids in topics.items():
        store.create_topic(topic, len(ids))
        for queue_id in ids:
            put(store, topic, queue_id)
        columns = {"body": pa.array([b"%d" % one for one in ids]), "queueId": pa.array(ids, pa.int32())}
        store.append_batch(pa.table(columns), topic=topic)
    for topic, queue_id in keys(queues):
        with store.get_message(topic, queue_id, 0) as got:
            assert [one.body for one in got.messages] == [b"%d" % queue_id] * 2
    check_ends(store, queues, 2)


def exhaust(store: MessageStore, queues: int, limit: int) -> None:
    """Take one descriptor after the other: in the end what is new is refused, alone, until they are free again."""
    (first, *_), every = keys(queues), keys(queues)
    store.create_topic("new", 2)
    with ExitStack() as others:
        for turn in range(queues):
            while limit - len(os.listdir("/proc/self/fd")) > 3:
                others.callback(os.close, os.open("/dev/null", os.O_RDONLY))
            put(store, *every[-1 - turn])
            try:
                store.create_topic(f"new-{turn}", 1)
            except DescriptorLimitError:
                break
        else:
            sys.exit("topics are created without descriptors for their files")
        refused = store.put_messages([Message("new", b"", queue_id=0), Message(first[0], b"0", queue_id=first[1])])
        assert [one.status for one in refused] == [PutMessageStatus.SERVICE_NOT_AVAILABLE, PutMessageStatus.PUT_OK]
        assert "queue 0 of topic new cannot be created: almost all" in refused[0].why
        store.flush()
        with store.get_message(*first, 0) as got:
            assert got.message_count == 4
    os.write(2, b"refused after %d topics\n" % turn)
    put(store, "new", 0)
    store.create_topic("newer", 1)
    put(store, "newer", 0)


def main() -> None:
    path, queues, limit, mode = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    config, peaks = StoreConfig(max_index_num=20_000, max_hash_slot_num=1000, **FILES), Peaks()  # type: ignore[arg-type]
    if mode == "read":
        with StoreReader(path, config) as reader:
            for key in keys(queues):
                end = reader.bounds(*key)[1]
                bodies = [body for batch in reader.read(*key, 0, end) for body in batch["body"].to_pylist()]
                assert bodies == [b"%d" % key[1]] * end, (key, bodies)
                assert 3 <= end <= 4, (key, end)
        peaks.print()
        return
    with MessageStore.open(path, config) as store:
        if mode == "fill":
            fill(store, queues)
            peaks.print()
            sys.stdin.read()
            return
        assert store.recovery.abort_found
        check_ends(store, queues, 2)
        for key in keys(queues):
            put(store, *key)
        peaks.print()
        exhaust(store, queues, limit)


if __name__ == "__main__":
    main()
