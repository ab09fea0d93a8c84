"""A process for kill tests: puts numbered messages and prints a line for each acknowledged one before the next put.

python workload.py STORE sync|async|windows|pool FIRST COUNT

With `windows` (ASYNC_FLUSH) puts go through windows of the kernel from the first one on that can.
With `pool` appends go through a TransientStorePool, and it also prints the number up to which all are committed.
"""

from __future__ import annotations

import os
import sys
import zlib

from rocketflow_store import FlushDiskType, Message, MessageStore, PutMessageStatus, StoreConfig
from rocketflow_store.append import put_route

SMALL = {
    "mapped_file_size_commit_log": 1 << 14,
    "mapped_file_size_consume_queue": 400,
    "max_hash_slot_num": 50,
    "max_index_num": 200,
}


def body(number: int) -> bytes:
    """Return a body that can be verified: number, filler, CRC."""
    filler = b"%d:" % number * (number % 40)
    return b"%d|%s|%d" % (number, filler, zlib.crc32(filler))


def number_of(raw: bytes) -> int:
    """Return the number of a body; raise ValueError if `body` did not make it."""
    number = int(raw.split(b"|", 1)[0])
    if raw != body(number):
        raise ValueError(f"body of {number} is not what was put")
    return number


def main() -> None:
    path, flush, first, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    if flush == "windows":
        put_route.WINDOW_PUTS = 0  # type: ignore[misc]
    kind = FlushDiskType.SYNC_FLUSH if flush == "sync" else FlushDiskType.ASYNC_FLUSH
    config = StoreConfig(
        flush_disk_type=kind,
        transient_store_pool_enable=flush == "pool",
        transient_store_pool_size=2,
        commit_interval_commit_log=5,
        **SMALL,  # type: ignore[arg-type]
    )
    waiting: list[tuple[int, int]] = []
    with MessageStore.open(path, config) as store:
        store.create_topic("t", 2)
        os.write(1, b"ready\n")
        for number in range(first, first + count):
            result = store.put_message(Message("t", body(number), keys=[f"k{number}"], tags="w"))
            if result.status is PutMessageStatus.PUT_OK:
                os.write(1, b"%d %d %d\n" % (number, result.queue_id, result.queue_offset))
            if flush == "pool":
                waiting.append((number, result.physical_offset))
                if waiting[0][1] < store.confirm_offset:
                    committed = [one for one, phy_offset in waiting if phy_offset < store.confirm_offset]
                    os.write(1, b"committed %d\n" % committed[-1])
                    waiting = waiting[len(committed) :]
    os.write(1, b"closed\n")


if __name__ == "__main__":
    main()
