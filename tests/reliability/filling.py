"""A process that fills its disk: puts numbered messages until they are refused, frees space, and puts more.

python filling.py STORE sync|async delete FILE|limit BYTES
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import time
from collections.abc import Callable

from rocketflow_store import FlushDiskType, Message, MessageStore, PutMessageStatus, StoreConfig
from tests.support.workload import body

SIZES = {"mapped_file_size_commit_log": 1 << 18, "mapped_file_size_consume_queue": 20_000, "max_hash_slot_num": 1000}
WITHIN_S = 15.0
"""Seconds within which puts must be accepted again."""


def put(store: MessageStore, number: int) -> bool:
    """Put a message, print the result, and return whether it was stored."""
    result = store.put_message(Message("t", body(number) + b"", keys=[f"k{number}"], tags="w"))
    if result.status is PutMessageStatus.PUT_OK:
        os.write(1, b"%d %d %d\n" % (number, result.queue_id, result.queue_offset))
    elif result.status is PutMessageStatus.FLUSH_DISK_TIMEOUT:
        os.write(1, b"unknown %d\n" % number)
    else:
        os.write(1, b"refused %d %s\n" % (number, result.status.name.encode()))
    return result.status is PutMessageStatus.PUT_OK


def read_all(store: MessageStore) -> int:
    """Return the number of readable messages."""
    return sum(
        batch.num_rows
        for queue in store.queues("t")
        for batch in store.read("t", queue, *store.bounds("t", queue), columns=["body"])
    )


def fill(store: MessageStore, first: int, make_room: Callable[[], None]) -> None:
    """Put until three puts in a row are refused; read, free space, and put more."""
    number, refused = first, 0
    while refused < 3:
        refused = 0 if put(store, number) else refused + 1
        number += 1
        assert number < first + 200_000, "nothing was ever refused"
    before = read_all(store)
    make_room()
    deadline = time.monotonic() + WITHIN_S
    while not put(store, number):
        number += 1
        if time.monotonic() > deadline:
            sys.exit("puts are refused although there is room again")
        store.clean()
    for more in range(number + 1, number + 20):
        put(store, more)
    assert read_all(store) > before
    os.write(1, b"again\n")


def main() -> None:
    path, flush, how, argument = sys.argv[1:]
    kind = FlushDiskType.SYNC_FLUSH if flush == "sync" else FlushDiskType.ASYNC_FLUSH
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    config = StoreConfig(flush_disk_type=kind, max_index_num=20_000, disk_space_warning_level_ratio=100, **SIZES)  # type: ignore[arg-type]
    with MessageStore.open(path, config) as store:
        store.create_topic("t", 2)
        if how == "delete":
            fill(store, 0, lambda: os.unlink(argument))
            return
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        for number in range(50):
            put(store, number)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(argument), hard))
        fill(store, 50, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard)))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
