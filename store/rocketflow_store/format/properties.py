"""A record's property string: `name 0x01 value 0x02` repeated, UTF-8.

The order of written properties: the caller's properties as given, then KEYS, TAGS, DELAY, TIMER_DELIVER_MS, REAL_TOPIC,
REAL_QID, TIMER_OUT_MS, UNIQ_KEY (each only if present and not already among the caller's). Every pair ends in 0x02;
readers also accept a missing last one (4.9.3-4.9.8, 5.0, 5.1 omit it). There is no escaping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow_store.model.java_compat import java_bytes, java_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocketflow_store.model.message import Message

MAX_PROPERTIES_SIZE: Final = 32767


def property_text(properties: Mapping[str, str]) -> str:
    """Return a property string in iteration order, as readers decode it: half of a surrogate pair becomes "?".

    Raises ValueError if no reader would return one: a name is empty, or a separator is in a name or a value; TypeError
    if one is no str.
    """
    text = "".join(["\x01".join(pair) + "\x02" for pair in properties.items()])
    count = len(properties)
    if text.count("\x01") != count or text.count("\x02") != count or "" in properties:
        wrong = next(
            name for name, value in properties.items() if not name or any(one in name + value for one in "\x01\x02")
        )
        raise ValueError(
            f"property {wrong[:64]!r} has an empty name, or its name or value holds a separator (0x01 or 0x02)"
        )
    return text if text.isascii() else java_text(java_bytes(text))


def message_property_text(message: Message) -> str:
    """Return the property string of a message. Raises as `property_text`."""
    tags = message.tags
    if (
        message.properties
        or message.keys
        or message.sharding_key
        or message.is_delayed
        or "\x01" in tags
        or "\x02" in tags
        or not tags.isascii()
    ):
        return property_text(message.wire_properties())
    uniq_key = f"UNIQ_KEY\x01{message.uniq_key}\x02" if message.uniq_key else ""
    return f"TAGS\x01{tags}\x02{uniq_key}" if tags else uniq_key  # most messages, at a third of the time


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Encode `properties` as UTF-8. Raises as `property_text`."""
    return property_text(properties).encode()


def decode_properties(raw: bytes | bytearray | memoryview) -> dict[str, str]:
    """Decode all pairs of a property string; later duplicates win, segments without a name or a value are ignored."""
    text = java_text(raw)
    out: dict[str, str] = {}
    for segment in text.split("\x02"):
        at = segment.find("\x01")
        if len(segment) >= 3 and 0 < at < len(segment) - 1:
            out[segment[:at]] = segment[at + 1 :]
    return out
