"""Who delivers the timer messages of an open store: one at a time; a service and jobs beside it share a delivery."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from rocketflow_store.delivery.timer.timer_delivery import TimerDelivery

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketflow_store.engine.message_store import MessageStore


class Turns:
    """Of one store: `lock` is held by whoever delivers, `delivery` is kept while a service runs."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.delivery: TimerDelivery | None = None


_TURNS: Final[WeakKeyDictionary[MessageStore, Turns]] = WeakKeyDictionary()
_TABLE_LOCK: Final = threading.Lock()


def turns_of(store: MessageStore) -> Turns:
    """Those of a store."""
    with _TABLE_LOCK:
        return _TURNS.setdefault(store, Turns())


def remake_timer_files(store: MessageStore) -> bool:
    """Make the timer's files anew from the CommitLog, and deliver nothing; False where that cannot be done."""
    turns = turns_of(store)
    with turns.lock:
        if turns.delivery is not None:
            return False
        delivery = TimerDelivery(store)
        try:
            return delivery.remake()
        finally:
            delivery.close()


@contextmanager
def my_turn(store: MessageStore, run_id: str) -> Iterator[TimerDelivery]:
    """A delivery that nobody else uses meanwhile; its files are left in order behind the block, unless it raises."""
    turns = turns_of(store)
    with turns.lock:
        if turns.delivery is not None:
            yield turns.delivery
            return
        delivery = TimerDelivery(store, run_id)
        try:
            yield delivery
            delivery.leave()
        finally:
            delivery.close()
