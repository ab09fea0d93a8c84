"""The trigger of the sensor: polls the store without blocking other triggers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from rocketflow.airflow.hook import RocketFlowStoreHook
from rocketflow.airflow.positions import Goal

_MOST_FAILURES: Final = 5


class RocketFlowTopicTrigger(BaseTrigger):
    """Fires when the goal is reached, or with `error` after five failed polls in a row."""

    def __init__(
        self,
        conn_id: str,
        topic: str,
        queue_id: int | None = None,
        offset: int | None = None,
        group: str | None = None,
        lag_below: int | None = None,
        poll_interval: float = 10.0,
    ) -> None:
        super().__init__()
        self.conn_id, self.poll_interval = conn_id, poll_interval
        self.goal = Goal(topic, queue_id, offset, group, lag_below)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments."""
        goal = self.goal
        return f"{__name__}.{type(self).__qualname__}", {
            "conn_id": self.conn_id,
            "topic": goal.topic,
            "queue_id": goal.queue,
            "offset": goal.offset,
            "group": goal.group,
            "lag_below": goal.lag_below,
            "poll_interval": self.poll_interval,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll until the goal is reached."""
        hook = RocketFlowStoreHook(self.conn_id)
        failures = 0
        while True:
            try:
                await hook.load()
                position = await hook.position(self.goal.topic, self.goal.group)
            except AirflowFailException as error:
                yield TriggerEvent({"error": str(error)})
                return
            except AirflowException as error:
                failures += 1
                self.log.warning("%s", error)
                if failures >= _MOST_FAILURES:
                    yield TriggerEvent({"error": str(error)})
                    return
            else:
                failures = 0
                progress = self.goal.progress(position)
                if self.goal.reached(position):
                    yield TriggerEvent(progress)
                    return
                self.log.info("waiting for %s: %s", self.goal, progress)
            await asyncio.sleep(self.poll_interval)
