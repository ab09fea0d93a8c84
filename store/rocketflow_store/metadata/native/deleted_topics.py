"""`rocketflow/deleted`: the deleted topics, and the physical offset from which on each name is another topic's.

The records of a deleted topic stay in the log until retention removes their files; only this file keeps them from
coming back. A deletion is recorded before any file of the topic is removed, and stays `unfinished` until all are.

Checked JSON (`checked_json`): by topic `floor`, the physical offset, and `unfinished`. `deleted.bak` is a copy, since
the content cannot be derived from the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from rocketflow_store.files import os_files
from rocketflow_store.files.json_fields import bool_field, int64_field, object_field
from rocketflow_store.metadata.native.checked_json import decode_checked_json, write_checked_json
from rocketflow_store.model.errors import StoreVersionError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocketflow_store.metadata.native.root_paths import RootPaths

_NAME: Final = "deleted"


@dataclass(frozen=True, slots=True)
class DeletedTopics:
    """Floors by topic: records of a topic before its floor belong to a deleted one."""

    floors: Mapping[str, int] = field(default_factory=dict)
    unfinished: frozenset[str] = frozenset()

    @classmethod
    def load(cls, paths: RootPaths) -> Self:
        """Load the file or its copy; raise StoreVersionError if one exists and neither can be parsed."""
        file = paths.rocketflow / _NAME
        there = [path for path in (file, _copy(paths)) if path.exists()]
        for path in there:
            try:
                return cls._of(decode_checked_json(os_files.read_file(path)))
            except (OSError, ValueError):
                continue
        if there:
            raise StoreVersionError(
                file,
                f"cannot be understood, nor can {_copy(paths).name}; restore one: deleted messages would come back",
            )
        return cls()

    @classmethod
    def _of(cls, document: dict[str, Any]) -> Self:
        topics = {name: object_field(document, name) for name in document}
        return cls(
            {name: int64_field(one, "floor", 0) for name, one in topics.items()},
            frozenset(name for name, one in topics.items() if bool_field(one, "unfinished", False)),
        )

    def deleted(self, topic: str, floor: int, *, unfinished: bool) -> Self:
        """Return a copy with this topic; a floor never falls."""
        floors = {**self.floors, topic: max(floor, self.floors.get(topic, 0))}
        return type(self)(floors, self.unfinished | {topic} if unfinished else self.unfinished - {topic})

    def within(self, min_phy_offset: int, log_end: int) -> Self:
        """Drop floors of a log of `[min_phy_offset, log_end)` that are no longer needed; cap them at its end."""
        floors = {name: min(floor, log_end) for name, floor in self.floors.items()}
        kept = {name: floor for name, floor in floors.items() if floor > min_phy_offset or name in self.unfinished}
        return type(self)(kept, self.unfinished)

    def write(self, paths: RootPaths) -> None:
        """Write the files durably, the copy first."""
        document = {
            name: {"floor": floor, "unfinished": name in self.unfinished} for name, floor in sorted(self.floors.items())
        }
        os_files.make_directory(paths.rocketflow)
        write_checked_json(_copy(paths), document)
        write_checked_json(paths.rocketflow / _NAME, document)


class TopicFloors:
    """The floors of a store that another process may write to: the file is loaded again when it changes."""

    def __init__(self, paths: RootPaths) -> None:
        self._paths = paths
        self._mark: tuple[int, int] | None = None
        self._floors: Mapping[str, int] = {}

    def of(self, topic: str) -> int:
        """Return the topic's floor: no record before this physical offset belongs to it."""
        try:
            status = (self._paths.rocketflow / _NAME).stat()
        except OSError:
            return 0
        mark = status.st_mtime_ns, status.st_ino
        if mark != self._mark:
            self._floors = DeletedTopics.load(self._paths).floors
            self._mark = mark
        return self._floors.get(topic, 0)


def deleted_topics_path(paths: RootPaths) -> Path:
    """Return the file that records deletions."""
    return paths.rocketflow / _NAME


def _copy(paths: RootPaths) -> Path:
    return paths.rocketflow / f"{_NAME}.bak"
