"""A bounded queue of asynchronous requests that are not appended yet; the encoder takes them in runs."""

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

_MAX_BYTES: Final = 64 << 20
"""Maximum total body size of queued requests; a larger single request is queued alone."""


@dataclass(slots=True)
class Waiting:
    """Requests of one call, consecutive in the log, and their future."""

    requests: Sequence[PutRequest]
    future: Future[Any]
    one: bool
    """True if the future is of one result, not of a list."""
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
    """A queue of at most `max_requests`; taken requests count until `forget`."""

    def __init__(self, max_requests: int) -> None:
        self._max_requests = max_requests
        lock = threading.Lock()
        self._not_empty, self._not_full = threading.Condition(lock), threading.Condition(lock)
        self._queue: deque[Waiting] = deque()
        self.count, self.bytes = 0, 0
        self._idle, self.closed = False, False

    @property
    def has_untaken(self) -> bool:
        """True if requests are queued that the encoder has not taken."""
        return bool(self._queue)

    def put(self, one: Waiting, timeout_s: float | None) -> bool:
        """Add requests, waiting up to `timeout_s` while the queue is full; return False if it stays full or is closed.

        With `timeout_s` None they are added even to a full queue.
        """
        with self._not_empty:
            if timeout_s is not None and self._is_full(one):
                self._not_full.wait_for(lambda: self.closed or not self._is_full(one), timeout_s)
                if self._is_full(one):
                    return False
            if self.closed:
                return False
            self._queue.append(one)
            self.count += len(one.requests)
            self.bytes += one.size
            if self._idle:
                self._idle = False
                self._not_empty.notify()
            return True

    def _is_full(self, one: Waiting) -> bool:
        return self.count > 0 and (
            self.count + len(one.requests) > self._max_requests or self.bytes + one.size > _MAX_BYTES
        )

    def take(self) -> list[Waiting]:
        """Wait for requests, and take as many as one run holds; return [] once the queue is closed and empty."""
        with self._not_empty:
            while not self._queue:
                if self.closed:
                    return []
                self._idle = True
                self._not_empty.wait()
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

    def forget(self, completed: Sequence[Waiting]) -> None:
        """Stop counting completed requests, so that others can be added."""
        if not completed:
            return
        with self._not_empty:
            for one in completed:
                self.count -= len(one.requests)
                self.bytes -= one.size
            self._not_full.notify_all()

    def close(self) -> None:
        """Refuse further requests; queued ones can still be taken."""
        with self._not_empty:
            self.closed = True
            self._not_empty.notify_all()
            self._not_full.notify_all()
