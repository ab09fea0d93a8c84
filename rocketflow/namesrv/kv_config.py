"""Texts by namespace and key, kept in RocketMQ's file.

RocketMQ's source: namesrv/kvconfig/KVConfigManager.java, KVConfigSerializeWrapper.java.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

import msgspec

from rocketflow.remoting.bodies import Body, decode_body, encode_body

ORDER_TOPICS: Final = "ORDER_TOPIC_CONFIG"
"""Namespace of the ordered topics: topic -> `brokerA:4;brokerB:4`."""


class _KvFile(Body, kw_only=True):
    config_table: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)


class KvConfig:
    """Texts by namespace and key; each change is written to the file before it counts."""

    def __init__(self, path: Path) -> None:
        """Load the file, if there is one. Raises OSError and BodyError."""
        self._path = path
        self._table: dict[str, dict[str, str]] = {}
        with contextlib.suppress(FileNotFoundError):
            self._table = decode_body(path.read_bytes(), _KvFile).config_table

    def get(self, namespace: str, key: str) -> str | None:
        """Return a text, None if there is none."""
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """Return the texts of a namespace, None if it does not exist."""
        found = self._table.get(namespace)
        return None if found is None else dict(found)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a text. Raises OSError if the file cannot be written; the old text then stays."""
        changed = {name: dict(texts) for name, texts in self._table.items()}
        changed.setdefault(namespace, {})[key] = value
        self._save(changed)

    def delete(self, namespace: str, key: str) -> None:
        """Remove a text. Raises OSError if the file cannot be written; the text then stays."""
        if self.get(namespace, key) is not None:
            changed = {name: dict(texts) for name, texts in self._table.items()}
            del changed[namespace][key]
            self._save(changed)

    def _save(self, table: dict[str, dict[str, str]]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_name(f"{self._path.name}.tmp")
        with new.open("wb") as file:
            file.write(encode_body(_KvFile(config_table=table)))
            file.flush()
            os.fsync(file.fileno())
        if self._path.exists():
            os.replace(self._path, self._path.with_name(f"{self._path.name}.bak"))
        os.replace(new, self._path)
        self._table = table
