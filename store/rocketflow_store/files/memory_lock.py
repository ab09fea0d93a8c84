"""Memory that the system must not take away: mlock, as far as the system allows it.

Allowed is what RLIMIT_MEMLOCK leaves, or anything with CAP_IPC_LOCK. A refusal is no error: the memory is usable, and
may be swapped out.
"""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mlock.argtypes = _LIBC.munlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def lock(memory: mmap.mmap) -> bool:
    """Have every page of `memory` in RAM and keep it there; whether the system agreed."""
    return int(_LIBC.mlock(*_extent(memory))) == 0


def unlock(memory: mmap.mmap) -> None:
    """Leave the pages of `memory` to the system again."""
    _LIBC.munlock(*_extent(memory))


def _extent(memory: mmap.mmap) -> tuple[int, int]:
    octets = np.frombuffer(memory, np.uint8)
    return octets.ctypes.data, len(octets)
