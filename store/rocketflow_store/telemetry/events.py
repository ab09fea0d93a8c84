"""Events that an operator has to know of, each with a stable code, a log line and a count.

The line goes to the logger `rocketflow_store` as `CODE PLACE offset N count N: why`; the record has the attribute
`rf_code`. Counts are kept for each store that this process works on; `MessageStore.statistics()` has them as `events`.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter, defaultdict
from typing import Final, NamedTuple

QUARANTINED: Final = "RF-QUAR"
CUT: Final = "RF-CUT"
LOST: Final = "RF-LOST"
HEALED: Final = "RF-HEAL"
CLAMPED: Final = "RF-CLAMP"
SET_ASIDE: Final = "RF-ASIDE"
FENCED: Final = "RF-FENCE"
DELAY_HELD: Final = "RF-DELAY-HELD"
HELD_UP: Final = "RF-HELD"
SERVICE_HELD: Final = "RF-SERVICE-HELD"
REFUSED: Final = "RF-REFUSED"
REPLAYED: Final = "RF-SINK-REPLAYED"
SUPERSEDED: Final = "RF-SINK-SUPERSEDED"
DATA_LOSS: Final = "RF-DATA-LOSS"
NO_EFFECT: Final = "RF-CONFIG"
SKIPPED: Final = "RF-SKIP"


class Event(NamedTuple):
    """What a code means: what happened, why it may have, and what to do."""

    code: str
    about: str
    cause: str
    remedy: str


EVENTS: Final = (
    Event(
        QUARANTINED,
        "Damaged bytes stay in the log; everything around them is served.",
        "Damage below an offset that was known to be synced: a bad disk, or a program that wrote into the file.",
        "Look at quarantine/report.jsonl; check the disk; run `rocketflow store verify PATH`.",
    ),
    Event(
        CUT,
        "Bytes were cut off the end of a file.",
        "A crash or power loss while the end was written.",
        "Nothing. If the cut part held complete records, quarantine/ has a copy of them.",
    ),
    Event(
        LOST,
        "Acknowledged messages are missing.",
        "A power loss under ASYNC_FLUSH, or a CommitLog file that is shorter than it was.",
        "Restore the file from a replica or backup, or accept the loss; SYNC_FLUSH acknowledges only what survives.",
    ),
    Event(
        HEALED,
        "Derived files were rebuilt from the log, or a small file from its copy.",
        "Queues, index, checkpoint or a JSON file were damaged or missing.",
        "Nothing. Find out who removed or damaged the file.",
    ),
    Event(
        CLAMPED,
        "A stored consumer offset was moved back to the end of its queue.",
        "The queue is shorter than it was: messages were lost, or the offset file is of another store.",
        "Check for RF-LOST; else restore config/consumerOffset.json.",
    ),
    Event(
        SET_ASIDE,
        "A file or directory was moved to quarantine/.",
        "It does not belong where it was: another size, another name, a directory in place of a file.",
        "Look at it in quarantine/ and delete it, or put the right one back.",
    ),
    Event(
        FENCED,
        "The store is fenced: puts are refused until it is opened again.",
        "A sync failed, so nothing more can be promised.",
        "Check the disk, stop the writer, and open the store again; recovery decides what is durable.",
    ),
    Event(
        DELAY_HELD,
        "Due delayed messages cannot be delivered now; delivery is tried again.",
        "No space, or a failed sync.",
        "Make room or look at the other events; if the store is fenced, open it again.",
    ),
    Event(
        HELD_UP,
        "Stored messages cannot be dispatched to queues and index; puts are refused until they can.",
        "No space or no memory for a queue or index file.",
        "Make room; dispatch then goes on without a restart.",
    ),
    Event(
        SERVICE_HELD,
        "A thread of the store (retention, flush of the queues) cannot do its work and tries again.",
        "The reason is in the line; it is logged again when it changes.",
        "Remove the reason.",
    ),
    Event(
        REFUSED,
        "Puts are refused. Every refusal is counted, the first of a series is logged.",
        "No space, no memory, or a disk that does not write.",
        "Make room, or raise the limit that the line names.",
    ),
    Event(
        REPLAYED,
        "A committed batch of a sink came again; nothing was written.",
        "Spark repeated a batch after a restart.",
        "Nothing: this is how each batch is stored once.",
    ),
    Event(
        SUPERSEDED,
        "A commit of a sink was refused.",
        "Its run is not the newest, or the batch id was committed with other rows.",
        "Stop the older query; if a query is not deterministic, see the sink option replayMismatch.",
    ),
    Event(
        DATA_LOSS,
        "A query goes on without messages that are gone.",
        "Retention or damage took messages before the query read them, and failOnDataLoss is false.",
        "Raise fileReservedTime, or let the query keep up.",
    ),
    Event(
        NO_EFFECT,
        "Settings were given that change nothing.",
        "Keys of RocketMQ that only a broker uses, or misspelled keys.",
        "Remove them, or correct the spelling.",
    ),
    Event(
        SKIPPED,
        "A read skipped messages that it could not return.",
        "Damaged or missing records or units, and the caller asked to skip them.",
        "Run `rocketflow store verify PATH`; `--repair` rebuilds what the log still has.",
    ),
)
"""Every code; a code is never given another meaning."""

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
