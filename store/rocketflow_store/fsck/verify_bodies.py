"""Verification of bodies: those that a producer called compressed, or a batch of messages, and that are none.

The records are sound, and a broker stores them as they were sent; readers cannot decode them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.batch_body import entry_positions
from rocketflow_store.model.compression import decompress_body
from rocketflow_store.model.errors import CorruptRecordError, UnsupportedRecordError
from rocketflow_store.model.system_flags import COMPRESSED_FLAG, WRAPPED
from rocketflow_store.records.decoding.batch_entries import entry_positions_of

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from rocketflow_store.fsck.findings import Findings
    from rocketflow_store.records.decoding.decode import RecordColumns

BAD_BODY: Final = "bad-body"


def with_flagged_body(sys_flags: npt.NDArray[np.int32]) -> npt.NDArray[np.intp]:
    """Return the rows of records whose bodies have to be looked at."""
    return np.flatnonzero((sys_flags & COMPRESSED_FLAG != 0) | (sys_flags & WRAPPED == WRAPPED))


def check_bodies(records: RecordColumns, file: Path, found: Findings) -> None:
    """Add the records (sound ones of `file`) whose body cannot be decoded; only flagged ones are looked at.

    Memory is bounded by one decompressed body and the batches of the run.
    """
    flagged = np.flatnonzero(records.sys_flag & COMPRESSED_FLAG)
    reasons = {row: why for row in flagged.tolist() if (why := _reason(records, row)) is not None}
    wrapped = np.flatnonzero(records.sys_flag & (WRAPPED | COMPRESSED_FLAG) == WRAPPED).tolist()
    if wrapped and entry_positions_of([_stored(records, row) for row in wrapped]) is None:
        reasons |= {row: why for row in wrapped if (why := _reason(records, row)) is not None}
    for row, why in sorted(reasons.items()):
        one = records.keep(np.array([row]))
        topic, queue_id, offset = one.topics()[0].as_py(), one.field(">i4", 12)[0], one.field(">i8", 20)[0]
        detail = f"topic {topic}, queue {queue_id}, queue offset {offset}: {why}; nothing is lost, see onBadBody"
        found.add(BAD_BODY, file, int(records.positions[row]), int(records.sizes[row]), detail)


def _stored(records: RecordColumns, row: int) -> bytes:
    return records.octets[int(records.body_starts[row]) : int(records.body_ends[row])].tobytes()


def _reason(records: RecordColumns, row: int) -> str | None:
    """Return why the body of a record cannot be decoded, None if it can be."""
    sys_flag, body = int(records.sys_flag[row]), _stored(records, row)
    try:
        if sys_flag & COMPRESSED_FLAG:
            body = decompress_body(body, sys_flag)
        if sys_flag & WRAPPED == WRAPPED:
            entry_positions(body)
    except (CorruptRecordError, UnsupportedRecordError) as error:
        return error.why
    except ValueError as error:
        return str(error)
    return None
