"""`rocketflow/store.meta`: the identity of a store, the sizes of its files, and their directories.

If the sizes differ from those of the files, the open is refused. If not all files are below the root, `store.meta.bak`
is a copy: without either, the rest of the store could not be found.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rocketflow_store.files import os_files
from rocketflow_store.files.json_fields import bool_field, int64_field, text_field
from rocketflow_store.format.derived_profile import PROFILES
from rocketflow_store.metadata.layout.store_layout import claim, recorded_layout
from rocketflow_store.metadata.layout.store_paths import StorePaths
from rocketflow_store.metadata.native.root_paths import RootPaths
from rocketflow_store.metadata.native.store_meta_fields import (
    FORMAT_VERSION,
    FORMAT_VERSION_KEY,
    PROFILE_KEY,
    PROPERTY_CRC_KEY,
    SIZE_KEYS,
    STORE_ID_KEY,
    encode_meta_fields,
    read_meta_fields,
    recorded_store_id,
)
from rocketflow_store.model.errors import StoreError, StoreVersionError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from rocketflow_store.files.read_once import ReadFile
    from rocketflow_store.settings.store_config import StoreConfig


@dataclass(frozen=True, slots=True)
class StoreMeta:
    """Identity of a store that RocketFlow has written to, and the sizes of its files."""

    store_id: str
    format_version: int
    sizes: dict[str, int]
    append_prop_crc: bool = False
    """True if records end with a CRC unless the settings say otherwise."""
    profile: str = ""
    """The RocketMQ version whose derived files the store has; empty if it was not recorded."""

    @classmethod
    def load_or_create(
        cls,
        paths: StorePaths,
        config: StoreConfig,
        choose_profile: Callable[[str], str],
        read: ReadFile = os_files.read_file,
    ) -> Self:
        """Return the store's metadata; write it on the first open for writing.

        `choose_profile` takes the recorded profile ("" if there is none) and returns the profile to write.
        """
        recorded = recorded_layout(paths.root, read)
        before: Self | None = None
        if paths.meta.exists():
            before = meta = cls._load(paths, read)
            meta._check(paths, config)
        else:
            store_id = recorded.store_id if recorded is not None else uuid.uuid4().hex
            chosen = config.enabled_append_prop_crc
            is_new = recorded is None and not _has_log(paths)
            meta = cls(
                store_id,
                FORMAT_VERSION,
                {name: getattr(config, name) for name in SIZE_KEYS},
                is_new if chosen is None else chosen,
            )
        meta = replace(meta, profile=choose_profile(meta.profile))
        known = recorded.layout if recorded is not None else None
        if paths.layout != known or meta != before:
            claim(paths.root, paths.layout, meta.store_id)
            meta._save(paths)
        return meta

    def _save(self, paths: StorePaths) -> None:
        os_files.make_directory(paths.rocketflow)
        data = self.encode(paths)
        if not paths.layout.is_default or paths.meta_copy.exists():
            os_files.write_atomically(paths.meta_copy, data)
        os_files.write_atomically(paths.meta, data)

    def encode(self, paths: StorePaths) -> bytes:
        fields = {
            STORE_ID_KEY: self.store_id,
            FORMAT_VERSION_KEY: self.format_version,
            **{SIZE_KEYS[name]: size for name, size in self.sizes.items()},
            PROPERTY_CRC_KEY: self.append_prop_crc,
            PROFILE_KEY: self.profile,
            **({} if paths.layout.is_default else paths.layout.as_dict()),
        }
        return encode_meta_fields(fields)

    @classmethod
    def _load(cls, paths: StorePaths, read: ReadFile = os_files.read_file) -> Self:
        try:
            body = read_meta_fields(paths.meta, read)
            sizes = {name: int64_field(body, key, 0) for name, key in SIZE_KEYS.items()}
            property_crc, profile = bool_field(body, PROPERTY_CRC_KEY, False), text_field(body, PROFILE_KEY, "")
            if profile not in ("", *PROFILES):
                raise ValueError(f"{PROFILE_KEY} is {profile!r}, not one of {', '.join(PROFILES)}")
            version = int64_field(body, FORMAT_VERSION_KEY, 0)
            return cls(text_field(body, STORE_ID_KEY, ""), version, sizes, property_crc, profile)
        except OSError as error:
            raise os_files.access_error(paths.meta, error) from error
        except ValueError as error:
            raise StoreVersionError(
                paths.meta, f"is not readable ({error}); restore it, or remove it if this store is the right one"
            ) from error

    def check_version(self, paths: StorePaths) -> None:
        """Raise StoreVersionError if the store has another format version."""
        if self.format_version != FORMAT_VERSION:
            raise StoreVersionError(
                paths.meta,
                f"is of format version {self.format_version}, this RocketFlow writes {FORMAT_VERSION}: "
                "write with the version that created it; reading is still possible",
            )

    def _check(self, paths: StorePaths, config: StoreConfig) -> None:
        self.check_version(paths)
        for name, recorded in self.sizes.items():
            found = getattr(config, name)
            if recorded != found:
                raise StoreVersionError(paths.meta, f"says {SIZE_KEYS[name]} is {recorded}, the files say {found}")


def refuse_another_version(paths: StorePaths) -> None:
    """Raise StoreVersionError if the store has another format version: it must not be changed.

    A file that cannot be parsed does not count as another version.
    """
    try:
        meta = StoreMeta._load(paths) if paths.meta.is_file() else None
    except StoreVersionError:
        return
    if meta is not None:
        meta.check_version(paths)


def recorded_profile(paths: StorePaths) -> str:
    """Return the profile that `store.meta` records; empty if it records none or cannot be read."""
    try:
        return StoreMeta._load(paths).profile if paths.meta.is_file() else ""
    except StoreError:
        return ""


def converted_meta(paths: StorePaths, profile: str) -> bytes | None:
    """Return `store.meta` with another profile; None if it has that profile or does not exist."""
    if not paths.meta.is_file():
        return None
    meta = StoreMeta._load(paths)
    return None if meta.profile == profile else replace(meta, profile=profile).encode(paths)


def gives_record_crc(paths: StorePaths) -> bool:
    """Return True if a writer appends a CRC to the records of this store, or of a new one here, by default."""
    return StoreMeta._load(paths).append_prop_crc if paths.meta.exists() else not _has_log(paths)


def config_for_encoding(path: str | os.PathLike[str], config: StoreConfig) -> StoreConfig:
    """Return the settings for encoding records for the store at a path in another process than its writer."""
    return replace(config, enabled_append_prop_crc=gives_record_crc(StorePaths.of(Path(path), config)))


def store_id(path: str | os.PathLike[str]) -> str:
    """Return the id that `store.meta` records of the store at a path; "" if it records none or cannot be read."""
    return recorded_store_id(RootPaths(Path(path)).meta)


def _has_log(paths: StorePaths) -> bool:
    """Return True if a log file exists."""
    return any(
        one.name.isdigit() for directory in paths.commit_logs if directory.is_dir() for one in directory.iterdir()
    )
