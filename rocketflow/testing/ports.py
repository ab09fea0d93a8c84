"""Ports for servers that tests start."""

from __future__ import annotations

import random
import socket
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from rocketflow.testing.errors import ServerStartError

_EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")

_RESERVED: Final[deque[ExitStack]] = deque(maxlen=64)
"""The UDP ports of the numbers that were returned last: other processes that look for a port pass over them."""


def free_port(near: tuple[int, ...] = ()) -> int:
    """Return a port of 127.0.0.1 that is free, as are its neighbours at the given distances.

    The port lies below the ephemeral range, so that the system does not assign it to a client connection of another
    test before the server binds it, and no other process gets it from this function meanwhile. Raises
    ServerStartError if none is found.
    """
    below = int(_EPHEMERAL.read_text().split()[0]) if _EPHEMERAL.exists() else 32768
    random_source = random.SystemRandom()
    for _ in range(100):
        port = random_source.randrange(below // 2, below - 8) if below > 4096 else 0
        with ExitStack() as reserved:
            try:
                port = _bound(port, reserved)
                for distance in near:
                    _bound(port + distance, reserved)
            except OSError:
                continue
            if len(_RESERVED) == _RESERVED.maxlen:
                _RESERVED[0].close()
            _RESERVED.append(reserved.pop_all())
            return port
    raise ServerStartError("127.0.0.1 has no free ports for a server: stop processes that listen there")


def _bound(port: int, reserved: ExitStack) -> int:
    """Reserve a number by its UDP port, and return it if its TCP port is free; 0 is any. Raises OSError."""
    with socket.socket() as tcp:
        tcp.bind(("127.0.0.1", port))
        port = int(tcp.getsockname()[1])
        reserved.enter_context(socket.socket(type=socket.SOCK_DGRAM)).bind(("127.0.0.1", port))
    return port
