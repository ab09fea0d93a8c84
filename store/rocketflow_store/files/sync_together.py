"""Many syncs at once: a disk flushes its cache once for all that wait for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_AT_ONCE: Final = 16
_TOGETHER_FROM: Final = 8
"""Fewer are done in turn, sooner than threads have begun."""
_TURNS: Final = 4
"""How often a thread comes for more."""


def sync_together(syncs: Sequence[Callable[[], object]]) -> None:
    """Do all of `syncs`, several at a time; where one fails its error is raised once no other is under way."""
    if len(syncs) < _TOGETHER_FROM:
        _in_turn(syncs)
        return
    size = -(-len(syncs) // (_AT_ONCE * _TURNS))
    with ThreadPoolExecutor(_AT_ONCE, "sync") as pool:
        parts = [pool.submit(_in_turn, syncs[at : at + size]) for at in range(0, len(syncs), size)]
    for part in parts:
        part.result()


def _in_turn(syncs: Sequence[Callable[[], object]]) -> None:
    for sync in syncs:
        sync()
