"""`rocketflow/healing`: what is being made again from the log, noted before it is begun and until it is durable.

A process that is killed in the middle leaves queues or an index that look whole, and are not: only this note tells the
next open to go on from the log's begin.
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
    """The queues of either kind that somebody began to make again."""

    queues: frozenset[Queue] = frozenset()
    batch_queues: frozenset[Queue] = frozenset()


def _path(paths: RootPaths) -> Path:
    return paths.rocketflow / "healing"


def begin_healing(paths: RootPaths, queues: Iterable[Queue], batch_queues: Iterable[Queue]) -> None:
    """Note that these queues (and whatever else is lost) are about to be made again, besides those noted before."""
    before = unfinished_healing(paths) or Unfinished()
    told = [
        *([topic, queue_id] for topic, queue_id in sorted({*queues, *before.queues})),
        *([topic, queue_id, "batch"] for topic, queue_id in sorted({*batch_queues, *before.batch_queues})),
    ]
    os_files.make_directory(paths.rocketflow)
    os_files.write_atomically(_path(paths), json.dumps(told).encode())
    os_files.sync_directory(paths.root)


def unfinished_healing(paths: RootPaths) -> Unfinished | None:
    """What somebody began to make again; None where nothing was left unfinished."""
    try:
        told = parse_json(os_files.read_file(_path(paths)))
        return Unfinished(
            frozenset((str(one[0]), int(one[1])) for one in told if len(one) == 2),
            frozenset((str(one[0]), int(one[1])) for one in told if len(one) == 3),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        return Unfinished()


def end_healing(paths: RootPaths) -> None:
    """Everything was made again and is durable."""
    os_files.remove_file(_path(paths))
    os_files.sync_directory(paths.rocketflow)
