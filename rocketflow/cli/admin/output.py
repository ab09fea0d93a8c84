"""Output of a subcommand: JSON, or tables and lines in mqadmin's words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rocketflow.cli.shared.parameters import emit
from rocketflow.cli.shared.tables import Table
from rocketflow.process.times import iso_time

_TIME: Final = "Timestamp"


BROKER_FIELDS: Final = {"brokerAddr": "address of the broker"}


class Output:
    """Prints the results of one command, as JSON if it was given --json."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def rows(self, columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> None:
        """Print rows as JSON lines, or as a table; `columns` are fields by heading, those of times end in Timestamp."""
        if self.as_json:
            for row in rows:
                emit(dict(row))
        else:
            self.table(columns, rows)

    def table(self, columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> None:
        """Print a table, its headings also without rows."""
        table = Table(list(columns))
        for row in rows:
            table.add([_cell(field, row.get(field)) for field in columns.values()])
        if table.is_empty:
            print("  ".join(columns))
        table.flush()

    def lines(self, rows: Iterable[Mapping[str, Any]], text: str) -> None:
        """Print rows as JSON lines, or as lines of a format such as `{brokerAddr} success`."""
        for row in rows:
            if self.as_json:
                emit(dict(row))
            else:
                print(text.format_map(row))

    def settings(self, head: str, values: Mapping[str, Any]) -> None:
        """Print settings by key after a heading, in mqadmin's form."""
        print(f"============{head}============")
        for key in sorted(values):
            print(f"{key:<50}=  {values[key]}")
        print()

    def pretty(self, fields: Mapping[str, Any]) -> None:
        """Print one JSON object, on several lines without --json."""
        print(json.dumps(fields, ensure_ascii=False, indent=None if self.as_json else 2))


def described(pairs: Sequence[tuple[str, Any]]) -> None:
    """Print names and values, one pair a line."""
    for name, value in pairs:
        print(f"{name:<20} {value}")


def _cell(field: str, value: Any) -> Any:
    if field.endswith(_TIME):
        return iso_time(value) if value else "N/A"
    if isinstance(value, float):
        return f"{value:.2f}"
    return value
