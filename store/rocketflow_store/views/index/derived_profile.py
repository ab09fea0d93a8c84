"""Detect the profile of derived files that other writers or an older RocketFlow left: see `format.derived_profile`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.files import os_files
from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
from rocketflow_store.format.checkpoint_layout import decode_checkpoint
from rocketflow_store.format.derived_profile import PROFILE_53, PROFILE_55
from rocketflow_store.log.log_view import CommitLogView
from rocketflow_store.metadata.layout.store_meta import recorded_profile
from rocketflow_store.model.errors import StoreConfigError, StoreError
from rocketflow_store.views.index.index_service import IndexService, has_index_entries
from rocketflow_store.views.index.tag_stretches import TagJudge

if TYPE_CHECKING:
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.settings.store_config import StoreConfig


def profile_of(paths: StorePaths, config: StoreConfig) -> str:
    """Return the profile that is recorded for the store, or else is detected from its files. Changes nothing."""
    return recorded_profile(paths) or detect_profile(paths, config)


def profile_to_write(paths: StorePaths, config: StoreConfig, recorded: str | None = None) -> str:
    """Return the profile to write: the store's, or the setting's if the store's index has no entries yet.

    `recorded` is the profile in `store.meta`, if the caller has read it. Raises StoreConfigError if the setting names
    another profile than the store has.
    """
    profile = (recorded_profile(paths) if recorded is None else recorded) or detect_profile(paths, config)
    if not config.profile or config.profile == profile:
        return profile
    if has_index_entries(paths.index):
        why = f"the derived files of {paths.root} are of profile {profile}; convert them with 'rocketflow store rebuild"
        why += f" {paths.root} --profile {config.profile}', or remove the setting"
        raise StoreConfigError("rocketflow.profile", config.profile, why)
    return config.profile


def detect_profile(paths: StorePaths, config: StoreConfig) -> str:
    """Return the profile of the newest derived files; that of RocketMQ 5.5 for a store without a log.

    The newest index entries of a message with TAGS decide. Without any, a checkpoint of 48 bytes or the (empty)
    database that every broker since 5.4.0 creates means 5.5; a store with neither is of 5.3 or older.
    """
    files = MappedFileQueue(paths.log_directories(), config.mapped_file_size_commit_log, write=False)
    index = None
    try:
        if not any(one.file_size for one in files.files):
            return PROFILE_55
        index = IndexService(paths.index, config.max_hash_slot_num, config.max_index_num, config.clock, write=False)
        named = TagJudge(index.files, CommitLogView(files)).newest(skip_partial=paths.abort.exists())
    finally:
        files.close()
        if index is not None:
            index.close()
    if named is None:
        named = _logics_physical_offset(paths) > 0 or paths.rocksdb_store.is_dir()
    return PROFILE_55 if named else PROFILE_53


def _logics_physical_offset(paths: StorePaths) -> int:
    try:
        return decode_checkpoint(os_files.read_file(paths.checkpoint)).logics_physical_offset
    except (OSError, StoreError):
        return 0
