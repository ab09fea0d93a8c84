"""Differences between what Apache's broker and RocketFlow's say to the same client, each with its reason.

A key is a pattern (`*` for any text) of facts as `tests.apache.recorder.facts_of` writes them.
"""

from __future__ import annotations

from typing import Final

_RACE: Final = "Depends on which of two requests of the client comes first."
_EMPTY: Final = (
    "Apache's broker makes the files of a queue when it is first read, RocketFlow's when it is first written."
)
_ROLLBACK: Final = "Apache's broker leaves its initial remark in the answer to a rollback; Go's client reads no answer."
_COPY: Final = (
    "Apache's broker sets WAIT=false in its copies of half messages. Java's producer sets WAIT, Go's does not."
)

OF_APACHE: Final = {
    "34 -> 0 field IS_SU*": "Heartbeats without subscriptions are not offered: clients send them with every heartbeat.",
    "11 -> 19 remark NO_MESSAGE_IN_QUEUE": _EMPTY,
    "11 -> 25*": _RACE,
    "37 -> 0 remark not set any response code": _ROLLBACK,
    "broker 39 record of a topic has WAIT": _COPY,
}
"""What Apache's broker or NameServer alone says."""

OF_ROCKETFLOW: Final = {
    "* record of * has __CRC32#": "A record has a CRC; with Apache's broker only if appendPropCRC is set.",
    "11 -> 19 remark NO_MATCHED_LOGIC_QUEUE": _EMPTY,
    "11 -> 25*": _RACE,
}
"""What RocketFlow's broker or NameServer alone says."""
