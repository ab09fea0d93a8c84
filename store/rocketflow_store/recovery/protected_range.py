"""In which part of a log readers may expect a CRC of itself in every record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow_store.log.record_crc_range import RecordCrcRange
from rocketflow_store.metadata.native.confirm import read_confirm

if TYPE_CHECKING:
    from rocketflow_store.metadata.layout.store_paths import StorePaths

_FAR: Final = 1 << 62


def readable_range(paths: StorePaths) -> RecordCrcRange:
    """As `record_crc_range`; what a writer, running or killed, did not sync yet counts too."""

    def look() -> tuple[int, int]:
        from rocketflow_store.recovery.derived_state import record_crc_range  # more than reading loads

        confirmed = read_confirm(paths)
        start, stop = record_crc_range(paths)
        return start, _FAR if confirmed is not None and confirmed.record_crc_from >= 0 else stop

    return RecordCrcRange(look, paths.writer_mark)
