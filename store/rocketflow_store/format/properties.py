"""A record's property string: `name 0x01 value 0x02` repeated, UTF-8.

The order of written properties: the caller's properties as given, then KEYS, TAGS, DELAY, TIMER_DELIVER_MS, REAL_TOPIC,
REAL_QID, TIMER_OUT_MS, UNIQ_KEY (each only if present and not already among the caller's). Every pair ends in 0x02;
readers also accept a missing last one (4.9.3-4.9.8, 5.0, 5.1 omit it). There is no escaping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow_store.model.java_compat import java_text

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PROPERTIES_SIZE: Final = 32767


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Encode `properties` in iteration order.

    Raises ValueError if no reader would return one: a name is empty, or a separator is in a name or a value; TypeError
    if one is no str.
    """
    text = "".join(["\x01".join(pair) + "\x02" for pair in properties.items()])
    count = len(properties)
    if text.count("\x01") != count or text.count("\x02") != count or "" in properties:
        raise ValueError("a property has an empty name, or its name or value holds a separator (0x01 or 0x02)")
    return text.encode("utf-8", "replace")  # half of a surrogate pair becomes "?", as in Java


def decode_properties(raw: bytes | bytearray | memoryview) -> dict[str, str]:
    """Decode all pairs of a property string; later duplicates win, segments without a name or a value are ignored."""
    try:
        text = str(raw, "utf-8")
    except UnicodeDecodeError:
        text = java_text(raw)
    out: dict[str, str] = {}
    for segment in text.split("\x02"):
        at = segment.find("\x01")
        if len(segment) >= 3 and 0 < at < len(segment) - 1:
            out[segment[:at]] = segment[at + 1 :]
    return out
