"""`rocketflow/timer`: what the timer's files were when they were left, so that the next delivery may believe them.

Checked JSON (`checked_json`): `version` and the fields of `TimerStop`, each a number that is not negative. A broker
does not read it; one that ran meanwhile leaves timer files with other CRCs, and they are made anew from the log.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from rocketflow_store.files import os_files
from rocketflow_store.files.json_fields import int64_field
from rocketflow_store.metadata.native.checked_json import decode_checked_json, encode_checked_json
from rocketflow_store.model.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

TIMER_STOP_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class TimerStop:
    """What the timer's files were when they were left: every pending message below `queue_offset` is in them.

    Ticks before `read_ms` were gone through; `log_begin` is where the records that the wheel needs begin.
    """

    queue_offset: int
    read_ms: int
    precision_ms: int
    newest: int
    """A number that tells the message before `queue_offset` from any other: the log may have been cut since."""
    commits: int
    commit: int
    """How many commits there were, and a number that tells the last of them from any other."""
    log_begin: int
    log_end: int
    wheel_crc: int
    log_crc: int
    check_crc: int

    def encode(self) -> bytes:
        """Return the file's bytes."""
        return encode_checked_json({"version": TIMER_STOP_VERSION, **asdict(self)})


def decode_timer_stop(data: bytes) -> TimerStop | None:
    """Return what `rocketflow/timer` says; None if that cannot be believed."""
    try:
        told = decode_checked_json(data)
        if int64_field(told, "version", 0) != TIMER_STOP_VERSION:
            return None
        found = {name: int64_field(told, name, -1) for name in TimerStop.__dataclass_fields__}
    except (ValueError, StoreError):
        return None
    return None if min(found.values()) < 0 else TimerStop(**found)


def read_timer_stop(path: Path) -> TimerStop | None:
    """Return what the file says; None if there is none that can be believed."""
    try:
        return decode_timer_stop(os_files.read_file(path))
    except (OSError, StoreError):
        return None


def write_timer_stop(path: Path, stop: TimerStop) -> None:
    """Write the file, durably."""
    os_files.write_atomically(path, stop.encode())
