"""`rocketflow/timer`: the state of the timer's files when they were left, so that the next delivery can rely on them.

Checked JSON (`checked_json`): `version` and the fields of `TimerStop`, numbers of at least 0. A broker does not read
it; a broker that ran in between leaves timer files with other CRCs, and they are rebuilt from the log.
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
    """The state of the timer's files when they were left: every pending message before `queue_offset` is in them.

    Ticks before `read_ms` were delivered; `log_begin` is the position of the first record that the wheel needs.
    """

    queue_offset: int
    read_ms: int
    precision_ms: int
    newest: int
    """A number that identifies the message before `queue_offset`: the log may have been truncated since."""
    commits: int
    commit: int
    """The number of commits of deliveries, and a number that identifies the last of them."""
    log_begin: int
    log_end: int
    wheel_crc: int
    log_crc: int
    check_crc: int

    def encode(self) -> bytes:
        """Return the file's bytes."""
        return encode_checked_json({"version": TIMER_STOP_VERSION, **asdict(self)})


def decode_timer_stop(data: bytes) -> TimerStop | None:
    """Parse `rocketflow/timer`; return None if it is invalid."""
    try:
        document = decode_checked_json(data)
        if int64_field(document, "version", 0) != TIMER_STOP_VERSION:
            return None
        found = {name: int64_field(document, name, -1) for name in TimerStop.__dataclass_fields__}
    except (ValueError, StoreError):
        return None
    return None if min(found.values()) < 0 else TimerStop(**found)


def read_timer_stop(path: Path) -> TimerStop | None:
    """Return the content of the file; None if it is missing or invalid."""
    try:
        return decode_timer_stop(os_files.read_file(path))
    except (OSError, StoreError):
        return None


def write_timer_stop(path: Path, stop: TimerStop) -> None:
    """Write the file durably."""
    os_files.write_atomically(path, stop.encode())
