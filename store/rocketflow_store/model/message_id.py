"""Addresses and message ids.

offset message id   hex of: store host ip (4 or 16 bytes), port i32, physical offset i64
UNIQ_KEY            hex of: ip (4 or 16), pid i16, per-process number i32, ms since the month began i32, counter i16

RocketMQ's source: common/message/MessageDecoder.java (createMessageId, decodeMessageId), MessageClientIDSetter.java.
"""

from __future__ import annotations

import ipaddress
import os
import re
import struct
import threading
import time
from functools import lru_cache
from typing import Final

from rocketflow_store.model.errors import InvalidMessageIdError

_PORT: Final = struct.Struct(">i")
_OFFSET: Final = struct.Struct(">q")
_PORT_DIGITS: Final = re.compile("-?[0-9]{1,10}")
"""A Java int: the field of a record must be printed and parsed back, even if it is no valid port."""


@lru_cache(maxsize=4096)
def encode_host(host: str) -> bytes:
    """Encode "1.2.3.4:port" as 8 bytes, "[v6]:port" as 20; raise ValueError for anything else."""
    address, _, port = host.rpartition(":")
    if not _PORT_DIGITS.fullmatch(port) or not -(1 << 31) <= int(port) < 1 << 31:
        raise ValueError(f"{host!r} is not ip:port")
    return ipaddress.ip_address(address.strip("[]")).packed + _PORT.pack(int(port))


@lru_cache(maxsize=4096)
def decode_host(raw: bytes) -> str:
    """Decode 8 bytes as "ip:port", 20 as "[ip]:port"."""
    address = ipaddress.ip_address(raw[:-4])
    port = _PORT.unpack(raw[-4:])[0]
    if isinstance(address, ipaddress.IPv4Address):
        return f"{address}:{port}"
    mapped = address.ipv4_mapped  # Java shows the IPv4 address alone, from which the 16 bytes could not be restored
    return f"[{address}]:{port}" if mapped is None else f"[::ffff:{mapped}]:{port}"


@lru_cache(maxsize=4096)
def host_digits(host: str) -> str:
    """Return the first digits of every offset message id of a host: 16 hex digits (IPv4) or 40 (IPv6)."""
    return encode_host(host).hex().upper()


def offset_msg_id(store_host: str, phy_offset: int) -> str:
    """Return the offset message id: 32 hex digits (IPv4) or 56 (IPv6)."""
    return f"{host_digits(store_host)}{phy_offset & 0xFFFFFFFFFFFFFFFF:016X}"


def decode_offset_msg_id(msg_id: str) -> tuple[str, int]:
    """Return (store host, physical offset) of an offset message id; raise InvalidMessageIdError if it is none."""
    try:
        raw = bytes.fromhex(msg_id)
    except ValueError:
        raw = b""
    if len(raw) * 2 != len(msg_id) or len(raw) not in (16, 28):
        raise InvalidMessageIdError(msg_id)
    return decode_host(raw[:-8]), _OFFSET.unpack(raw[-8:])[0]


class UniqKeyGenerator:
    """Generates UNIQ_KEYs: unique in this process by counter and time, across processes by pid and a random number."""

    def __init__(self, ip: str = "127.0.0.1") -> None:
        self._ip = ipaddress.ip_address(ip).packed
        self._reseed()
        os.register_at_fork(after_in_child=self._reseed)

    def _reseed(self) -> None:
        self._lock = threading.Lock()  # another thread may have held it when this process was forked
        self._prefix = (self._ip + struct.pack(">H", os.getpid() & 0xFFFF) + os.urandom(4)).hex().upper()
        self._last_tick = 0
        self._month_start, self._month_checked_until = 0.0, 0.0

    def reserve(self, count: int) -> tuple[str, int]:
        """Reserve `count` ids; return (prefix of 20 or 44 hex digits, first tick).

        Id k is prefix + f"{first + k:012X}". A tick is the month's milliseconds times 65536 plus the counter: no id is
        reserved twice.
        """
        with self._lock:
            now = time.time()
            if now >= self._month_checked_until:
                self._begin_month(now)
            tick = int((now - self._month_start) * 1000) << 16
            if tick < self._last_tick:
                tick = self._last_tick
            self._last_tick = tick + count
            return self._prefix, tick

    def _begin_month(self, now: float) -> None:
        """Note when the month began: mqadmin reads the time from a key by the time zone of its host."""
        local = time.localtime(now)
        month_start = time.mktime((local.tm_year, local.tm_mon, 1, 0, 0, 0, 0, 0, -1))
        if month_start != self._month_start:
            self._month_start, self._last_tick = month_start, 0
        self._month_checked_until = now + 1

    def next(self) -> str:
        """Return a new UNIQ_KEY."""
        prefix, tick = self.reserve(1)
        return f"{prefix}{tick:012X}"

    def take(self, count: int) -> list[str]:
        """Return new UNIQ_KEYs."""
        prefix, first = self.reserve(count)
        return [f"{prefix}{tick:012X}" for tick in range(first, first + count)]


UNIQ_KEYS: Final = UniqKeyGenerator()
