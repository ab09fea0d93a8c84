"""`rocketflow/healing`: what is being made again from the log, noted before it is begun and until it is durable.

A process that is killed in the middle leaves queues or an index that look whole, and are not: only this note tells the
next open to go on from the log's begin.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rocketflow_store.files import os_files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rocketflow_store.config import StorePaths

    Queue = tuple[str, int]


def _path(paths: StorePaths) -> Path:
    return paths.rocketflow / "healing"


def begin_healing(paths: StorePaths, queues: Iterable[Queue], *, unfinished: bool) -> None:
    """Note that these queues (and whatever else is lost) are about to be made again; `unfinished` says of others."""
    if unfinished:
        queues = {*queues, *(unfinished_healing(paths) or ())}
    os_files.make_directory(paths.rocketflow)
    os_files.write_atomically(_path(paths), json.dumps(sorted(queues)).encode())
    os_files.sync_directory(paths.root)


def unfinished_healing(paths: StorePaths) -> frozenset[Queue] | None:
    """The queues that somebody began to make again; None where nothing was left unfinished."""
    try:
        told = json.loads(os_files.read_file(_path(paths)))
        return frozenset((str(topic), int(queue_id)) for topic, queue_id in told)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        return frozenset()


def end_healing(paths: StorePaths) -> None:
    """Everything was made again and is durable."""
    os_files.remove_file(_path(paths))
    os_files.sync_directory(paths.rocketflow)
