"""Reading and replacing `config/timercheck`, which stores the timer's progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.files import os_files
from rocketflow_store.format.timer_checkpoint_layout import TimerCheckpoint, decode_timer_checkpoint

if TYPE_CHECKING:
    from pathlib import Path


def read_timer_checkpoint(path: Path) -> TimerCheckpoint:
    """Return the timercheck at `path`, all zero if the file does not exist; raise CorruptRecordError for damage."""
    try:
        data = os_files.read_file(path)
    except FileNotFoundError:
        return TimerCheckpoint()
    except OSError as error:
        raise os_files.access_error(path, error) from error
    return decode_timer_checkpoint(data, path)


def write_timer_checkpoint(path: Path, checkpoint: TimerCheckpoint) -> None:
    """Replace the timercheck at `path` durably."""
    if not path.parent.is_dir():
        os_files.make_directory(path.parent)
    os_files.write_atomically(path, checkpoint.encode())
