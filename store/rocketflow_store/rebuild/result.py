"""What is asked of a rebuild, and what it did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RebuildRequest:
    """Which files are made: by default all queues of all kinds, and the index."""

    only: str | None = None
    """`consumequeue` or `index`."""
    topics: frozenset[str] = frozenset()
    """Only queues of these topics (and no index); light queues are topics too."""
    queue_id: int | None = None
    dry_run: bool = False
    force: bool = False
    """Go on where CommitLog files are missing between others: their messages are lost."""
    wait: bool = False
    """Wait for whoever holds the store's lock."""
    log: str | None = None
    """URI of the store, or the CommitLog, whose log is read instead of the store's own."""
    target: str | None = None
    """Directory, or URI, where queues and index are written; None: they are swapped into the store."""
    scratch: str | None = None
    """Where a remote target's files are made before they go there; every task has to see it."""
    profile: str | None = None
    """The RocketMQ version ("5.3" or "5.5") to convert the derived files to; None: the store's own."""

    @property
    def units(self) -> bool:
        """Whether queues are made."""
        return self.only != "index"

    @property
    def index(self) -> bool:
        """Whether the index is made."""
        return self.only != "consumequeue" and not self.topics and self.queue_id is None

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return self.only is None and not self.topics and self.queue_id is None


@dataclass(slots=True)
class RebuildResult:
    """What was (with a dry run: would be) made; `changed_files` are those that differ from what was there."""

    path: str
    engine: str
    dry_run: bool = False
    records: int = 0
    bytes: int = 0
    units: int = 0
    index_entries: int = 0
    queues: int = 0
    files: int = 0
    changed_files: int = 0
    needed_bytes: int = 0
    seconds: float = 0.0
    estimated_seconds: float | None = None
    no_room: str | None = None
    """What a dry run says of a disk without room for what would be made."""
    swapped: bool = False
    profile: str = ""
    """Whose derived files were made, by RocketMQ version."""
    damaged: list[dict[str, Any]] = field(default_factory=list)
    deleted_topics: list[str] = field(default_factory=list)
    """Topics that the log has messages of, and that are not made again: they were deleted."""

    @property
    def exit_code(self) -> int:
        """3 where records are damaged or gone, 1 where a disk has no room for what would be made, else 0."""
        return 3 if self.damaged else 1 if self.no_room else 0

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        told = {
            "path": self.path,
            "engine": self.engine,
            "dryRun": self.dry_run,
            "records": self.records,
            "bytes": self.bytes,
            "units": self.units,
            "indexEntries": self.index_entries,
            "queues": self.queues,
            "files": self.files,
            "changedFiles": self.changed_files,
            "neededBytes": self.needed_bytes,
            "seconds": round(self.seconds, 3),
            "mbPerSecond": round(self.bytes / self.seconds / 1e6, 1) if self.seconds else 0.0,
            "swapped": self.swapped,
            "profile": self.profile,
            "damaged": self.damaged,
            "deletedTopics": self.deleted_topics,
        }
        if self.estimated_seconds is not None:
            told["estimatedSeconds"] = round(self.estimated_seconds, 1)
            told["noRoom"] = self.no_room
        return told
