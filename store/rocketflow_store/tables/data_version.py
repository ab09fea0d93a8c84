"""The version of a table. RocketMQ's source: remoting/protocol/DataVersion.java."""

from __future__ import annotations

from msgspec.structs import replace

from rocketflow_store.tables.table_row import Int64, TableRow


class DataVersion(TableRow, frozen=True):
    """Number and time (ms) of the changes of a table: two tables are the same if all three numbers are."""

    counter: Int64 = 0
    timestamp: Int64 = 0
    state_version: Int64 = 0

    def next(self, now_ms: int) -> DataVersion:
        """Return the version after a change at `now_ms`."""
        return replace(self, counter=self.counter + 1, timestamp=now_ms)
