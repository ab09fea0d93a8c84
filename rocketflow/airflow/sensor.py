"""The sensor for a topic's end offset or a consumer group's lag."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException

from rocketflow.airflow.hook import RocketFlowStoreHook
from rocketflow.airflow.positions import Goal
from rocketflow.airflow.trigger import RocketFlowTopicTrigger


class RocketFlowTopicSensor(BaseSensorOperator):
    """Waits until the end offset of `topic` is at least `offset`, or the lag of `group` is below `lag_below` messages.

    `queue_id` selects one queue; without it the offsets of all queues are added up. Unless `deferrable=False`, it waits
    in the triggerer and holds no worker. It only reads the store, also while a writer has it open. The XCom is the
    end offset or lag found.
    """

    template_fields: ClassVar[Sequence[str]] = ("conn_id", "topic", "group", "offset", "lag_below", "queue_id")

    def __init__(
        self,
        *,
        topic: str,
        queue_id: int | str | None = None,
        offset: int | str | None = None,
        group: str | None = None,
        lag_below: int | str | None = None,
        conn_id: str = RocketFlowStoreHook.default_conn_name,
        deferrable: bool = True,
        poke_interval: float | timedelta = 10.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.topic, self.queue_id, self.offset = topic, queue_id, offset
        self.group, self.lag_below = group, lag_below
        self.conn_id, self.deferrable = conn_id, deferrable

    def goal(self) -> Goal:
        """Return the condition after templates are rendered. Raise AirflowFailException for an invalid one."""
        try:
            return Goal(self.topic, _number(self.queue_id), _number(self.offset), self.group, _number(self.lag_below))
        except ValueError as error:
            raise AirflowFailException(f"{self.task_id}: {error}") from error

    def poke(self, context: Any) -> bool:
        """Check the condition once."""
        goal, hook = self.goal(), RocketFlowStoreHook(self.conn_id)
        hook.get_conn()
        position = asyncio.run(hook.position(goal.topic, goal.group))
        self.log.info("waiting for %s: %s", goal, goal.progress(position))
        return goal.reached(position)

    def execute(self, context: Any) -> Any:
        """Check once, then defer to the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        if self.poke(context):
            return {"topic": self.topic}
        goal = self.goal()
        self.defer(
            trigger=RocketFlowTopicTrigger(
                self.conn_id, goal.topic, goal.queue, goal.offset, goal.group, goal.lag_below, self.poke_interval
            ),
            method_name="resume",
            timeout=timedelta(seconds=self.timeout),
        )
        return None

    def resume(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:
        """Return the trigger's result, or raise its error."""
        if "error" in event:
            raise AirflowFailException(event["error"])
        return event


def _number(value: int | str | None) -> int | None:
    """Convert a rendered template, which is a string, into a number."""
    return None if value in (None, "", "None") else int(value)
