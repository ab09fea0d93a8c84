"""Ports for servers that tests start."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from rocketflow.testing.errors import ServerStartError

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port(near: tuple[int, ...] = ()) -> int:
    """Return a port of 127.0.0.1 that is free, as are its neighbours at the given distances.

    The port lies below the ephemeral range, so that the system does not assign it to a client connection of another
    test before the server binds it. Raises ServerStartError if none is found.
    """
    below = int(_EPHEMERAL.read_text().split()[0]) if _EPHEMERAL.exists() else 32768
    random_source = random.SystemRandom()
    for _ in range(100):
        port = random_source.randrange(below // 2, below - 8) if below > 4096 else 0
        try:
            with socket.socket() as first:
                first.bind(("127.0.0.1", port))
                port = int(first.getsockname()[1])
                for distance in near:
                    with socket.socket() as other:
                        other.bind(("127.0.0.1", port + distance))
        except OSError:
            continue
        return port
    raise ServerStartError("127.0.0.1 has no free ports for a server: stop processes that listen there")
