"""`rocketflow/store.meta`: who this store is and with which sizes its files are made; a mismatch refuses the open."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from rocketflow_store.errors import StoreVersionError
from rocketflow_store.files import os_files

if TYPE_CHECKING:
    from rocketflow_store.config import StoreConfig, StorePaths

FORMAT_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class StoreMeta:
    """Identity and sizes of a store that we have written to."""

    store_id: str
    format_version: int
    mapped_file_size_commit_log: int
    mapped_file_size_consume_queue: int

    @classmethod
    def load_or_create(cls, paths: StorePaths, config: StoreConfig) -> Self:
        """The store's meta data; written on the first open for writing."""
        if paths.meta.exists():
            meta = cls._load(paths)
            meta._check(paths, config)
            return meta
        meta = cls(
            uuid.uuid4().hex,
            FORMAT_VERSION,
            config.mapped_file_size_commit_log,
            config.mapped_file_size_consume_queue,
        )
        paths.rocketflow.mkdir(exist_ok=True)
        body = {
            "storeId": meta.store_id,
            "formatVersion": meta.format_version,
            "mappedFileSizeCommitLog": meta.mapped_file_size_commit_log,
            "mappedFileSizeConsumeQueue": meta.mapped_file_size_consume_queue,
        }
        os_files.write_atomically(paths.meta, json.dumps(body, indent=1).encode())
        return meta

    @classmethod
    def _load(cls, paths: StorePaths) -> Self:
        try:
            body = json.loads(paths.meta.read_bytes())
            return cls(
                str(body["storeId"]),
                int(body["formatVersion"]),
                int(body["mappedFileSizeCommitLog"]),
                int(body["mappedFileSizeConsumeQueue"]),
            )
        except OSError as error:
            raise os_files.access_error(paths.meta, error) from error
        except (ValueError, KeyError, TypeError) as error:
            raise StoreVersionError(
                paths.meta, f"is not readable ({error}); restore it, or remove it if this store is the right one"
            ) from error

    def _check(self, paths: StorePaths, config: StoreConfig) -> None:
        if self.format_version != FORMAT_VERSION:
            raise StoreVersionError(
                paths.meta, f"format version {self.format_version}, this version writes {FORMAT_VERSION}"
            )
        for name in ("mapped_file_size_commit_log", "mapped_file_size_consume_queue"):
            mine, theirs = getattr(self, name), getattr(config, name)
            if mine != theirs and (paths.commit_log if "commit" in name else paths.consume_queue).is_dir():
                raise StoreVersionError(paths.meta, f"says {name} is {mine}, the files (or the settings) say {theirs}")
