"""The bytes of `rocketflow/store.meta` and its copy `store.meta.bak`: who a store is, how and where it is made.

A JSON object:

    storeId, formatVersion                             who the store is; of which version RocketFlow's own files are
    mappedFileSizeCommitLog, mappedFileSizeConsumeQueue,
    maxHashSlotNum, maxIndexNum                        with which sizes the files are made
    enabledAppendPropCRC                               whether records have a CRC of themselves by default
    derivedProfile                                     as which RocketMQ version derived files are written
    storePathCommitLog, readOnlyCommitLogStorePaths,
    storePathConsumeQueue, storePathIndex              where not everything is beneath the root

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
"""Of RocketFlow's own files; a writer refuses a store of another one."""
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
    """Return the fields of a file; OSError if it cannot be read, ValueError if it is no JSON object."""
    return parse_json_object(read(path).decode("utf-8"))


def recorded_store_id(path: Path, read: ReadFile = os_files.read_file) -> str:
    """Return the id that a file records; "" if it records none or cannot be read."""
    try:
        return text_field(read_meta_fields(path, read), STORE_ID_KEY, "")
    except (OSError, ValueError, StoreError):
        return ""
