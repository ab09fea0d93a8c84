"""Parts shared by RocketFlow's DAGs: retry settings, the connection parameter, and the callback of a missed deadline.

Only Airflow is imported when a file here is parsed; tasks import `rocketflow.airflow` when they run.
"""

from __future__ import annotations

import logging
import os
import sys
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow.sdk import DeadlineAlert, DeadlineReference, Param, SyncCallback

DEFAULT_ARGS: Final[dict[str, Any]] = {
    "owner": "rocketflow",
    "retries": 5,
    "retry_delay": timedelta(seconds=30),
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=15),
    "execution_timeout": timedelta(hours=6),
}
"""The retries apply to a locked store and a killed command; every other failure ends the task at once."""

START: Final = datetime(2025, 1, 1, tzinfo=UTC)
_DEFAULT_CONNECTION: Final = os.environ.get("ROCKETFLOW_STORE_CONN_ID", "rocketflow_default")
_log: Final = logging.getLogger(__name__)


def connection_param() -> Param:
    """Return the parameter for the store: the id of an Airflow connection of type `rocketflow`."""
    return Param(
        _DEFAULT_CONNECTION,
        type="string",
        minLength=1,
        title="Store",
        description="Id of an Airflow connection of type rocketflow.",
    )


def deadline(after: timedelta) -> DeadlineAlert | None:
    """Return an alert that logs an error if a run is not done `after` it was queued, time in the queue included.

    Return None under `airflow dags test`, which (3.3.2) raises at the successful end of a DAG with a deadline.
    """
    if sys.argv[1:3] == ["dags", "test"]:
        return None
    callback = SyncCallback(f"{__name__}.deadline_missed", kwargs={"minutes": after.total_seconds() / 60})
    return DeadlineAlert(reference=DeadlineReference.DAGRUN_QUEUED_AT, interval=after, callback=callback, name="late")


def deadline_missed(minutes: float, context: dict[str, Any] | None = None) -> None:
    """Log which run is late. Put your own notifier here."""
    run = (context or {}).get("dag_run") or {}
    ids = run if isinstance(run, dict) else {"dag_id": run.dag_id, "dag_run_id": run.run_id}
    _log.error(
        "DAG %s, run %s is not done %g minutes after it was queued", ids.get("dag_id"), ids.get("dag_run_id"), minutes
    )


def date_of(context: Any) -> datetime:
    """Return the run's logical date in UTC; for a manual run without one, its `run_after`."""
    found: datetime = context.get("logical_date") or context["dag_run"].run_after
    return found.astimezone(UTC)


def interval_of(context: Any) -> tuple[datetime, datetime]:
    """Return the run's data interval; without one, the full day (UTC) before the run's date."""
    begin, end = context.get("data_interval_start"), context.get("data_interval_end")
    if begin is not None and end is not None and begin < end:
        return begin, end
    midnight = date_of(context).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=1), midnight
