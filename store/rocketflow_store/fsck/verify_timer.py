"""Verification of the timer's files: `timerwheel`, `timerlog/`, `config/timercheck`.

They are caches of RocketFlow, and a broker of RocketMQ repairs many of their faults as it starts; but it continues from
their contents, and does not start at all with a wheel of another length. This check finds impossible contents of any
writer; the delivery that rebuilds the files finds contradictions to the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.delivery.timer.timer_checkpoint import read_timer_checkpoint
from rocketflow_store.delivery.timer.timer_log import decode_units, units_in_file
from rocketflow_store.files import os_files
from rocketflow_store.files.mapped.mapped_file import MappedFile
from rocketflow_store.format.timer_checkpoint_layout import TimerCheckpoint
from rocketflow_store.format.timer_layout import SLOT_SIZE, TIMER_UNIT_SIZE, WHEEL_SIZE, WHEEL_SLOTS
from rocketflow_store.model.errors import CorruptRecordError, UnreadableError
from rocketflow_store.records.arrow.unit_types import SLOT_DTYPE

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from rocketflow_store.fsck.findings import Findings
    from rocketflow_store.metadata.layout.store_paths import StorePaths

KIND: Final = "timer"
_NAME_DIGITS: Final = 20
_MISSING: Final = "records that timercheck counts on are not there"


def check_timer(paths: StorePaths, queue_end: int, log_end: int, found: Findings) -> None:
    """Check the files of a timer whose topic's queue ends at `queue_end`, in a log that ends at `log_end`."""
    _check_wheel(paths.timer_wheel, found)
    check = _check_checkpoint(paths.timer_check, queue_end, found)
    _check_log(paths.timer_log, check, log_end, found)


def _check_wheel(path: Path, found: Findings) -> None:
    if not path.exists():
        return
    if not path.is_file():
        found.add(KIND, path, 0, 0, "is no file")
        return
    size = path.stat().st_size
    if size not in (0, WHEEL_SIZE):
        found.add(KIND, path, 0, size, f"has {size} bytes, not {WHEEL_SIZE}: no broker starts with it")
        return
    try:
        slots = np.frombuffer(os_files.read_file(path), SLOT_DTYPE)
    except OSError as error:
        raise os_files.access_error(path, error) from error
    for row in np.flatnonzero(~_possible(slots))[:1].tolist():
        found.add(KIND, path, row * SLOT_SIZE, SLOT_SIZE, "is not a slot of a wheel, or is in the place of another one")


def _possible(slots: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """Return the mask of slots that a writer may have written."""
    ticks, first, last = (slots[name].astype(np.int64) for name in ("tick", "first", "last"))
    place = np.arange(len(slots))
    # the log may have lost its oldest records: a slot derived from the rest has no first one
    fine: npt.NDArray[np.bool_] = (ticks % WHEEL_SLOTS == place) & (ticks >= 0) & (first >= -1) & (last >= first)
    fine |= (ticks == 0) | (ticks == -1)
    return fine


def _check_checkpoint(path: Path, queue_end: int, found: Findings) -> TimerCheckpoint | None:
    if not path.exists():
        return TimerCheckpoint()
    if not path.is_file():
        found.add(KIND, path, 0, 0, "is no file")
        return None
    try:
        check = read_timer_checkpoint(path)
    except CorruptRecordError as error:
        found.add(KIND, path, 0, path.stat().st_size, error.why)
        return None
    if check.last_timer_queue_offset > queue_end:
        why = f"the next message is {check.last_timer_queue_offset}, the timer's queue ends at {queue_end}"
        found.add(KIND, path, 16, 8, why)
        return None
    return check


def _check_log(directory: Path, check: TimerCheckpoint | None, log_end: int, found: Findings) -> None:
    if not directory.exists():
        return
    if not directory.is_dir():
        found.add(KIND, directory, 0, directory.stat().st_size, "is no directory")
        return
    files = sorted(directory.iterdir())
    named = [one for one in files if one.name.isdigit() and len(one.name) == _NAME_DIGITS and one.is_file()]
    for one in files:
        if one not in named:
            found.add(KIND, one, 0, 0, "is no file of a timer log")
    if not named:
        return
    size = named[0].stat().st_size
    begin = int(named[0].name)
    for number, one in enumerate(named):
        if one.stat().st_size != size or units_in_file(size) == 0 or int(one.name) != begin + number * size:
            found.add(KIND, one, 0, one.stat().st_size, "does not fit the other files of the timer log")
            return
    flushed = check.last_timer_log_flush_pos if check is not None else 0
    for one in named:
        _check_log_file(one, int(one.name), min(flushed - int(one.name), size), log_end, found)
    missing = flushed - (begin + len(named) * size)
    if missing > 0:
        found.add(KIND, named[-1], size, missing, _MISSING)


def _check_log_file(path: Path, base: int, flushed: int, log_end: int, found: Findings) -> None:
    """Check one file, of which `flushed` bytes must be durable."""
    mapped = MappedFile(path, base, write=False)
    try:
        units = decode_units(memoryview(mapped.populate(0, mapped.file_size)), path, base)
    except CorruptRecordError as error:
        found.add(KIND, path, error.offset - base, TIMER_UNIT_SIZE, error.why)
        return
    except UnreadableError as error:
        found.add(KIND, path, 0, mapped.file_size, error.why)
        return
    written = len(units) * TIMER_UNIT_SIZE
    if len(units) < units_in_file(mapped.file_size) and written < flushed:
        found.add(KIND, path, written, flushed - written, _MISSING)
    beyond = np.flatnonzero(units["phy_offset"].astype(np.int64) >= log_end)
    if len(beyond):
        at = int(beyond[0]) * TIMER_UNIT_SIZE
        found.add(KIND, path, at, TIMER_UNIT_SIZE, "names a message after the end of the CommitLog")
