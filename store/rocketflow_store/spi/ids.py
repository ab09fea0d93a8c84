"""Ids of messages and of places in a log, hosts, and Java's hash: the standard library alone."""

from __future__ import annotations

from rocketflow_store.model.java_compat import string_hash
from rocketflow_store.model.message_id import UniqKeyGenerator, decode_offset_msg_id, encode_host

__all__ = [
    "UniqKeyGenerator",
    "decode_offset_msg_id",
    "encode_host",
    "string_hash",
]
