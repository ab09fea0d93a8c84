"""A process that holds a store and leaves a running child, for the row about two writers.

python -m tests.reliability.lock_holder STORE NUMBER
"""

from __future__ import annotations

import os
import sys

from rocketflow_store import Message, MessageStore, StoreConfig
from tests.support.workload import SMALL, body


def main() -> None:
    path, number = sys.argv[1], int(sys.argv[2])
    with MessageStore.open(path, StoreConfig(**SMALL)) as store:  # type: ignore[arg-type]
        put = store.put_message(Message("t", body(number), queue_id=0))
        child = os.fork()
        if child == 0:
            sys.stdin.read()  # lives until the test lets it go, with all that it inherited
            os._exit(0)
        os.write(1, b"%d %d %d %d\n" % (number, put.queue_id, put.queue_offset, child))
        sys.stdin.read()


if __name__ == "__main__":
    main()
