"""`rocketflow store ledger`: the commits that moved messages, one line a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rocketflow.errors import UsageError
from rocketflow.process.nearest import did_you_mean
from rocketflow.process.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketflow.cli.store.skipped_messages import SkippedReport
    from rocketflow_store import StoreReader


FIELDS: Final[dict[str, dict[str, str]]] = {
    "store ledger": {
        "time": "store time of the commit, ms",
        "kind": "requeue, delay (also retries), timer, send-back, quality, kafka-bridge or sink",
        "runId": "run of the job or stream",
        "sinkId": "name of the sink",
        "batchId": "batch of the run",
        "from": "topic or topics that the rows came from; null if the commit does not name them",
        "to": "topic, or topics with their number of rows; null if the commit does not name them",
        "rows": "rows that were appended",
        "beginOffset": "offset of their first record in the CommitLog, bytes",
        "endOffset": "offset after their last record",
        "progress": "positions that the commit stored, which depend on the kind",
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


def ledger_lines(
    reader: StoreReader, run_id: str | None, kind: str | None, skipped: SkippedReport, *, empty: bool
) -> Iterator[dict[str, Any]]:
    """Yield the selected commits of the ledger, oldest first; with `empty` also commits that moved no row.

    Raises:
        UsageError: no commit belongs to that run, or the kind is unknown.
    """
    from rocketflow_store.spi.requeue import KINDS, ledger

    kinds, runs = set(KINDS), set()
    for entry in ledger(reader, skipped.faults()):
        kinds.add(entry.kind)
        runs.add(entry.commit.run_id)
        if run_id is not None and entry.commit.run_id != run_id:
            continue
        if (kind is None or entry.kind == kind) and (empty or entry.commit.rows):
            yield entry.as_dict()
    if skipped.count:
        return  # the run or kind may be among the skipped commits
    if kind is not None and kind not in kinds:
        raise UsageError(f"--kind {kind}: no such kind of commit; {did_you_mean(kind, kinds)}")
    if run_id is not None and run_id not in runs:
        raise UsageError(f"--run-id {run_id}: no commit of this run is in the log; {did_you_mean(run_id, runs)}")


LEDGER_COLUMNS = ("time", "kind", "runId", "rows", "from", "to", "beginOffset", "endOffset")


def ledger_row(fields: dict[str, Any]) -> list[object]:
    """Return a commit's cells of `LEDGER_COLUMNS`."""
    to = fields["to"]
    if isinstance(to, dict):
        to = ", ".join(f"{topic} {count}" for topic, count in to.items())
    readable = {**fields, "time": iso_time(fields["time"]), "to": to or None, "from": fields["from"] or None}
    return [readable[name] for name in LEDGER_COLUMNS]
