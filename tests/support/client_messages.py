"""Messages with a property that is the broker's, as a client sends them to it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from rocketflow.broker.puts.client_properties import Fate

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


def fate_of(name: str, value: str, kept: Mapping[str, str] | None) -> Fate:
    """Return what became of a property that was sent with a value; `kept` are those stored, None for a refusal."""
    if kept is None:
        return Fate.REFUSED
    if name not in kept:
        return Fate.DROPPED
    return Fate.KEPT if kept[name] == value else Fate.SET
