"""The policy of a reader for bodies that it cannot decode.

A broker stores what a client sends and does not look into it: a body may have a compressed flag and be something else.
"""

from __future__ import annotations

from enum import Enum


class OnBadBody(Enum):
    """A policy of a reader for messages whose body cannot be decoded; the values are those of its option."""

    FAIL = "fail"
    """Raise DamagedBodyError, which names the message and the option."""
    RAW = "raw"
    """Return the message with the body as it is stored; `bodyError` says why."""
    QUARANTINE = "quarantine"
    """Skip the message, and report its place and the cause."""
