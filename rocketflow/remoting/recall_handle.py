"""Handles by which a producer recalls a timer message that it has sent.

RocketMQ's source: common/producer/RecallMessageHandle.java.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final, NamedTuple

from rocketflow.remoting.errors import HeaderError

_VERSION: Final = "v1"
_PARTS: Final = 5


class RecallHandle(NamedTuple):
    """A timer message: its topic, its broker, the time (ms) at which it is due, and its UNIQ_KEY."""

    topic: str
    broker_name: str
    deliver_ms: int
    uniq_key: str

    def encode(self) -> str:
        """Return the handle as the text that clients keep."""
        plain = " ".join((_VERSION, self.topic, self.broker_name, str(self.deliver_ms), self.uniq_key))
        return base64.urlsafe_b64encode(plain.encode()).decode()


def decode_recall_handle(text: str) -> RecallHandle:
    """Return the handle that a text encodes. Raises HeaderError if it encodes none."""
    try:
        parts = base64.b64decode(text, altchars=b"-_", validate=True).decode().split(" ")
        is_complete = len(parts) == _PARTS and parts[0] == _VERSION and all(one.isprintable() for one in parts)
        if is_complete and parts[3].isascii() and parts[3].isdigit():
            return RecallHandle(parts[1], parts[2], int(parts[3]), parts[4])
    except (binascii.Error, ValueError):
        pass
    raise HeaderError("recall handle is invalid")
