"""Many syncs at once: a disk flushes its cache once for all that wait for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_AT_ONCE: Final = 16
_TOGETHER_FROM: Final = 8
"""Fewer are done in sequence, which is faster than starting threads."""
_TURNS: Final = 4
"""The number of parts that each thread gets."""


def sync_together(syncs: Sequence[Callable[[], object]]) -> None:
    """Run all of `syncs`, several at a time; if one fails, raise its error once no other is running."""
    if len(syncs) < _TOGETHER_FROM:
        _in_turn(syncs)
        return
    size = -(-len(syncs) // (_AT_ONCE * _TURNS))
    under_way = []
    with ThreadPoolExecutor(_AT_ONCE, "sync") as pool:
        for at in range(0, len(syncs), size):
            part = syncs[at : at + size]
            try:
                under_way.append(pool.submit(_in_turn, part))
            except RuntimeError:  # no thread can be started: a limit of the system, or the interpreter is about to end
                _in_turn(part)
    for one in under_way:
        one.result()


def _in_turn(syncs: Sequence[Callable[[], object]]) -> None:
    for sync in syncs:
        sync()
