"""The small files of a backup: copies of the store's, and a record of the ends of its queues."""

from __future__ import annotations

import stat
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rocketflow_store.files import os_files
from rocketflow_store.files.directory_entries import directory_entries
from rocketflow_store.log.record_crc_range import record_crc_range
from rocketflow_store.metadata.config_files.listed_topics import listed_topics
from rocketflow_store.metadata.layout.store_layout import StoreLayout
from rocketflow_store.metadata.native.stop_record import NO_CRC, QueueState, StopRecord
from rocketflow_store.metadata.native.store_meta_fields import (
    encode_meta_fields,
    read_meta_fields,
    recorded_store_id,
)
from rocketflow_store.model.errors import StoreVersionError
from rocketflow_store.model.topic_names import LMQ_PREFIX

if TYPE_CHECKING:
    from pathlib import Path

    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.model.results import StoreSnapshot
    from rocketflow_store.reading.store_reader import StoreReader

_POSITIONS: Final = frozenset(
    name + end for name in ("consumerOffset.json", "lmqConsumerOffset.json", "delayOffset.json") for end in ("", ".bak")
)
_DELETED: Final = ("deleted", "deleted.bak")


def copy_positions(source: StorePaths, target: StorePaths) -> None:
    """Copy the positions of consumers and of delay levels."""
    for name in sorted(_POSITIONS):
        _copy(source.config / name, target.config / name)
        _copy(source.rocketflow / name, target.rocketflow / name)


def copy_metadata(source: StorePaths, target: StorePaths) -> None:
    """Copy RocketMQ's other JSON files, `store.meta` without directories, and the marks of deleted topics.

    The timer's check belongs to its wheel and log, which are rebuilt from the CommitLog.
    """
    for one in directory_entries(source.config):
        path = source.config / one.name
        if one.is_file and one.name not in _POSITIONS and path != source.timer_check and not one.name.startswith("."):
            _copy(path, target.config / one.name)
    for name in _DELETED:
        _copy(source.rocketflow / name, target.rocketflow / name)
    if source.meta.is_file():
        try:
            fields = read_meta_fields(source.meta)
        except ValueError as error:
            raise StoreVersionError(source.meta, f"is not readable ({error}); restore it, or remove it") from error
        kept = {key: value for key, value in fields.items() if key not in StoreLayout().as_dict()}
        os_files.make_directory(target.rocketflow)
        os_files.write_atomically(target.meta, encode_meta_fields(kept))


def copy_sinks(source: StorePaths, target: StorePaths) -> None:
    """Copy the last commits of sinks that are no longer in the log."""
    _copy(source.sinks, target.sinks)


def write_queue_ends(reader: StoreReader, target: StorePaths, seen: StoreSnapshot, begin: int) -> None:
    """Leave a stop record of a log of [begin, end) and its queues' ends, without their files: they are rebuilt from it.

    So LMQs, and the offsets of messages that retention deleted, are not forgotten. A topic that is not listed gets a
    directory, which shows that it exists.
    """
    batches, listed = set(reader.batch_names()), listed_topics(target) or frozenset()
    plain: dict[tuple[str, int], QueueState] = {}
    of_batches: dict[tuple[str, int], QueueState] = {}
    batch_file_size = 0
    for key, (_, end) in seen.queues.items():
        state = QueueState(end, key[0] in listed, ())
        if key in batches:
            of_batches[key] = state
            queue = reader.find_batch(*key)
            batch_file_size = batch_file_size or (queue.file_size if queue is not None else 0)
        else:
            plain[key] = replace(state, last_phy_offset=_last_phy_offset(reader, key, end))
        if key[0] not in listed and not key[0].startswith(LMQ_PREFIX):
            parent = target.batch_consume_queue if key in batches else target.consume_queue
            os_files.make_directory(parent / key[0])
    crc_from, crc_to = record_crc_range(reader.paths)
    record = StopRecord(
        begin,
        seen.max_phy_offset,
        NO_CRC,
        plain,
        of_batches,
        batch_file_size,
        store_id=recorded_store_id(target.meta),
        record_crc_from=crc_from if crc_from < crc_to else -1,
    )
    os_files.make_directory(target.rocketflow)
    record.write(target)


def _last_phy_offset(reader: StoreReader, queue: tuple[str, int], end: int) -> int:
    """Return where the last message of a queue begins, -1 if that is not known."""
    found = reader.find(*queue)
    if found is None or not found.first_unit < end:
        return -1
    units = found.units(end - 1, end)
    return int(units["phy_offset"][0]) if len(units) else -1


def _copy(source: Path, target: Path) -> None:
    """Copy a small file and its permissions, if it exists."""
    try:
        data, mode = os_files.read_file(source), stat.S_IMODE(source.stat().st_mode)
    except FileNotFoundError:
        return
    except OSError as error:
        raise os_files.access_error(source, error) from error
    os_files.make_directory(target.parent)
    os_files.write_atomically(target, data, mode=mode)
