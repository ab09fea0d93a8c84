"""One decision about each half message, whichever of its copies a producer names, without I/O.

A half message that is asked about is copied to the end of its queue, and its producer may still answer an earlier
question. All copies belong to one chain: the first half offset, which each copy of RocketFlow's names in a property; a
copy that RocketMQ made names none, and is known by its UNIQ_KEY.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocketflow.broker.transactions.messages import Half

Chain = int | str

MAX_COPIES: Final = 500_000
"""Undecided messages whose newest copy is known; of the oldest others only the newest copy can be ended."""
MAX_ENDED: Final = 100_000
"""Ended chains whose end is remembered, so that it may be repeated."""


class Decisions:
    """Newest copies of undecided half messages, ends of the last decided ones, and half offsets that are being written.

    A copy is forgotten with its end; later requests find that the walk has passed the half message.
    """

    def __init__(self, max_copies: int = MAX_COPIES, max_ended: int = MAX_ENDED) -> None:
        self._max_copies = max_copies
        self._max_ended = max_ended
        self._copies: OrderedDict[Chain, int] = OrderedDict()
        self._ended: OrderedDict[Chain, bool] = OrderedDict()
        self._held: dict[int, list[Callable[[], None]]] = {}

    def newest(self, half: Half, *, by_key: bool) -> int | None:
        """Return the half offset of the undecided copy of a half message; None if there is none.

        `by_key` also finds the copy that RocketMQ made of it.
        """
        found = self._copies.get(half.chain)
        return self._copies.get(half.uniq_key) if found is None and by_key and half.uniq_key else found

    def copied(self, chain: Chain, half_offset: int) -> None:
        """Take note of the newest copy of a chain."""
        self._copies.pop(chain, None)
        self._copies[chain] = half_offset
        self._ended.pop(chain, None)
        if len(self._copies) > self._max_copies:
            self._copies.popitem(last=False)

    def are_open(self, half_offsets: Sequence[int]) -> bool:
        """Return whether half messages are the first of their chains, and none is copied, ended or held."""
        tables = self._copies, self._ended, self._held
        return all(one.keys().isdisjoint(half_offsets) for one in tables)

    def closed(self, half: Half) -> None:
        """Forget the copy of a half message that is undecided no longer."""
        self._copies.pop(half.chain, None)
        self._copies.pop(half.uniq_key, None)

    def end(self, *chains: Chain, is_commit: bool) -> None:
        """Take note how chains ended."""
        self._ended.update(dict.fromkeys(chains, is_commit))
        while len(self._ended) > self._max_ended:
            self._ended.popitem(last=False)

    def ended(self, half: Half) -> bool | None:
        """Return how a half message ended, True for a commit; None if that is not known."""
        return self._ended.get(half.chain)

    def is_held(self, half_offset: int) -> bool:
        """Return whether a decision or a copy of a half message is being written."""
        return half_offset in self._held

    def hold(self, *half_offsets: int) -> None:
        """Begin to write decisions or copies of half messages."""
        self._held.update((one, []) for one in half_offsets)

    def when_released(self, half_offset: int, call: Callable[[], None]) -> None:
        """Call a function once what is being written of a half message is stored or has failed."""
        self._held[half_offset].append(call)

    def release(self, *half_offsets: int) -> None:
        """End what `hold` began, and call those who wait, in their order."""
        for one in half_offsets:
            for call in self._held.pop(one, ()):
                call()
