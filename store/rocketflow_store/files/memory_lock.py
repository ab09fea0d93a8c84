"""Memory that the system must not swap out: mlock, if the system allows it.

RLIMIT_MEMLOCK sets the allowed size; with CAP_IPC_LOCK there is no limit. A refusal is no error: the memory is usable,
and may be swapped out.
"""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mlock.argtypes = _LIBC.munlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def lock(memory: mmap.mmap) -> bool:
    """Load every page of `memory` into RAM and lock it there; return True if the system allowed it."""
    return int(_LIBC.mlock(*_extent(memory))) == 0


def unlock(memory: mmap.mmap) -> None:
    """Unlock the pages of `memory`."""
    _LIBC.munlock(*_extent(memory))


def _extent(memory: mmap.mmap) -> tuple[int, int]:
    octets = np.frombuffer(memory, np.uint8)
    return octets.ctypes.data, len(octets)
