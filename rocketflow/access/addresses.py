"""Patterns of addresses: `10.1.2.3`, lists, `10.1.2.{3,4}`, `10.1.2.*`, `10.1.2.1-20`, and the same for IPv6.

RocketMQ's source: acl/plain/RemoteAddressStrategyFactory.java, acl/common/AclUtils.java. Two patterns are read more
narrowly than there: each part after a range counts, and `::` before a range stands for zeros only.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import Final, NamedTuple

Host = ipaddress.IPv4Address | ipaddress.IPv6Address

_EVERY: Final = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})
_LIST: Final = re.compile(r"(?P<head>[^{}]*[.:])\{(?P<values>[^{}]*)\}\Z")
_DECIMAL: Final = re.compile(r"[0-9]{1,3}\Z")
_HEXADECIMAL: Final = re.compile(r"[0-9a-fA-F]{1,4}\Z")
_MOST_ADDRESSES: Final = 1_000
_V4_PARTS: Final = 4
_V6_PARTS: Final = 8


class AddressPattern(NamedTuple):
    """Addresses whose parts (4 of IPv4, 8 of IPv6) lie in ranges, both ends included; without ranges, every address."""

    ranges: tuple[tuple[int, int], ...]

    def matches(self, host: Host | None) -> bool:
        """Return whether the pattern has an address; one that is not known is only in the pattern of all."""
        if not self.ranges:
            return True
        if host is None:
            return False
        parts = _parts(host)
        return len(parts) == len(self.ranges) and all(
            low <= one <= high for one, (low, high) in zip(parts, self.ranges)
        )


def parse_addresses(text: str) -> tuple[AddressPattern, ...]:
    """Return the patterns that a text names, none for a blank one. Raises ValueError, which names the text."""
    text = text.strip()
    if not text:
        return ()
    if text in _EVERY:
        return (AddressPattern(()),)
    found = _LIST.match(text)
    if found is not None:
        texts = [f"{found['head']}{one.strip()}" for one in found["values"].split(",")]
    else:
        texts = [one.strip() for one in text.split(",")]
    if len(texts) > _MOST_ADDRESSES:
        raise ValueError(f"{text[:100]!r} has {len(texts)} addresses, at most {_MOST_ADDRESSES} are allowed")
    try:
        return tuple(_one(one) for one in texts)
    except ValueError:
        raise ValueError(
            f"{text[:100]!r} is no address or pattern such as 10.1.2.3, 10.1.2.*, 10.1.2.1-20 or 10.1.2.{{3,4}}"
        ) from None


@lru_cache(maxsize=4_096)
def host_of(address: str) -> Host | None:
    """Return the host of `host:port` (IPv6 in brackets), None if it is no address; IPv4 in IPv6 becomes IPv4."""
    try:
        found = ipaddress.ip_address(address.rpartition(":")[0].strip("[]"))
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def _parts(host: Host) -> tuple[int, ...]:
    packed = host.packed
    if len(packed) == _V4_PARTS:
        return tuple(packed)
    return tuple(int.from_bytes(packed[at : at + 2], "big") for at in range(0, len(packed), 2))


def _one(text: str) -> AddressPattern:
    """Return the pattern of one address, with or without ranges. Raises ValueError."""
    if "*" not in text and "-" not in text:
        return AddressPattern(tuple((one, one) for one in _parts(ipaddress.ip_address(text))))
    if ":" not in text:
        parts = text.split(".")
        if len(parts) != _V4_PARTS:
            raise ValueError(text)
        return AddressPattern(tuple(_range(one, _DECIMAL, 10, 255) for one in parts))
    parts = text.split(":")
    begin = next(at for at, one in enumerate(parts) if "*" in one or "-" in one)
    head, tail = ":".join(parts[:begin]), parts[begin:]
    ranges = tuple(_range(one, _HEXADECIMAL, 16, 0xFFFF) for one in tail)
    return AddressPattern((*((one, one) for one in _head(head, _V6_PARTS - len(tail))), *ranges))


def _head(text: str, count: int) -> tuple[int, ...]:
    """Return the first `count` parts of an IPv6 address, in which `::` stands for zeros. Raises ValueError."""
    first, double, last = (f"{text}:" if text.endswith(":") else text).partition("::")
    before = first.split(":") if first else []
    after = last.split(":") if last else []
    missing = count - len(before) - len(after)
    if missing < (1 if double else 0) or (missing and not double):
        raise ValueError(text)
    parts = [*before, *["0"] * missing, *after]
    return tuple(_range(one, _HEXADECIMAL, 16, 0xFFFF)[0] for one in parts)


def _range(text: str, number: re.Pattern[str], base: int, highest: int) -> tuple[int, int]:
    """Return the range of a part: a number, `*`, or two numbers. Raises ValueError."""
    if text == "*":
        return 0, highest
    ends = text.split("-")
    if len(ends) > 2 or not all(number.match(one) for one in ends):
        raise ValueError(text)
    low, high = int(ends[0], base), int(ends[-1], base)
    if not low <= high <= highest:
        raise ValueError(text)
    return low, high
