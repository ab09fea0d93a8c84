"""Opens windows for the kernel's single puts at once, and keeps the routes of the stores that are opened meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from rocketflow_store.append import put_path, put_route
from rocketflow_store.append.put_route import PutRoute


@contextmanager
def windows_at_once() -> Iterator[list[PutRoute]]:
    """Open a window for the first message that needs it; yield the routes of stores, the newest last."""
    routes: list[PutRoute] = []

    def made(*given: Any) -> PutRoute:
        routes.append(PutRoute(*given))
        return routes[-1]

    with patch.object(put_route, "WINDOW_PUTS", 0), patch.object(put_path, "PutRoute", made):
        yield routes
