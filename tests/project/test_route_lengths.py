"""The routes of the engine's main calls stay short: see `routes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store import Message, MessageStore
from tests.project.routes import opened_files, route_of

if TYPE_CHECKING:
    from pathlib import Path

SMALL_FILES = (
    "checkpoint",
    "config/topics.json",
    "config/consumerOffset.json",
    "config/delayOffset.json",
    "rocketflow/stop",
    "rocketflow/healing",
    "rocketflow/ends",
    "rocketflow/store.meta",
)


def test_clean_open_takes_a_short_route_and_reads_small_files_once(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path) as store:
        store.put_message(Message("t", b"x"))
    MessageStore.open(path).close()
    stores: list[MessageStore] = []
    with opened_files(path) as opened:
        route = route_of(lambda: stores.append(MessageStore.open(path)))
    stores[0].close()
    assert route.changes <= 560, route
    assert route.depth <= 12, route
    assert {name: opened[name] for name in SMALL_FILES if opened[name] > 1} == {}


def test_warm_put_takes_a_short_route(tmp_path: Path) -> None:
    message = Message("t", b"x" * 200, tags="a", keys="k", queue_id=0)
    with MessageStore.open(tmp_path / "s") as store:
        for _ in range(3):
            store.put_message(message)
        route = route_of(lambda: store.put_message(message))
    assert route.changes <= 60, route
    assert route.depth <= 10, route
