"""Ids that clients make: of clients and of messages.

RocketMQ's source: common/message/MessageClientIDSetter.java, client/ClientConfig.java (buildMQClientId).
"""

from __future__ import annotations

import itertools
import os
import socket
import time
from datetime import datetime
from typing import Final

_COUNTS: Final = itertools.cycle(map("".join, itertools.product("0123456789ABCDEF", repeat=4)))
"""The last digits of keys, in turn; the next one is taken at once, whatever thread asks."""


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


class UniqueKeys:
    """Makes the keys of a process's messages: 32 hexadecimal digits.

    Address (4 bytes), process id (2), a number of this process (4), milliseconds since the month began (4), counter
    (2): mqadmin reads from a key when the message was sent. The key of one moment repeats after 65,536 messages.
    """

    def __init__(self) -> None:
        process = (os.getpid() & 0xFFFF).to_bytes(2, "big")
        self._prefix = (socket.inet_aton(local_address()) + process + os.urandom(4)).hex().upper()
        self._month_ends = 0.0
        self._month_began = 0.0

    def next(self) -> str:
        """Return the next key."""
        return self._begin() + next(_COUNTS)

    def take(self, count: int) -> list[str]:
        """Return the next keys."""
        begin = self._begin()
        return [begin + one for one in itertools.islice(_COUNTS, count)]

    def _begin(self) -> str:
        """Return the key of this moment without its counter."""
        now = time.time()
        if now >= self._month_ends or now < self._month_began:
            self._set_month(now)
        return self._prefix + "%08X" % (int((now - self._month_began) * 1000) & 0xFFFFFFFF)

    def _set_month(self, now: float) -> None:
        here = datetime.fromtimestamp(now)  # noqa: DTZ006 Java's clients count in the month of the local time
        first = here.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        after = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
        self._month_began, self._month_ends = first.timestamp(), after.timestamp()
