"""Ids that clients make: of clients and of messages.

RocketMQ's source: common/message/MessageClientIDSetter.java, client/ClientConfig.java (buildMQClientId).
"""

from __future__ import annotations

import os
import socket
import time
from functools import cache

from rocketflow_store.spi.ids import UniqKeyGenerator


def local_address() -> str:
    """Return an IPv4 address of this host, without a request to any server."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))  # documentation address: the route is chosen, nothing is sent
            return str(one.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def make_client_id(instance_name: str = "", unit_name: str = "") -> str:
    """Return `address@instance[@unit]`; without an instance name it is one of this process and moment."""
    name = instance_name or f"{os.getpid()}#{time.monotonic_ns()}"
    return f"{local_address()}@{name}" + (f"@{unit_name}" if unit_name else "")


@cache
def unique_keys() -> UniqKeyGenerator:
    """Return the generator of this process's message keys; mqadmin reads from a key when and where it was made."""
    return UniqKeyGenerator(local_address())
