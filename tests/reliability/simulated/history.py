"""Sends and calls of listeners in a simulated cluster, in the order of time, and what must hold for them."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from rocketflow.remoting.bodies import MessageQueue


class Place(NamedTuple):
    """A queue, and the offset of a message there."""

    queue: MessageQueue
    offset: int


@dataclass
class Call:
    """A call of a listener."""

    consumer: str
    body: str
    place: Place
    began: float
    ended: float | None = None
    succeeded: bool = False


class History:
    """Sends, their outcome, and calls of listeners."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._sent: set[str] = set()
        self._places: dict[str, Place] = {}
        self._waiting: list[asyncio.Future[Place]] = []
        self._committed: set[str] = set()
        self._rolled_back: set[str] = set()
        self.calls: list[Call] = []
        self.events: list[str] = []
        self.failures: Counter[str] = Counter()

    def note(self, event: str) -> None:
        """Note an event."""
        self.events.append(f"{self._now():.6f} {event}")

    def sends(self, body: str) -> None:
        """Note that a message is sent."""
        self._sent.add(body)

    def stored(self, body: str, place: Place) -> None:
        """Note that a broker has acknowledged a message."""
        self._places[body] = place
        self.note(f"stored {body} at {place}")
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.set_result(place)

    async def next_stored(self) -> Place:
        """Wait for the next acknowledgement, and return the place of its message."""
        self._waiting.append(asyncio.get_running_loop().create_future())
        return await self._waiting[-1]

    def decided(self, body: str, *, commits: bool) -> None:
        """Note how a transaction ends whose half message a broker has acknowledged."""
        (self._committed if commits else self._rolled_back).add(body)
        self.note(f"half message {body} commits: {commits}")

    def failed(self, body: str, error: Exception) -> None:
        """Note that a send has failed: the message may be stored or not."""
        self.failures[type(error).__name__] += 1
        self.note(f"failed {body}: {error}")

    def killed(self, name: str) -> None:
        """Note a kill."""
        self.note(f"killed {name}")

    def begins(self, consumer: str, body: str, place: Place) -> Call:
        """Note that a listener is called."""
        call = Call(consumer, body, place, self._now())
        self.calls.append(call)
        self.note(f"{consumer} gets {body} of {place}")
        return call

    def ends(self, call: Call, *, succeeded: bool) -> None:
        """Note the end of a call; a message that did not succeed has to come again."""
        call.ended, call.succeeded = self._now(), succeeded

    @property
    def acknowledged(self) -> int:
        """Return the number of messages that are stored for certain."""
        return len(self._places)

    def missing(self) -> set[str]:
        """Return the acknowledged messages that no listener has consumed with success."""
        return (self._places.keys() | self._committed) - {call.body for call in self.calls if call.succeeded}

    def repeated(self) -> int:
        """Return how many calls had a message again, although no call for it was without success before."""
        refused = sum(call.ended is not None and not call.succeeded for call in self.calls)
        return len(self.calls) - len({call.body for call in self.calls}) - refused

    def not_stored(self, messages: Mapping[Place, str]) -> set[str]:
        """Return what was acknowledged and is not in the stores, whose messages are given, at its place."""
        misplaced = {body for body, place in self._places.items() if messages.get(place) != body}
        return misplaced | (self._committed - set(messages.values()))

    def never_sent(self, messages: Mapping[Place, str]) -> set[str]:
        """Return what is in the stores, or was consumed, and was never sent or was rolled back."""
        found = set(messages.values()) | {call.body for call in self.calls}
        return found - self._sent | (self._rolled_back & found)

    def otherwise_consumed(self, messages: Mapping[Place, str]) -> list[Call]:
        """Return the calls that got another message than the one at their place."""
        return [call for call in self.calls if call.place in messages and messages[call.place] != call.body]

    def overlapping(self, lock_s: float) -> list[tuple[Call, Call]]:
        """Return pairs of calls for one queue, of which the second began before the first had ended.

        No lock protects a call that lasts longer than `lock_s`, as that of a suspended process does.
        """
        found = []
        by_queue: dict[MessageQueue, list[Call]] = defaultdict(list)
        for call in self.calls:
            by_queue[call.place.queue].append(call)
        for calls in by_queue.values():
            for one, other in pairwise(calls):
                if one.ended is not None and other.began < min(one.ended, one.began + lock_s):
                    found.append((one, other))
        return found

    def disordered(self) -> list[tuple[Call, Call]]:
        """Return pairs of calls of which the second is the first one for a message that was stored before the first."""
        found = []
        last: dict[MessageQueue, Call] = {}
        seen: set[Place] = set()
        for call in self.calls:
            before = last.get(call.place.queue)
            if before is None or call.place.offset > before.place.offset:
                last[call.place.queue] = call
            elif call.place not in seen:
                found.append((before, call))
            seen.add(call.place)
        return found
