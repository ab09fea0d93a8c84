"""A process that is traced: threads put with SYNC_FLUSH, and print the position of each record after its ack.

python sync_writers.py STORE WRITERS MESSAGES
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

from rocketflow_store import FlushDiskType, Message, MessageStore, StoreConfig
from tests.support.workload import SMALL, body


def main() -> None:
    path, writers, messages = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    config = StoreConfig(flush_disk_type=FlushDiskType.SYNC_FLUSH, **SMALL)  # type: ignore[arg-type]
    with MessageStore.open(path, config) as store, ThreadPoolExecutor(writers) as threads:
        store.create_topic("t", 2)

        def put(number: int) -> None:
            result = store.put_message(Message("t", body(number)))
            assert result.stored
            os.write(1, b"acked %d\n" % result.physical_offset)

        for done in [threads.submit(put, number) for number in range(messages)]:
            done.result()


if __name__ == "__main__":
    main()
