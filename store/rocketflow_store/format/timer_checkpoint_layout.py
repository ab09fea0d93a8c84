"""`config/timercheck`: the progress of the timer: seven int64 (big-endian) at the start of 4096 bytes.

0   last_read_time_ms
8   last_timer_log_flush_pos
16  last_timer_queue_offset
24  master_timer_queue_offset
32  state_version
40  version_timestamp
48  version_counter
"""

from __future__ import annotations

import struct
from dataclasses import astuple, dataclass
from typing import Final

from rocketflow_store.model.errors import CorruptRecordError

TIMER_CHECKPOINT_STRUCT: Final = struct.Struct(">qqqqqqq")
TIMER_CHECKPOINT_SIZE: Final = 4096


@dataclass(frozen=True, slots=True)
class TimerCheckpoint:
    """Times in ms; `last_timer_log_flush_pos` is an offset of the timer log, queue offsets are of the timer topic."""

    last_read_time_ms: int = 0
    """The first tick that is not completely delivered."""
    last_timer_log_flush_pos: int = 0
    last_timer_queue_offset: int = 0
    """The first message that is not in the timer log."""
    master_timer_queue_offset: int = 0
    state_version: int = 0
    version_timestamp: int = 0
    version_counter: int = 0

    def encode(self) -> bytes:
        """Return the file's bytes."""
        return TIMER_CHECKPOINT_STRUCT.pack(*astuple(self)).ljust(TIMER_CHECKPOINT_SIZE, b"\0")


def decode_timer_checkpoint(data: bytes | memoryview, file: object = "timercheck") -> TimerCheckpoint:
    """Decode a timercheck; raise CorruptRecordError if bytes are missing or a field is negative."""
    if len(data) < TIMER_CHECKPOINT_STRUCT.size:
        raise CorruptRecordError(file, 0, f"{len(data)} bytes, a timercheck has {TIMER_CHECKPOINT_SIZE}")
    found = TimerCheckpoint(*TIMER_CHECKPOINT_STRUCT.unpack_from(data))
    if min(astuple(found)) < 0:
        raise CorruptRecordError(file, 0, "a field of the timercheck is negative")
    return found
