"""Stores in options: values of `path`, parsed and checked, and the settings to open each store with."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from rocketflow.spark.shared.option_values import OptionValues, bad_value_error
from rocketflow_store import StoreConfig
from rocketflow_store.spi.settings import load_settings

_STORE_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_ADDRESSES: Final = re.compile(r"[\w.\-\[\]]+:\d{1,5}(;[\w.\-\[\]]+:\d{1,5})*")

_NAME_SERVERS: Final = re.compile(r"[^/=;,\s]+:\d{1,5}([;,][^/=;,\s]+:\d{1,5})*[;,]?")
"""NameServers: `host:port`, several separated by `;`."""


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """One store directory; `name` is "" for a single store without a name."""

    name: str
    path: str
    settings: tuple[tuple[str, Any], ...] = ()
    """Settings by key, as the driver read them: executors need neither its environment nor its broker.conf."""

    def store_config(self) -> StoreConfig:
        """Return the settings to open the store with."""
        return StoreConfig.from_mapping(dict(self.settings))


def source_place(text: str) -> dict[str, str]:
    """Return the option for a store's directory or, for `host:port`, for the NameServers of brokers."""
    is_address = _NAME_SERVERS.fullmatch(text) is not None and not os.path.exists(text)
    return {"namesrvAddr" if is_address else "path": text}


def parse_stores(text: str) -> tuple[StoreLocation, ...]:
    """Parse `dir` or `name=dir,name=dir` into locations with absolute paths."""
    parts = [part.strip() for part in text.split(",")]
    named = [part.partition("=") for part in parts]
    if not all(_STORE_NAME.fullmatch(name) and equals for name, equals, _ in named) or os.path.isdir(text):
        return (StoreLocation("", local_path(text)),)
    stores = tuple(StoreLocation(name, local_path(path)) for name, _, path in named)
    if len({store.name for store in stores}) < len(stores):
        raise bad_value_error("path", text, "a different name for each store: name=dir,name=dir")
    if len({store.path for store in stores}) < len(stores):
        raise bad_value_error("path", text, "a different directory for each name")
    return stores


def local_path(text: str) -> str:
    """Return a store's directory as an absolute path; raise OptionError if it is not on the local file system."""
    path = text.strip()
    scheme = urlsplit(path).scheme
    if scheme == "file":
        path = unquote(urlsplit(path).path)
    elif "://" in path:
        raise bad_value_error("path", text, "a directory of the local file system (or one mounted on all executors)")
    if not path:
        raise bad_value_error("path", text, "a store directory, or name=dir,name=dir")
    if _ADDRESSES.fullmatch(path) and not os.path.isdir(path):
        raise bad_value_error("path", text, "a store directory; for brokers give namesrvAddr instead of path")
    return os.path.abspath(path)


def given_settings(values: OptionValues) -> tuple[tuple[str, Any], ...]:
    """Return the settings of the environment and of the broker.conf that option `config` names, by key."""
    found = tuple(sorted(load_settings(values.text("config")).items()))
    StoreConfig.from_mapping(dict(found))  # raises for a value that no store can have
    return found
