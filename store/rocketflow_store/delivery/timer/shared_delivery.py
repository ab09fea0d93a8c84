"""The delivery of an open store's timer messages, shared by a service and by jobs; one thread uses it at a time."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from rocketflow_store.delivery.timer.timer_delivery import TimerDelivery

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketflow_store.engine.message_store import MessageStore


class SharedDelivery:
    """The delivery of one store: the delivering thread holds `lock`; `delivery` is set while a service runs."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.delivery: TimerDelivery | None = None


_DELIVERIES: Final[WeakKeyDictionary[MessageStore, SharedDelivery]] = WeakKeyDictionary()
_TABLE_LOCK: Final = threading.Lock()


def shared_delivery_of(store: MessageStore) -> SharedDelivery:
    """Return the shared delivery of `store`."""
    with _TABLE_LOCK:
        return _DELIVERIES.setdefault(store, SharedDelivery())


def rebuild_timer_files(store: MessageStore) -> bool:
    """Rebuild the timer's files from the CommitLog and deliver nothing; return False if that is impossible."""
    shared = shared_delivery_of(store)
    with shared.lock:
        if shared.delivery is not None:
            return False
        delivery = TimerDelivery(store)
        try:
            return delivery.rebuild_files()
        finally:
            delivery.close()


@contextmanager
def exclusive_delivery(store: MessageStore, run_id: str) -> Iterator[TimerDelivery]:
    """Yield a delivery that no other thread uses meanwhile; finish its files after the block, unless it raises."""
    shared = shared_delivery_of(store)
    with shared.lock:
        if shared.delivery is not None:
            yield shared.delivery
            return
        delivery = TimerDelivery(store, run_id)
        try:
            yield delivery
            delivery.finish()
        finally:
            delivery.close()
