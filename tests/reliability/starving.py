"""A process with little address space: small messages are stored, for large ones there is no memory.

python starving.py STORE sync|async
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

from rocketflow_store import FlushDiskType, Message, MessageStore, PutMessageStatus, StoreConfig
from tests.support.workload import body

SIZES = {"mapped_file_size_commit_log": 128 << 20, "mapped_file_size_consume_queue": 20_000, "max_hash_slot_num": 1000}
LARGE = 24 << 20
ROOM = 40 << 20
"""Address space left: too little for a large message and its record."""


def put(store: MessageStore, number: int, data: bytes, topic: str = "t") -> None:
    try:
        result = store.put_message(Message(topic, data, keys=[f"k{number}"]))
    except MemoryError:
        os.write(1, b"refused %d MemoryError\n" % number)
        return
    if result.status is PutMessageStatus.PUT_OK and topic == "t":
        os.write(1, b"%d %d %d\n" % (number, result.queue_id, result.queue_offset))
    elif result.status is not PutMessageStatus.FLUSH_DISK_TIMEOUT:
        os.write(1, b"refused %d %s\n" % (number, result.status.name.encode()))


def main() -> None:
    path, flush = sys.argv[1:]
    kind = FlushDiskType.SYNC_FLUSH if flush == "sync" else FlushDiskType.ASYNC_FLUSH
    config = StoreConfig(flush_disk_type=kind, max_index_num=20_000, max_message_size=LARGE + 4096, **SIZES)  # type: ignore[arg-type]
    with MessageStore.open(path, config) as store:
        store.create_topic("t", 2)
        for number in range(20):
            put(store, number, body(number))
        store.get_message("t", 0, 0, 4).release()
        large = bytes(LARGE)
        used = next(
            int(line.split()[1])
            for line in Path("/proc/self/status").read_text().splitlines()
            if line.startswith("VmSize")
        )
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, ((used << 10) + ROOM, hard))
        for number in range(900, 904):
            put(store, number, large, "large")
            put(store, number - 800, body(number - 800))
        store.get_message("t", 0, 0, 32).release()
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        for number in range(20, 30):
            put(store, number, body(number))


if __name__ == "__main__":
    main()
