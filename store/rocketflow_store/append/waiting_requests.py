"""Requests that callers handed over and nobody has appended yet: a bounded queue, taken in runs."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.append.record_run import MAX_RUN_BYTES, MAX_RUN_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from rocketflow_store.append.requests import PutRequest
    from rocketflow_store.model.results import PutMessageResult

_MOST_BYTES: Final = 64 << 20
"""Bodies of requests that may wait; one larger than that waits alone."""


@dataclass(slots=True)
class Waiting:
    """Requests that follow each other in the log, and their future."""

    requests: Sequence[PutRequest]
    future: Future[Any]
    one: bool
    """Whether the future is of one result, not of a list."""
    size: int
    began_ns: int
    outcomes: list[PutMessageResult | Exception]

    def complete(self) -> None:
        """Complete the future with the outcomes."""
        errors = [outcome for outcome in self.outcomes if isinstance(outcome, Exception)]
        if errors:
            self.future.set_exception(errors[0])
        else:
            self.future.set_result(self.outcomes[0] if self.one else self.outcomes)


class WaitingRequests:
    """At most `most` requests; what was taken counts until `forget`."""

    def __init__(self, most: int) -> None:
        self._most = most
        lock = threading.Lock()
        self._work, self._room = threading.Condition(lock), threading.Condition(lock)
        self._queue: deque[Waiting] = deque()
        self.count, self.bytes = 0, 0
        self._idle, self.closed = False, False

    @property
    def is_untaken(self) -> bool:
        """Whether requests wait that nobody took."""
        return bool(self._queue)

    def put(self, one: Waiting, timeout_s: float | None) -> bool:
        """Add requests, waiting up to `timeout_s` for room; False if there is none, or the queue is closed.

        Without a timeout they are added though there is no room.
        """
        with self._work:
            if timeout_s is not None and self._is_full(one):
                self._room.wait_for(lambda: self.closed or not self._is_full(one), timeout_s)
                if self._is_full(one):
                    return False
            if self.closed:
                return False
            self._queue.append(one)
            self.count += len(one.requests)
            self.bytes += one.size
            if self._idle:
                self._idle = False
                self._work.notify()
            return True

    def _is_full(self, one: Waiting) -> bool:
        return self.count > 0 and (self.count + len(one.requests) > self._most or self.bytes + one.size > _MOST_BYTES)

    def take(self) -> list[Waiting]:
        """Wait for requests and take what came together, as much as one run holds; nothing once it is closed."""
        with self._work:
            while not self._queue:
                if self.closed:
                    return []
                self._idle = True
                self._work.wait()
            self._idle = False
            taken = [self._queue.popleft()]
            count, size = len(taken[0].requests), taken[0].size
            while self._queue:
                following = self._queue[0]
                count, size = count + len(following.requests), size + following.size
                if count > MAX_RUN_MESSAGES or size > MAX_RUN_BYTES:
                    break
                taken.append(self._queue.popleft())
            return taken

    def forget(self, gone: Sequence[Waiting]) -> None:
        """Make room: these were completed."""
        if not gone:
            return
        with self._work:
            for one in gone:
                self.count -= len(one.requests)
                self.bytes -= one.size
            self._room.notify_all()

    def close(self) -> None:
        """Take no more; what waits can still be taken."""
        with self._work:
            self.closed = True
            self._work.notify_all()
            self._room.notify_all()
