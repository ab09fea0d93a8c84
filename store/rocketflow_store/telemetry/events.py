"""Events for operators, each with a stable code, a log line and a count.

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
MOVED: Final = "RF-MOVED"
NOT_LOCKED: Final = "RF-NOT-LOCKED"
DELAY_HELD: Final = "RF-DELAY-HELD"
HELD_UP: Final = "RF-HELD"
SERVICE_HELD: Final = "RF-SERVICE-HELD"
REFUSED: Final = "RF-REFUSED"
REPLAYED: Final = "RF-SINK-REPLAYED"
SUPERSEDED: Final = "RF-SINK-SUPERSEDED"
DATA_LOSS: Final = "RF-DATA-LOSS"
NO_EFFECT: Final = "RF-CONFIG"
SKIPPED: Final = "RF-SKIP"
BAD_BODY: Final = "RF-BAD-BODY"
RECREATED: Final = "RF-RECREATED"
SUBSCRIPTION_CONFLICT: Final = "RF-SUBSCRIPTION-CONFLICT"


class Event(NamedTuple):
    """The meaning of a code: what happened, the likely cause, and what to do."""

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
        "A write that the stop interrupted. After a restart of the system, or in a copy of the store: bytes that the "
        "disk does not have or that are damaged, after the offset up to which the log is known to be synced.",
        "The log line says how many complete records were cut, and whether they were known to be durable. "
        "quarantine/ has a copy of them.",
    ),
    Event(
        LOST,
        "Acknowledged messages are missing.",
        "A power loss under ASYNC_FLUSH, damage after the synced part of the log of a system that was restarted, or a "
        "CommitLog file that is shorter than it was. The log line says what is known.",
        "Restore the file from a replica or backup, or accept the loss; SYNC_FLUSH acknowledges only what survives.",
    ),
    Event(
        HEALED,
        "Derived files were rebuilt from the log, or a small file was restored from its copy.",
        "Queues, index, checkpoint or a JSON file were damaged or missing.",
        "Nothing. Find out who removed or damaged the file.",
    ),
    Event(
        CLAMPED,
        "A stored consumer offset was moved back to the end of its queue.",
        "The queue is shorter than before: messages were lost, or the offset file belongs to another store.",
        "Check for RF-LOST; else restore config/consumerOffset.json.",
    ),
    Event(
        SET_ASIDE,
        "A file or directory was moved to quarantine/.",
        "It has a wrong size or name, or it is a directory in place of a file.",
        "Inspect it in quarantine/ and delete it, or restore the right file.",
    ),
    Event(
        FENCED,
        "The store is fenced: puts are refused until it is opened again.",
        "A sync failed, so the store cannot guarantee durability any more.",
        "Check the disk, stop the writer, and open the store again; recovery finds which records are durable.",
    ),
    Event(
        MOVED,
        "Files of an open store are no longer at their place. The store is fenced: puts are refused until it is opened "
        "again, nothing is written at the old place.",
        "A directory of the store was renamed, deleted or unmounted below its writer, or its active log file or `lock` "
        "was.",
        "Put back what the log line names and start the writer again: the files have every acknowledged message. "
        "What was deleted has to come from a backup.",
    ),
    Event(
        NOT_LOCKED,
        "A directory of a store cannot be locked: only `lock` in the store's root excludes a second writer.",
        "Its file system has no flock for directories (NFS, some FUSE file systems).",
        "Make sure that no store with another root uses this directory.",
    ),
    Event(
        DELAY_HELD,
        "Due delayed messages cannot be delivered now; delivery is retried.",
        "No space, or a failed sync.",
        "Free disk space or see the other events; if the store is fenced, open it again.",
    ),
    Event(
        HELD_UP,
        "Stored messages cannot be dispatched to queues and index; puts are refused until dispatch succeeds.",
        "No space or no memory for a queue or index file.",
        "Free disk space or memory; dispatch then continues without a restart.",
    ),
    Event(
        SERVICE_HELD,
        "A service thread of the store (retention, flush of the queues) failed and retries.",
        "The log line names the reason; a changed reason is logged again.",
        "Remove the cause that the log line names.",
    ),
    Event(
        REFUSED,
        "Puts are refused. Every refusal is counted; the first of a series is logged.",
        "No space, no memory, or a disk that cannot be written.",
        "Free disk space, or raise the limit that the log line names.",
    ),
    Event(
        REPLAYED,
        "A committed batch of a sink was replayed; nothing was written.",
        "Spark repeated a batch after a restart.",
        "Nothing: each batch is stored exactly once.",
    ),
    Event(
        SUPERSEDED,
        "A commit of a sink was refused.",
        "Its run is not the newest, or its batch id was committed with other rows.",
        "Stop the older query; if a query is not deterministic, see the sink option replayMismatch.",
    ),
    Event(
        DATA_LOSS,
        "A query continues without messages that no longer exist.",
        "Retention deleted messages, or damage destroyed them, before the query read them; failOnDataLoss is false.",
        "Raise fileReservedTime, or make the query read faster.",
    ),
    Event(
        NO_EFFECT,
        "Settings without effect were given.",
        "Keys of RocketMQ that only a broker uses, or misspelled keys.",
        "Remove them, or correct the spelling.",
    ),
    Event(
        SKIPPED,
        "A read skipped messages that it could not return.",
        "Damaged or missing records or units, and the caller asked to skip them; or a broker passed over them, and a "
        "consumer reports what it did not get.",
        "Run `rocketflow store verify PATH` (of a broker: at its store); `--repair` rebuilds the units of all records "
        "that the log still has.",
    ),
    Event(
        RECREATED,
        "A topic was deleted and created again under a connected consumer, whose offsets are those of the old topic.",
        "The topic was deleted, or its broker lost messages: a queue ends earlier than before.",
        "Set `restart_recreated` of the consumer to read it from its beginning, or reset the group's offsets.",
    ),
    Event(
        BAD_BODY,
        "A read skipped a message whose body it could not decode (onBadBody=quarantine).",
        "A producer gave a body a compressed flag, and compressed it otherwise or not at all; the record is sound.",
        "Read the message with onBadBody=raw (`rocketflow store cat --on-bad-body raw`), and correct its producer.",
    ),
    Event(
        SUBSCRIPTION_CONFLICT,
        "Members of a consumer group read different topics, or one topic by different expressions.",
        "Programs with different subscriptions use the same group, or a new version is rolled out. The broker keeps "
        "the newest subscription of each topic for the whole group: members miss messages.",
        "Give each program a group of its own, or let all members subscribe to the same.",
    ),
)
"""Every code; the meaning of a code never changes."""

_LOGGER: Final = logging.getLogger("rocketflow_store")
_lock = threading.Lock()
_counts: defaultdict[str, Counter[str]] = defaultdict(Counter)


def report(
    code: str,
    store: str | os.PathLike[str],
    place: object,
    why: str,
    *,
    offset: int = 0,
    count: int = 1,
    quietly: bool = False,
) -> None:
    """Log and count an event at `offset` of `place`, a file or queue of `store`; `why` says what `count` counts.

    With `quietly` the event is only counted.
    """
    with _lock:
        _counts[os.fspath(store)][code] += 1
    if not quietly:
        text = why.encode("unicode_escape").decode("ascii") if not why.isprintable() else why
        _LOGGER.warning("%s %s offset %d count %d: %s", code, place, offset, count, text, extra={"rf_code": code})


def counts(store: str | os.PathLike[str]) -> dict[str, int]:
    """Return how often each event of a store was reported since this process started, by code."""
    with _lock:
        return dict(sorted(_counts[os.fspath(store)].items()))
