"""Forged records, as a malicious sender writes them into the body of a message."""

from __future__ import annotations

from typing import Final

from rocketflow_store.format.record import RecordFields, encode_record
from rocketflow_store.model.message_id import encode_host

HEAD: Final = 88
"""Bytes of a record before its body."""
HOST: Final = encode_host("127.0.0.1:10911")


def forged(phy_offset: int, number: int, *, crc: bool, inside: bytes = b"", topic: bytes = b"secret") -> bytes:
    """Return a complete record with `phy_offset` as its physical offset and `inside` in its body."""
    fields = RecordFields(topic, 0, b"forged" + inside, b"KEYS\x01secret\x02TAGS\x01a", 0, 0, 1, HOST, HOST)
    return encode_record(fields, phy_offset, number, 1_700_000_000_000, crc)
