"""Messages with a property that is the broker's, as a client sends them to it."""

from __future__ import annotations

import time
from typing import Final

KINDS: Final = ("usual", "timed", "half")
_AS_USUAL: Final = {
    "DELAY": "0",
    "TIMER_DELIVER_MS": "1",
    "TIMER_DELAY_SEC": "-1",
    "TIMER_DELAY_MS": "-1",
    "TRAN_MSG": "false",
}
"""Values with which a message stays as usual."""
_OF_KIND: Final = {
    "usual": {},
    "timed": {"TIMER_DELAY_SEC": "100"},
    "half": {"TRAN_MSG": "true", "PGROUP": "p"},
}
_VALUES: Final = {
    "DELAY": "1",
    "TIMER_DELAY_SEC": "50",
    "TIMER_DELAY_MS": "50000",
    "TIMER_DELIVER_MS": str(int(time.time() * 1000) + 50_000),
    "INNER_NUM": "2",
    "TRAN_MSG": "true",
}


def sent_properties(kind: str, name: str) -> tuple[dict[str, str], str]:
    """Return the properties of a message of a kind with one more property, and its value."""
    value = _VALUES.get(name, "7")
    if kind == "usual" or (kind == "timed" and name == "TRAN_MSG"):
        value = _AS_USUAL.get(name, value)
    return {"UNIQ_KEY": "k", **_OF_KIND[kind], name: value}, value
