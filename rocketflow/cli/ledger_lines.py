"""`rocketflow store ledger`: who moved which messages, and when, a line a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocketflow.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketflow_store import StoreReader


def ledger_lines(reader: StoreReader, run_id: str | None, kind: str | None, *, empty: bool) -> Iterator[dict[str, Any]]:
    """The commits of the ledger that are asked for, oldest first; those that moved no row only where `empty`."""
    from rocketflow_store.retry.ledger import ledger

    for entry in ledger(reader):
        if run_id is not None and entry.commit.run_id != run_id:
            continue
        if (kind is None or entry.kind == kind) and (empty or entry.commit.rows):
            yield entry.as_dict()


def as_text(fields: dict[str, Any]) -> str:
    """One line for people."""
    when = iso_time(fields["time"])
    to = fields["to"]
    if isinstance(to, dict):
        to = ", ".join(f"{topic} {count}" for topic, count in to.items())
    moved = f"{fields['from'] or '-'} -> {to or '-'}"
    place = f"[{fields['beginOffset']}, {fields['endOffset']})"
    return f"{when}  {fields['kind']:<8} {fields['runId']:<24} {fields['rows']:>9} rows  {moved}  {place}"
