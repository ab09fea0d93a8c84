"""Operators for DAGs of your own: any `rocketflow` command on a connection's store, or a job by spark-submit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from airflow.sdk import BaseOperator

from rocketflow.airflow.hook import RocketFlowStoreHook


class _OnAStore(BaseOperator):
    """The connection, and how a command ends with its task (the hook sees to it)."""

    ui_color: ClassVar[str] = "#e8f0f7"

    def __init__(self, *, conn_id: str = RocketFlowStoreHook.default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conn_id = conn_id

    def hook(self) -> RocketFlowStoreHook:
        """For this task's connection."""
        return RocketFlowStoreHook(self.conn_id)


class RocketFlowStoreOperator(_OnAStore):
    """`rocketflow store VERB PATH OPTIONS --json`; its JSON result is the XCom.

    `accepted_exit_codes` are no failure where a result comes with them: 1 (findings) and 3 (data lost) of `verify`.
    """

    template_fields: ClassVar[Sequence[str]] = ("conn_id", "verb", "options")

    def __init__(
        self,
        *,
        verb: str,
        options: Sequence[str] = (),
        accepted_exit_codes: Collection[int] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.verb, self.options = verb, list(options)
        self.accepted_exit_codes = sorted(accepted_exit_codes)

    def execute(self, context: Any) -> dict[str, Any] | None:
        """Run it."""
        hook = self.hook()
        return hook.run(hook.store.store_words(self.verb, *self.options), self.accepted_exit_codes).result


class RocketFlowSubmitOperator(_OnAStore):
    """`rocketflow submit JOB --store PATH OPTIONS`; the JSON line that the job ends with is the XCom.

    Unlike Airflow's SparkSubmitOperator it tells a store in use (tried again) from a failure (not), finds Java, and
    sets what was measured best. That one serves where a cluster runs the driver.
    """

    template_fields: ClassVar[Sequence[str]] = ("conn_id", "job", "options")

    def __init__(self, *, job: str, options: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job, self.options = job, list(options)

    def execute(self, context: Any) -> dict[str, Any]:
        """Submit it, and wait."""
        return self.hook().submit(self.job, self.options)
