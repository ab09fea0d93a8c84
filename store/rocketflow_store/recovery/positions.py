"""Stored positions (of consumers, of delay levels), which must not be after the end of their queue.

With a position after the end, its owner would skip the messages that are stored there next. An owner that had read
messages which recovery or a repair cut continues at the queue's end.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from rocketflow_store.model.errors import StoreError
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC
from rocketflow_store.recovery.quarantine import CLAMPED, Quarantine
from rocketflow_store.views.queues.queue_table import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rocketflow_store.metadata.config_files import ConfigFiles, ConsumerOffsetsFile
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.views.queues.batch_consume_queue import BatchQueueTable
    from rocketflow_store.views.queues.queue_table import FileQueueTable

_LOGGER: Final = logging.getLogger("rocketflow_store")


def clamp_positions(
    paths: StorePaths, files: ConfigFiles, queues: FileQueueTable, batch_queues: BatchQueueTable
) -> int:
    """Move positions after their queue's end back to it, before anything is appended; return how many were moved.

    A file that cannot be read stays as it is: a later read of a position raises the error.
    """
    ends: dict[tuple[str, int], int] = {}

    def end_of(topic: str, queue_id: int) -> int | None:
        if topic.startswith(LMQ_PREFIX) and queues.find(topic, queue_id) is None:
            return None
        if (topic, queue_id) not in ends:
            table = batch_queues if batch_queues.has_topic(topic) else queues
            ends[topic, queue_id] = table.end(topic, queue_id)
        return ends[topic, queue_id]

    return clamp_to(paths, files, end_of)


def clamp_to(paths: StorePaths, files: ConfigFiles, end_of: Callable[[str, int], int | None]) -> int:
    """Move positions like `clamp_positions`, with the given ends (None: nothing is known of a queue)."""
    count = 0
    for file in files.positions:
        count += _clamp_consumers(paths, file, end_of)
    return count + _clamp_delays(paths, files, end_of)


def _clamp_consumers(paths: StorePaths, file: ConsumerOffsetsFile, end_of: Callable[[str, int], int | None]) -> int:
    try:
        table = file.table()
    except StoreError as error:
        _LOGGER.warning("%s", error)
        return 0
    clamped: dict[tuple[str, str], dict[int, int]] = {}
    why = []
    for (topic, group), offsets in table.items():
        beyond = _beyond(offsets, lambda queue_id, topic=topic: end_of(topic, queue_id))  # type: ignore[misc]
        for queue_id, end in beyond.items():
            clamped.setdefault((topic, group), {})[queue_id] = end
            why.append(f"{topic}@{group} queue {queue_id} was at {offsets[queue_id]}, its end is {end}")
    if clamped:
        _note(paths, file.path, why)
        file.commit_all(clamped)
    return len(why)


def _clamp_delays(paths: StorePaths, files: ConfigFiles, end_of: Callable[[str, int], int | None]) -> int:
    try:
        levels = {level: offset for level, offset in files.delay_offsets.offsets().items() if level >= 1}
    except StoreError as error:
        _LOGGER.warning("%s", error)
        return 0
    beyond = _beyond(levels, lambda level: end_of(SCHEDULE_TOPIC, level - 1))
    if beyond:
        _note(
            paths,
            files.delay_offsets.path,
            [
                f"delay level {level} was at {levels[level]}, the end of its queue is {end}"
                for level, end in beyond.items()
            ],
        )
        files.delay_offsets.commit(beyond)
    return len(beyond)


def _beyond(offsets: Mapping[int, int], end_of: Callable[[int], int | None]) -> dict[int, int]:
    found = {}
    for number, offset in offsets.items():
        end = end_of(number) if offset > 0 else None
        if end is not None and offset > end:
            found[number] = end
    return found


def _note(paths: StorePaths, path: Path, why: list[str]) -> None:
    quarantine = Quarantine(paths)
    kept = quarantine.keep_file(path) if path.exists() else None
    for one in why:
        quarantine.note(CLAMPED, path, 0, 0, one, kept)
