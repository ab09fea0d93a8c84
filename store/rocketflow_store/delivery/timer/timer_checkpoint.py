"""`config/timercheck`: how far the timer has come: 4096 bytes, seven big-endian int64, then zeros."""

from __future__ import annotations

import struct
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Final

from rocketflow_store.files import os_files
from rocketflow_store.model.errors import CorruptRecordError

if TYPE_CHECKING:
    from pathlib import Path

_FIELDS: Final = struct.Struct(">qqqqqqq")
TIMER_CHECKPOINT_SIZE: Final = 4096


@dataclass(frozen=True, slots=True)
class TimerCheckpoint:
    """Times in ms; `last_timer_log_flush_pos` is an offset of the timer log, queue offsets are of the timer topic."""

    last_read_time_ms: int = 0
    """The first tick that is not wholly delivered."""
    last_timer_log_flush_pos: int = 0
    last_timer_queue_offset: int = 0
    """The first message that is not in the timer log."""
    master_timer_queue_offset: int = 0
    state_version: int = 0
    version_timestamp: int = 0
    version_counter: int = 0

    def encode(self) -> bytes:
        """The file's bytes."""
        return _FIELDS.pack(*astuple(self)).ljust(TIMER_CHECKPOINT_SIZE, b"\0")


def decode_timer_checkpoint(data: bytes | memoryview, file: object = "timercheck") -> TimerCheckpoint:
    """The fields of a timercheck; CorruptRecordError where bytes are missing or a field is negative."""
    if len(data) < _FIELDS.size:
        raise CorruptRecordError(file, 0, f"{len(data)} bytes, a timercheck has {TIMER_CHECKPOINT_SIZE}")
    found = TimerCheckpoint(*_FIELDS.unpack_from(data))
    if min(astuple(found)) < 0:
        raise CorruptRecordError(file, 0, "a field of the timercheck is negative")
    return found


def read_timer_checkpoint(path: Path) -> TimerCheckpoint:
    """The timercheck at `path`; all zero where there is none. CorruptRecordError where it is damaged."""
    try:
        data = os_files.read_file(path)
    except FileNotFoundError:
        return TimerCheckpoint()
    except OSError as error:
        raise os_files.access_error(path, error) from error
    return decode_timer_checkpoint(data, path)


def write_timer_checkpoint(path: Path, checkpoint: TimerCheckpoint) -> None:
    """Replace the timercheck, durably."""
    if not path.parent.is_dir():
        os_files.make_directory(path.parent)
    os_files.write_atomically(path, checkpoint.encode())
