"""Processes whose clock is shifted by a file, and the store times that their messages got."""

from __future__ import annotations

from pathlib import Path

from rocketflow_store import StoreReader
from tests.support.independent_reader import log_records

SITE = """
import os, time
_time, _time_ns = time.time, time.time_ns
def _offset():
    try:
        with open(os.environ["RF_CLOCK"]) as offset:
            return float(offset.read() or 0)
    except OSError:
        return 0.0
time.time = lambda: _time() + _offset()
time.time_ns = lambda: _time_ns() + int(_offset() * 1e9)
"""
"""A sitecustomize module: the clock of its process is ahead by the seconds in the file that RF_CLOCK names."""


def store_timestamps(store: Path) -> list[int]:
    """Return the store times of all records, in the order of the log."""
    found = []
    with StoreReader(store) as reader:
        for record in log_records(store):
            message = reader.look_message_by_offset(record.phy_offset)
            assert message is not None
            found.append(message.store_timestamp)
    return found
