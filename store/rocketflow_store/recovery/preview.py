"""What recovery would do, without a lock and without changing a byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.metadata.layout.store_meta import refuse_another_version
from rocketflow_store.metadata.native.confirm import read_confirm
from rocketflow_store.reading.store_reader import StoreReader
from rocketflow_store.recovery.recovery import Recovery, RecoveryResult

if TYPE_CHECKING:
    from pathlib import Path

    from rocketflow_store.settings.store_config import StoreConfig


def preview_recovery(path: Path, config: StoreConfig | None = None) -> RecoveryResult:
    """The result that opening the store for writing would have; `dispatched` counts records to look at again."""
    with StoreReader(path, config) as reader:
        refuse_another_version(reader.paths)
        return reader.preview(_preview)


def _preview(recovery: Recovery, reader: StoreReader) -> RecoveryResult:
    abort_found = reader.paths.abort.exists()
    confirmed = read_confirm(reader.paths) if abort_found else None
    start = recovery.scan_start(abort_found, confirmed)
    end = recovery.find_end(start, foreign=abort_found and confirmed is None)
    reached = max(recovery.written_end(end.offset), end.offset)
    return RecoveryResult(
        abort_found, start, reached, end.offset, recovery.count(start, end.offset), 0.0, recovery.quarantined
    )
