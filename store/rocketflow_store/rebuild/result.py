"""Request and result of a rebuild."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RebuildRequest:
    """Choice of the files to rebuild: by default all queues of all kinds, and the index."""

    only: str | None = None
    """`consumequeue` or `index`."""
    topics: frozenset[str] = frozenset()
    """Rebuild only queues of these topics (and no index); LMQs are topics too."""
    queue_id: int | None = None
    dry_run: bool = False
    force: bool = False
    """Go on if CommitLog files are missing between others: their messages are lost."""
    wait: bool = False
    """Wait until another process releases the store's lock."""
    log: str | None = None
    """URI of the store, or the CommitLog, whose log is read instead of the store's."""
    target: str | None = None
    """Directory, or URI, where queues and index are written; None: they are swapped into the store."""
    scratch: str | None = None
    """Directory for the files of a remote target before their upload; every task must see it."""
    profile: str | None = None
    """The RocketMQ version ("5.3" or "5.5") to convert the derived files to; None: the store's profile."""

    @property
    def units(self) -> bool:
        """True if queues are rebuilt."""
        return self.only != "index"

    @property
    def index(self) -> bool:
        """True if the index is rebuilt."""
        return self.only != "consumequeue" and not self.topics and self.queue_id is None

    @property
    def everything(self) -> bool:
        """True if all queues and the index are rebuilt."""
        return self.only is None and not self.topics and self.queue_id is None


@dataclass(slots=True)
class RebuildResult:
    """Counts of what was (in a dry run: would be) written; `changed_files` are those that differ from the old ones."""

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
    """Message of a dry run if a disk has no room for the files."""
    swapped: bool = False
    profile: str = ""
    """Profile of the rebuilt derived files, a RocketMQ version."""
    damaged: list[dict[str, Any]] = field(default_factory=list)
    deleted_topics: list[str] = field(default_factory=list)
    """Deleted topics of which the log still has messages; they are not rebuilt."""

    @property
    def exit_code(self) -> int:
        """3 if records are damaged or missing, 1 if a disk has no room for the files, else 0."""
        return 3 if self.damaged else 1 if self.no_room else 0

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for `--json`."""
        fields = {
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
            fields["estimatedSeconds"] = round(self.estimated_seconds, 1)
            fields["noRoom"] = self.no_room
        return fields
