"""Addresses of servers as they are written in options: `host:port`."""

from __future__ import annotations

import re
from typing import Final

_ADDRESS: Final = re.compile(r"[\w.\-\[\]:%]+:([0-9]{1,5})")
_PORTS: Final = range(1, 65_536)


def is_address(text: str) -> bool:
    """Return whether a text is `host:port`; the host is a name, an IPv4 or an IPv6 address."""
    found = _ADDRESS.fullmatch(text)
    return found is not None and int(found[1]) in _PORTS
