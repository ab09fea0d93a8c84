"""Messages to send, and their form on the wire: property strings and the bodies of batches, without I/O.

RocketMQ's source: common/message/Message.java, MessageConst.java, MessageDecoder.java (messageProperties2String,
encodeMessages).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

_ENTRY: Final = struct.Struct(">iiiii")
_SIZE: Final = struct.Struct(">H")
_MAX_PROPERTIES: Final = 32_767


@dataclass(slots=True)
class Message:
    """A message to send.

    `keys` are the words under which the index lists it, `sharding_key` is the text by which `by_sharding_key` chooses
    its queue. It is delivered later by `delay_level` (from 1 on, one of the broker's `messageDelayLevel`; a level after
    the last one is the last one), `delay_s` or `delay_ms` after it was stored, or at `deliver_at_ms` (milliseconds
    since 1970): no more than one of the four is set. A producer sets `unique_key` (UNIQ_KEY) when it first sends the
    message and keeps it when it is sent again.
    """

    topic: str
    body: bytes
    tags: str = ""
    keys: str | Sequence[str] = ()
    sharding_key: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    flag: int = 0
    delay_level: int = 0
    delay_s: int = 0
    delay_ms: int = 0
    deliver_at_ms: int = 0
    unique_key: str = ""

    @property
    def is_delayed(self) -> bool:
        """Return whether the message is delivered later than it is stored."""
        return bool(self.delay_level or self.delay_s or self.delay_ms or self.deliver_at_ms)

    def wire_properties(self) -> dict[str, str]:
        """Return all properties, those of the attributes under RocketMQ's names."""
        found = dict(self.properties)
        if self.tags:
            found["TAGS"] = self.tags
        if self.keys:
            found["KEYS"] = self.keys if isinstance(self.keys, str) else " ".join(self.keys)
        if self.sharding_key:
            found["__SHARDINGKEY"] = self.sharding_key
        if self.is_delayed:
            found |= self._delay()
        if self.unique_key:
            found["UNIQ_KEY"] = self.unique_key
        return found

    def property_text(self) -> str:
        """Return the property string. Raises ValueError as the function `property_text` does."""
        tags = self.tags
        if self.properties or self.keys or self.sharding_key or self.is_delayed or "\x01" in tags or "\x02" in tags:
            return property_text(self.wire_properties())
        unique_key = f"UNIQ_KEY\x01{self.unique_key}\x02" if self.unique_key else ""
        return f"TAGS\x01{tags}\x02{unique_key}" if tags else unique_key  # most messages, at a third of the time

    def _delay(self) -> dict[str, str]:
        values = {
            "DELAY": self.delay_level,
            "TIMER_DELAY_SEC": self.delay_s,
            "TIMER_DELAY_MS": self.delay_ms,
            "TIMER_DELIVER_MS": self.deliver_at_ms,
        }
        return {name: str(value) for name, value in values.items() if value}


def property_text(properties: Mapping[str, str]) -> str:
    """Return a property string. Raises ValueError for names and values with separators, and above 32,767 bytes."""
    text = "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])
    count = len(properties)
    if text.count("\x01") != count or text.count("\x02") != count or "" in properties:
        _raise_separator(properties)
    if len(text) * 4 > _MAX_PROPERTIES and (size := len(text.encode())) > _MAX_PROPERTIES:
        raise ValueError(f"properties have {size} bytes, at most {_MAX_PROPERTIES} are allowed")
    return text


def batch_body(messages: Iterable[Message]) -> bytes:
    """Encode messages as the body of a batch. Raises ValueError as `property_text` does."""
    parts: list[bytes] = []
    pack, pack_size = _ENTRY.pack, _SIZE.pack
    for message in messages:
        properties = message.property_text().encode()
        body, size = message.body, len(properties)
        length = len(body)
        parts += pack(22 + length + size, 0, 0, message.flag, length), body, pack_size(size), properties
    return b"".join(parts)


def _raise_separator(properties: Mapping[str, str]) -> None:
    wrong = next(
        name
        for name, value in properties.items()
        if not name or any(mark in text for mark in "\x01\x02" for text in (name, value))
    )
    raise ValueError(f"property {wrong!r}: names must not be empty, names and values not contain the bytes 1 and 2")
