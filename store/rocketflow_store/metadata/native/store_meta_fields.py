"""The bytes of `rocketflow/store.meta` and its copy `store.meta.bak`: identity, sizes and directories of a store.

A JSON object:

    storeId, formatVersion                             identity of the store; version of RocketFlow's own files
    mappedFileSizeCommitLog, mappedFileSizeConsumeQueue,
    maxHashSlotNum, maxIndexNum                        sizes of the files
    enabledAppendPropCRC                               true if records end with a CRC by default
    derivedProfile                                     RocketMQ version in whose format derived files are written
    storePathCommitLog, readOnlyCommitLogStorePaths,
    storePathConsumeQueue, storePathIndex              directories, if not all are below the root

Readers take the fields that they need: each field has its own rules (`layout.store_meta`, `layout.store_layout`,
`layout.file_sizes`). A broker does not read the file.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.files import os_files
from rocketflow_store.files.fastjson import parse_json_object
from rocketflow_store.files.json_fields import text_field
from rocketflow_store.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocketflow_store.files.read_once import ReadFile

FORMAT_VERSION: Final = 1
"""Version of RocketFlow's own files; a writer refuses a store of another version."""
STORE_ID_KEY: Final = "storeId"
FORMAT_VERSION_KEY: Final = "formatVersion"
SIZE_KEYS: Final = {
    "mapped_file_size_commit_log": "mappedFileSizeCommitLog",
    "mapped_file_size_consume_queue": "mappedFileSizeConsumeQueue",
    "max_hash_slot_num": "maxHashSlotNum",
    "max_index_num": "maxIndexNum",
}
"""Settings that are properties of a store's files, and RocketMQ's keys for them."""
PROPERTY_CRC_KEY: Final = "enabledAppendPropCRC"
PROFILE_KEY: Final = "derivedProfile"
COMMIT_LOGS_KEY: Final = "storePathCommitLog"
READ_ONLY_LOGS_KEY: Final = "readOnlyCommitLogStorePaths"
CONSUME_QUEUE_KEY: Final = "storePathConsumeQueue"
INDEX_KEY: Final = "storePathIndex"


def encode_meta_fields(fields: Mapping[str, Any]) -> bytes:
    """Return the file's bytes."""
    return json.dumps(fields, indent=1).encode()


def read_meta_fields(path: Path, read: ReadFile = os_files.read_file) -> dict[str, Any]:
    """Return the fields of a file; raise OSError if it cannot be read, ValueError if it is no JSON object."""
    return parse_json_object(read(path).decode("utf-8"))


def recorded_store_id(path: Path, read: ReadFile = os_files.read_file) -> str:
    """Return the id that a file records; "" if it records none or cannot be read."""
    try:
        return text_field(read_meta_fields(path, read), STORE_ID_KEY, "")
    except (OSError, ValueError, StoreError):
        return ""
