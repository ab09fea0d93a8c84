"""`rocketflow/store.meta`: who this store is and with which sizes its files are made; a mismatch refuses the open."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from rocketflow_store.config import SIZE_FIELDS, camel_case
from rocketflow_store.config_files.fastjson import parse_json_object
from rocketflow_store.config_files.json_fields import int64_field, text_field
from rocketflow_store.errors import StoreVersionError
from rocketflow_store.files import os_files

if TYPE_CHECKING:
    from rocketflow_store.config import StoreConfig, StorePaths

FORMAT_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class StoreMeta:
    """Identity of a store that we have written to, and the sizes of its files."""

    store_id: str
    format_version: int
    sizes: dict[str, int]

    @classmethod
    def load_or_create(cls, paths: StorePaths, config: StoreConfig) -> Self:
        """The store's meta data; written on the first open for writing."""
        if paths.meta.exists():
            meta = cls._load(paths)
            meta._check(paths, config)
            return meta
        meta = cls(uuid.uuid4().hex, FORMAT_VERSION, {name: getattr(config, name) for name in SIZE_FIELDS})
        os_files.make_directory(paths.rocketflow)
        body = {
            "storeId": meta.store_id,
            "formatVersion": meta.format_version,
            **{camel_case(name): size for name, size in meta.sizes.items()},
        }
        os_files.write_atomically(paths.meta, json.dumps(body, indent=1).encode())
        return meta

    @classmethod
    def _load(cls, paths: StorePaths) -> Self:
        try:
            body = parse_json_object(os_files.read_file(paths.meta).decode("utf-8"))
            sizes = {name: int64_field(body, camel_case(name), 0) for name in SIZE_FIELDS}
            return cls(text_field(body, "storeId", ""), int64_field(body, "formatVersion", 0), sizes)
        except OSError as error:
            raise os_files.access_error(paths.meta, error) from error
        except ValueError as error:
            raise StoreVersionError(
                paths.meta, f"is not readable ({error}); restore it, or remove it if this store is the right one"
            ) from error

    def _check(self, paths: StorePaths, config: StoreConfig) -> None:
        if self.format_version != FORMAT_VERSION:
            raise StoreVersionError(
                paths.meta, f"format version {self.format_version}, this version writes {FORMAT_VERSION}"
            )
        for name, mine in self.sizes.items():
            theirs = getattr(config, name)
            if mine != theirs:
                raise StoreVersionError(paths.meta, f"says {camel_case(name)} is {mine}, the files say {theirs}")
