"""Observation of a store without a writer: every small file and directory is read once, and nothing is changed."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocketflow_store.files import os_files
from rocketflow_store.format.checkpoint_layout import CheckpointFields, decode_checkpoint
from rocketflow_store.metadata.config_files import ConfigFiles
from rocketflow_store.metadata.config_files.listed_topics import listed_topics
from rocketflow_store.metadata.layout.file_sizes import batch_file_size, fitted_to
from rocketflow_store.metadata.native.confirm import read_confirm
from rocketflow_store.metadata.native.deleted_topics import DeletedTopics
from rocketflow_store.metadata.native.durable_ends import DurableEnds
from rocketflow_store.metadata.native.healing import unfinished_healing
from rocketflow_store.metadata.native.stop_record import NO_CRC, StopRecord, believed_record
from rocketflow_store.model.errors import StoreError
from rocketflow_store.recovery.decide import Found, Stop
from rocketflow_store.recovery.derived_state import LostState, StopMarks, look_at_derived, misplaced
from rocketflow_store.recovery.derived_swap import is_unfinished

if TYPE_CHECKING:
    from rocketflow_store.files.read_once import ReadFile
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.settings.store_config import StoreConfig


@dataclass(frozen=True, slots=True)
class Observation:
    """State of a store; `config` has the file sizes that the store has."""

    paths: StorePaths
    config: StoreConfig
    stopped_rebuild: bool
    stop: StopMarks
    lost: LostState
    config_files: ConfigFiles
    checkpoint: bytes | OSError | StoreError
    misplaced: bool

    @property
    def found(self) -> Found:
        """Inputs of the tables."""
        lost = self.lost
        return Found(
            self.stopped_rebuild,
            self.how_stopped,
            bool(self.stop.deleted.unfinished),
            self.misplaced,
            bool(lost),
            lost.unfinished is not None,
        )

    @property
    def how_stopped(self) -> Stop:
        """Kind of the last writer's stop."""
        if not self.stop.abort_found:
            return Stop.CLEAN
        return Stop.UNCLEAN_UNKNOWN if self.stop.confirmed is None else Stop.UNCLEAN

    def checkpoint_fields(self) -> CheckpointFields:
        """Return the checkpoint, zeros without one; raise StoreError if it cannot be read."""
        if isinstance(self.checkpoint, bytes):
            return decode_checkpoint(self.checkpoint)
        if isinstance(self.checkpoint, (FileNotFoundError, IsADirectoryError)):  # a directory is quarantined
            return CheckpointFields()
        if isinstance(self.checkpoint, StoreError):
            raise self.checkpoint
        raise os_files.access_error(self.paths.checkpoint, self.checkpoint) from self.checkpoint


def observe(
    paths: StorePaths,
    config: StoreConfig,
    read: ReadFile = os_files.read_file,
    *,
    during_rebuild: bool = False,
) -> Observation:
    """Observe a store without a writer. If a rebuild was stopped, only that is observed.

    With `during_rebuild`, files that a rebuild made beside the store are ignored.
    """
    config_files = ConfigFiles(paths.config, config.clock)
    if not during_rebuild and is_unfinished(paths):
        stop, checkpoint = StopMarks(paths.abort.exists()), FileNotFoundError()
        return Observation(paths, config, True, stop, LostState(), config_files, checkpoint, False)
    record = believed_record(paths, read)
    config = fitted_config(paths, config, record, read)
    found = _checkpoint(paths)
    crc = zlib.crc32(found) if isinstance(found, bytes) else NO_CRC
    abort_found = paths.abort.exists()
    confirmed = read_confirm(paths) if abort_found else None
    stop = StopMarks(
        abort_found,
        record,
        record is not None and record.checkpoint == crc,
        confirmed,
        DurableEnds.load(paths) if confirmed is not None else None,
        DeletedTopics.load(paths),
        _has_index(found),
    )
    topics = listed_topics(paths, config_files)
    lost = look_at_derived(paths, config, stop, config_files, topics)
    lost.unfinished = unfinished_healing(paths)
    odd = any(True for _ in misplaced(paths, lost))
    return Observation(paths, config, False, stop, lost, config_files, found, odd)


def _checkpoint(paths: StorePaths) -> bytes | OSError | StoreError:
    try:
        return os_files.read_file(paths.checkpoint)
    except (OSError, StoreError) as error:
        return error


def _has_index(checkpoint: bytes | OSError | StoreError) -> bool:
    try:
        return isinstance(checkpoint, bytes) and decode_checkpoint(checkpoint).index_msg_timestamp > 0
    except StoreError:
        return False


def fitted_config(
    paths: StorePaths, config: StoreConfig, record: StopRecord | None, read: ReadFile = os_files.read_file
) -> StoreConfig:
    """Return `config` with the store's file sizes, also if a batch queue's only file was cut or is missing.

    `record` is the record of the last orderly stop.
    """
    config = fitted_to(config, paths, read)
    size = batch_file_size(paths, record.batch_file_size if record is not None and record.batch_file_size else None)
    return config if size is None else replace(config, mapper_file_size_batch_consume_queue=size)
