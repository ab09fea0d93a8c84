"""Messages that a broker did not return to a pull: what its answer says about them, and the event that reports them."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from rocketflow.remoting.bodies import MessageQueue

LOG: Final = logging.getLogger("rocketflow.client")

SKIPPED: Final = "RF-SKIP"
"""The code of the event, which reads of a store have too."""

_SPAN: Final = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")


class SkippedSpan(NamedTuple):
    """Queue offsets [start, end) of messages that a broker skipped, and why."""

    start: int
    end: int
    why: str


@dataclass(frozen=True, slots=True)
class SkippedMessages:
    """Messages [start, end) of a queue that its broker did not return, and why.

    `is_certain` is False until a second pull has confirmed a gap that the broker did not explain.
    """

    queue: MessageQueue
    start: int
    end: int
    why: str
    is_certain: bool = True

    @property
    def count(self) -> int:
        """The number of messages."""
        return self.end - self.start

    def log(self) -> None:
        """Log the event."""
        LOG.warning(
            "%s broker %s offset %d count %d: skipped in topic %s, queue %d: %s",
            *(SKIPPED, self.queue.broker_name, self.start, self.count, self.queue.topic, self.queue.queue_id, self.why),
            extra={"rf_code": SKIPPED},
        )


def skipped_spans(text: str | None) -> tuple[SkippedSpan, ...]:
    """Return what the field `skippedMessages` of an answer says, in the order of offsets; other texts say nothing."""
    if not text:
        return ()
    found = []
    for line in text.split("\n"):
        spans, _, why = line.partition(" ")
        for part in map(_SPAN.fullmatch, spans.split(",")):
            if part is not None:
                found.append(SkippedSpan(int(part[1]), int(part[2] or part[1]) + 1, why))
    return tuple(sorted(found))
