"""The process that is killed: delivers the delayed messages of a store that are due at a time, in small commits.

python -m tests.reliability.delivering STORE NOW_MS once|service COUNT

`service` runs the thread until COUNT messages were delivered. Both wait for the store's lock, and print the number of
delivered messages.
"""

from __future__ import annotations

import os
import sys
import time

from rocketflow_store import MessageStore, StoreConfig
from rocketflow_store.delivery.delay import service
from rocketflow_store.delivery.delay.delivery import DelayDelivery
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import StoreLockedError

COMMIT_BYTES = 4000
_DEADLINE_S = 60.0


def opened(path: str, now_ms: int) -> MessageStore:
    """Open the store as soon as no other process writes to it."""
    end = time.monotonic() + _DEADLINE_S
    while True:
        try:
            return MessageStore.open(path, StoreConfig(clock=ManualClock(now_ms)))
        except StoreLockedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def main() -> None:
    path, now_ms, how, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    with opened(path, now_ms) as store:
        os.write(1, b"open\n")
        if how == "once":
            done = DelayDelivery(store, commit_bytes=COMMIT_BYTES).deliver().rows
        else:
            running = service.ScheduleMessageService(store, poll_s=0.002, first_s=0.0)
            end = time.monotonic() + _DEADLINE_S
            while running.delivered < count and time.monotonic() < end:
                time.sleep(0.002)
            running.stop()
            done = running.delivered
    os.write(1, b"delivered %d\n" % done)


if __name__ == "__main__":
    main()
