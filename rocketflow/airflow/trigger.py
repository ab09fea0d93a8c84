"""The trigger behind the sensor: asks the store now and then, and holds up no other trigger meanwhile."""

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
    """Fires when the goal is reached, or with `error` where the store cannot be asked (five times in turn)."""

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
        """Class path and arguments."""
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
        """Ask until it is so."""
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
                told = self.goal.progress(position)
                if self.goal.reached(position):
                    yield TriggerEvent(told)
                    return
                self.log.info("waiting for %s: %s", self.goal, told)
            await asyncio.sleep(self.poll_interval)
