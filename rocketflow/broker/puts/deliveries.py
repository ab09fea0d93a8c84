"""The store's services that put delayed and timer messages when they are due."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rocketflow_store.spi.delivery import ScheduleMessageService, TimerMessageService

if TYPE_CHECKING:
    from rocketflow_store.spi.broker import WritingStore


class Deliveries:
    """Both services, in `running` by kind once they have started."""

    def __init__(self, store: WritingStore) -> None:
        self._store = store
        self.running: dict[str, ScheduleMessageService | TimerMessageService] = {}

    def start(self) -> None:
        """Deliver from now on."""
        self.running["delay"] = ScheduleMessageService(self._store)
        self.running["timer"] = TimerMessageService(self._store)

    async def stop(self) -> None:
        """End both; what is being delivered is completed."""
        for one in self.running.values():
            await asyncio.to_thread(one.stop)
