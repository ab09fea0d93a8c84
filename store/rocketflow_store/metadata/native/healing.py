"""`rocketflow/healing`: the queues that are being rebuilt from the log.

The file is written before the first of them is changed, and removed when all are durable. A process that is killed in
between leaves queues or an index that look complete and are not: only this file makes the next open rebuild them from
the log's begin.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocketflow_store.files import os_files
from rocketflow_store.files.json_text import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rocketflow_store.metadata.native.root_paths import RootPaths

    Queue = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The queues of either kind whose rebuild began."""

    queues: frozenset[Queue] = frozenset()
    batch_queues: frozenset[Queue] = frozenset()


def _path(paths: RootPaths) -> Path:
    return paths.rocketflow / "healing"


def begin_healing(paths: RootPaths, queues: Iterable[Queue], batch_queues: Iterable[Queue]) -> None:
    """Record that these queues (and everything else that is lost) are being rebuilt, in addition to earlier ones."""
    before = unfinished_healing(paths) or Unfinished()
    entries = [
        *([topic, queue_id] for topic, queue_id in sorted({*queues, *before.queues})),
        *([topic, queue_id, "batch"] for topic, queue_id in sorted({*batch_queues, *before.batch_queues})),
    ]
    os_files.make_directory(paths.rocketflow)
    os_files.write_atomically(_path(paths), json.dumps(entries).encode())
    os_files.sync_directory(paths.root)


def unfinished_healing(paths: RootPaths) -> Unfinished | None:
    """Return the queues whose rebuild was not finished; None if there is no such rebuild."""
    try:
        entries = parse_json(os_files.read_file(_path(paths)))
        return Unfinished(
            frozenset((str(one[0]), int(one[1])) for one in entries if len(one) == 2),
            frozenset((str(one[0]), int(one[1])) for one in entries if len(one) == 3),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        return Unfinished()


def end_healing(paths: RootPaths) -> None:
    """Remove the file: everything is rebuilt and durable."""
    os_files.remove_file(_path(paths))
    os_files.sync_directory(paths.rocketflow)
