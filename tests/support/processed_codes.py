"""The requests that servers process, as they are declared."""

from __future__ import annotations

from typing import Final

from rocketflow.access.served import declared_in

BROKER: Final = declared_in("rocketflow.broker")
NAME_SERVER: Final = declared_in("rocketflow.namesrv")
ROWS: Final = {**BROKER, **NAME_SERVER}
"""What each request needs, by code."""
