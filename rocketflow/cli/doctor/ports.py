"""Ports that servers can listen on: of the loopback address, which Spark's driver needs, and those of RocketMQ."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

LOOPBACK: Final = "127.0.0.1"
ROCKETMQ_PORTS: Final = {9876: "NameServer", 10909: "broker, fast", 10911: "broker", 10912: "broker, HA"}
"""RocketMQ's default ports (`listenPort`; the broker's fast port is two less, its HA port one more)."""


def why_not_bound(port: int = 0, address: str = LOOPBACK) -> OSError | None:
    """Return the error of listening at a port, 0 for any port, or None if it is free."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((address, port))
            listening.listen(1)
        except OSError as error:
            return error
    return None


def ports_in_use(ports: Iterable[int], address: str = LOOPBACK) -> list[int]:
    """Return those of `ports` that another process listens on."""
    found = ((port, why_not_bound(port, address)) for port in ports)
    return [port for port, error in found if error is not None and error.errno == errno.EADDRINUSE]
