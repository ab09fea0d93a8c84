"""The process that is killed: delivers the timer messages of a store that are due at a time, in small commits.

python -m tests.reliability.delivering_timers STORE NOW_MS once|service COUNT

`service` runs the thread until COUNT messages were delivered. Both wait for the store's lock, and print the number of
delivered messages.
"""

from __future__ import annotations

import os
import sys
import time

from rocketflow_store import MessageStore, StoreConfig
from rocketflow_store.delivery.timer import timer_committer
from rocketflow_store.delivery.timer.deliver_due import deliver_due_timers
from rocketflow_store.delivery.timer.timer_message_service import TimerMessageService
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import StoreLockedError

COMMIT_ROWS = 7
_DEADLINE_S = 60.0


def config(now_ms: int) -> StoreConfig:
    return StoreConfig(clock=ManualClock(now_ms), mapped_file_size_timer_log=4096, timer_roll_window_slot=3_600)


def opened(path: str, now_ms: int) -> MessageStore:
    """Open the store as soon as no other process writes to it."""
    end = time.monotonic() + _DEADLINE_S
    while True:
        try:
            return MessageStore.open(path, config(now_ms))
        except StoreLockedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def main() -> None:
    path, now_ms, how, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    timer_committer.COMMIT_ROWS = COMMIT_ROWS  # type: ignore[misc]
    with opened(path, now_ms) as store:
        os.write(1, b"open\n")
        if how == "once":
            done = deliver_due_timers(store).delivered
        else:
            with TimerMessageService(store) as service:
                while service.counts.delivered < count and service.error is None:
                    time.sleep(0.002)
                done = service.counts.delivered
    print("delivered", done, flush=True)


if __name__ == "__main__":
    main()
