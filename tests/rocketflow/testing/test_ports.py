"""Ports for servers: a number that was given away is not given again before its server binds it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rocketflow.testing import ports
from rocketflow.testing.ports import free_port

AGAIN = """
import sys
from rocketflow.testing import ports
ports.random.SystemRandom = lambda: type("Fixed", (), {"randrange": lambda self, *_: given.pop(0)})()
given = [int(one) for one in sys.argv[1:]]
print(ports.free_port())
"""


class Fixed:
    """A source of given numbers."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = list(numbers)

    def randrange(self, *_: int) -> int:
        """Return the next number."""
        return self.numbers.pop(0)


def test_port_that_another_process_looks_for_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port((1,))
    done = subprocess.run(
        [sys.executable, "-c", AGAIN, str(port), str(port + 1), "0"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert int(done.stdout) not in (port, port + 1)
    monkeypatch.setattr(ports.random, "SystemRandom", lambda: Fixed(port, port + 1, 0))
    assert free_port() not in (port, port + 1)
