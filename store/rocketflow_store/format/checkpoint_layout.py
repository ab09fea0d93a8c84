"""The `checkpoint` file: six int64 (big-endian) at the start of 4096 bytes.

0   physic_msg_timestamp   store time up to which the CommitLog is known to be flushed
8   logics_msg_timestamp   store time of the last flushed ConsumeQueue unit
16  index_msg_timestamp    end time of the last full, flushed index file
24  master_flushed_offset  5.x
32  confirm_phy_offset     5.1.1+: offset of the last valid record found by recovery
40  logics_physical_offset 5.5.0+: offset of the last record whose ConsumeQueue unit is flushed, as are all before it;
                           recovery with enableAcceleratedRecovery begins there, and refuses an offset of 0
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

CHECKPOINT_STRUCT: Final = struct.Struct(">qqqqqq")
CHECKPOINT_SIZE: Final = 4096


@dataclass(slots=True)
class CheckpointFields:
    """Values of a checkpoint; all zero if the file is missing."""

    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_phy_offset: int = 0
    logics_physical_offset: int = 0

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        return CHECKPOINT_STRUCT.pack(
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_phy_offset,
            self.logics_physical_offset,
        ).ljust(CHECKPOINT_SIZE, b"\0")


def decode_checkpoint(raw: bytes) -> CheckpointFields:
    """Decode a checkpoint file; a short file counts as padded with zeros."""
    return CheckpointFields(*CHECKPOINT_STRUCT.unpack_from(raw.ljust(CHECKPOINT_SIZE, b"\0")))


def logics_physical_offset(last_record: int, log_end: int) -> int:
    """Return the field's value for queues that are durable up to the record at `last_record`.

    As in RocketMQ it is where that record begins. 0 would mean unknown, so for the log's first record, and for a log of
    which no record has a unit, it is `log_end`.
    """
    return last_record if last_record > 0 else max(log_end, 0)
