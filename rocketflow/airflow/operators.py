"""Operators for your DAGs: any `rocketflow store` command on a connection's store, or a job by spark-submit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from airflow.sdk import BaseOperator

from rocketflow.airflow.hook import RocketFlowStoreHook


class _OnAStore(BaseOperator):
    """Base class with the connection; the hook stops a command together with its task."""

    ui_color: ClassVar[str] = "#e8f0f7"

    def __init__(self, *, conn_id: str = RocketFlowStoreHook.default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conn_id = conn_id

    def hook(self) -> RocketFlowStoreHook:
        """Create the hook for this task's connection."""
        return RocketFlowStoreHook(self.conn_id)


class RocketFlowStoreOperator(_OnAStore):
    """Runs `rocketflow store VERB PATH OPTIONS --json`; the XCom is its JSON result.

    `accepted_exit_codes` are no failure if the command prints a result: 1 (findings) and 3 (data lost) of `verify`.
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
        hook = self.hook()
        return hook.run(hook.store.store_words(self.verb, *self.options), self.accepted_exit_codes).result


class RocketFlowSubmitOperator(_OnAStore):
    """Runs `rocketflow submit JOB --store PATH OPTIONS`; the XCom is the job's last JSON line.

    Unlike Airflow's SparkSubmitOperator it distinguishes a locked store (retried) from a failure (not retried), finds
    Java, and sets Spark options that were measured as best. Use Airflow's operator if the cluster runs the driver.
    """

    template_fields: ClassVar[Sequence[str]] = ("conn_id", "job", "options")

    def __init__(self, *, job: str, options: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job, self.options = job, list(options)

    def execute(self, context: Any) -> dict[str, Any]:
        return self.hook().submit(self.job, self.options)
