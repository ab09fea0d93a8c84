"""The usual ends of one read together: what their commits store is the kernel's.

What the kernel does not take goes through `TransactionEnds`, which is the definition.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from rocketflow.broker.transactions.end import refusal_code
from rocketflow.broker.transactions.end_puts import MAX_COMMIT_BYTES, MAX_COMMITS, End
from rocketflow.remoting.codes import RequestCode
from rocketflow_store.spi.broker import SentRun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocketflow.aio.server import Arrived
    from rocketflow.broker.figures import MessageCounts
    from rocketflow.broker.transactions.check import TransactionChecks
    from rocketflow.broker.transactions.end_puts import EndPuts
    from rocketflow.broker.transactions.recent_halves import RecentHalves
    from rocketflow_store import PutMessageResult
    from rocketflow_store.spi.broker import SentRecords

_OFFSET_BYTES: Final = 20
"""Bytes of a half offset in an op mark, at most."""

Births = dict[tuple[str, bool], list[int]]
"""Times (ms) of birth by topic and whether they are those of commits."""


class EndsTogether:
    """Serves requests 37 that arrive together, for half messages that the kernel has stored since the start."""

    def __init__(
        self,
        puts: EndPuts,
        recent: RecentHalves,
        counts: MessageCounts,
        checks: TransactionChecks,
        max_mark_bytes: int,
    ) -> None:
        self._puts, self._recent, self._counts, self._checks = puts, recent, counts, checks
        self._decisions = checks.decisions
        self.limits = min(MAX_COMMITS, max_mark_bytes // _OFFSET_BYTES), MAX_COMMIT_BYTES
        """Half messages that may be ended at once, and bytes of the bodies that are committed."""

    def received(self, arrived: Arrived, records: SentRecords, is_as_taught: Callable[[Sequence[str]], bool]) -> bytes:
        """End half messages, and return the frames that are to be received one by one."""
        offsets = records.ending_offsets
        none: list[bytes | None] = [None] * len(offsets)
        halves = self._recent.take_records(offsets) if self._checks.are_open(offsets) else none
        commits, committed, rolled_back, births, asking, left_over = records.end_halves(halves)
        if commits is not None and not is_as_taught(commits.named_topics):
            return records.end_halves(none)[-1]
        if commits is not None:
            self._end(arrived, committed, asking[0], SentRun(commits), births)
        if rolled_back:
            self._end(arrived, rolled_back, asking[1], None, births)
        return left_over

    def _end(
        self,
        arrived: Arrived,
        offsets: list[int],
        asking: bytes,
        message: SentRun | None,
        births: Births,
    ) -> None:
        """Commit half messages, or roll them back without a message, and answer those of them in `asking`.

        These are frames: Go's clients want an answer, Java's do not.
        """
        is_commit, requests = message is not None, arrived.requests(asking)
        self._decisions.hold(*offsets)
        arrived.took(RequestCode.END_TRANSACTION, len(offsets))

        def done(result: PutMessageResult) -> None:
            if result.stored:
                self._decisions.end(*offsets, is_commit=is_commit)
                now_ms = time.time() * 1000
                for (topic, is_of_commit), births_ms in births.items():
                    if is_of_commit is is_commit:
                        self._counts.ended(topic, births_ms, now_ms, is_commit=is_commit)
                ended(0, None)
            else:
                ended(refusal_code(result), f"{result.status.name}: {result.why}")

        def ended(code: int, remark: str | None) -> None:
            if len(requests) < len(offsets):
                arrived.end_one_way(RequestCode.END_TRANSACTION, code, len(offsets) - len(requests))
            for request in requests:
                request.reply(code, remark=remark)
            self._decisions.release(*offsets)

        self._puts.add(End(offsets, message, done, lambda error: ended(error.code, str(error))))
