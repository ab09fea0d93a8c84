"""Loss, cut, quarantine, fence, skip: what somebody must hear of, each with a stable code, a log line and a count.

The line goes to the logger `rocketflow_store` as `CODE PLACE offset N count N: why`; the record has the attribute
`rf_code`. Counts are kept for each store that this process works on; `MessageStore.statistics()` has them as `events`.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter, defaultdict
from typing import Final

QUARANTINED: Final = "RF-QUAR"
"""Damage that stays in the log; everything around it is served."""
CUT: Final = "RF-CUT"
"""Bytes cut off the end of a file; a copy of valid records among them is kept."""
LOST: Final = "RF-LOST"
"""Bytes that are gone: below a stop that is known, or acknowledged before a power loss under ASYNC_FLUSH."""
HEALED: Final = "RF-HEAL"
"""Something derived that was made again from the log."""
CLAMPED: Final = "RF-CLAMP"
"""A stored position that was moved back to its queue's end."""
SET_ASIDE: Final = "RF-ASIDE"
"""A file that does not belong where it was."""
FENCED: Final = "RF-FENCE"
"""A sync failed: nothing is acknowledged any more until the store is opened anew."""
DELAY_HELD: Final = "RF-DELAY-HELD"
"""Delayed messages that are due cannot be delivered (no space, a failed sync); it is tried again."""
HELD_UP: Final = "RF-HELD"
"""Stored messages cannot be dispatched (no space, no memory); puts are refused until they can."""
SERVICE_HELD: Final = "RF-SERVICE-HELD"
"""A thread of the store (retention, flush of the queues) cannot do its work and tries again; told when why changes."""
REFUSED: Final = "RF-REFUSED"
"""Puts are refused: no space, no memory, or the disk does not write. Counted for each, logged when it begins."""
REPLAYED: Final = "RF-SINK-REPLAYED"
"""A committed sink batch came again; nothing was written."""
SUPERSEDED: Final = "RF-SINK-SUPERSEDED"
"""A sink commit of a run that is not the newest, or of other rows under a committed batch id: refused."""
DATA_LOSS: Final = "RF-DATA-LOSS"
"""A query goes on without messages that are gone (failOnDataLoss=false)."""
NO_EFFECT: Final = "RF-CONFIG"
"""Settings were given that change nothing here."""
SKIPPED: Final = "RF-SKIP"
"""A reader left out damaged messages because it was told to."""

_LOGGER: Final = logging.getLogger("rocketflow_store")
_lock = threading.Lock()
_counts: defaultdict[str, Counter[str]] = defaultdict(Counter)


def tell(
    code: str,
    store: str | os.PathLike[str],
    place: object,
    why: str,
    *,
    offset: int = 0,
    count: int = 1,
    quietly: bool = False,
) -> None:
    """Log and count an event at `offset` of `place`, a file or a queue of `store`; `count` is of what `why` says."""
    with _lock:
        _counts[os.fspath(store)][code] += 1
    if not quietly:
        text = why.encode("unicode_escape").decode("ascii") if not why.isprintable() else why
        _LOGGER.warning("%s %s offset %d count %d: %s", code, place, offset, count, text, extra={"rf_code": code})


def counts(store: str | os.PathLike[str]) -> dict[str, int]:
    """How often each code was told for a store since this process began, by code."""
    with _lock:
        return dict(sorted(_counts[os.fspath(store)].items()))
