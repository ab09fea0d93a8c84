"""Kill points for strace: every call of a process that changes the disk, or uses a connection, one by one.

strace counts each kind of call of each thread separately, so a point is (call, n), and a sweep runs all pairs:
`inject=A,B:when=2` would never reach the second A if a B comes first.
"""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

CALLS = (
    "openat,write,pwrite64,msync,fdatasync,fsync,fallocate,ftruncate,rename,renameat2,link,unlink,unlinkat,mkdir,rmdir"
)
NETWORK_CALLS = "connect,write,writev,sendto,sendmsg,read,recvfrom,recvmsg,shutdown,close"
_BY_PATH = ("openat", "rename", "renameat2", "link", "unlink", "mkdir", "rmdir")
_LINE = re.compile(r"(\d+) +(\w+)\((.*)")

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


@dataclass(frozen=True)
class KillPoint:
    """The point just before the `nth` time that a thread makes this call."""

    call: str
    nth: int

    def arguments(self) -> list[str]:
        """Return the strace options that kill at this point."""
        return ["-e", f"trace={self.call}", "-e", f"inject={self.call}:signal=SIGKILL:when={self.nth}"]


def kill_points(log: Path, below: Path) -> list[KillPoint]:
    """Return the kill points of a traced run, in order: disk changes, with a path only those in `below`."""

    def changes(call: str, arguments: str) -> bool:
        if call in _BY_PATH and str(below) not in arguments:
            return False
        return call != "openat" or "O_CREAT" in arguments

    return _points(log, changes)


def network_points(log: Path) -> list[KillPoint]:
    """Return the kill points of a run that was traced with `-yy`, in order: the calls of TCP connections."""
    return _points(log, lambda call, arguments: re.match(r"\d+<(TCP|socket)", arguments) is not None)


def _points(log: Path, wanted: Callable[[str, str], bool]) -> list[KillPoint]:
    counts: Counter[tuple[str, str]] = Counter()
    found: dict[KillPoint, None] = {}
    for line in log.read_text("utf-8", "replace").splitlines():
        matched = _LINE.match(line)
        if matched is None:
            continue
        thread, call, arguments = matched.groups()
        counts[thread, call] += 1
        if wanted(call, arguments):
            found[KillPoint(call, counts[thread, call])] = None
    return list(found)


def spread(points: Sequence[KillPoint], count: int, seed: int) -> list[KillPoint]:
    """Return `count` points, a random one from each of as many equal parts of the run."""
    return [stretch[0] for stretch in stretches(points, count, seed)]


def stretches(points: Sequence[KillPoint], count: int, seed: int) -> list[list[KillPoint]]:
    """Divide the run into `count` equal parts, each with its points in random order: unreached ones are replaced."""
    rng = random.Random(seed)
    count = min(count, len(points))
    edges = [len(points) * index // count for index in range(count + 1)]
    return [rng.sample(points[low:high], high - low) for low, high in pairwise(edges)]
