"""JSON files of `config/` whose members the store does not interpret: they are the broker's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from rocketflow_store.metadata.config_files.json_config_file import JsonConfigFile
from rocketflow_store.model.errors import StoreConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from rocketflow_store.model.clock import Clock

USERS_FILE: Final = "rocketflowUsers.json"
"""RocketFlow's file of users and policies, readable by the broker's user only; RocketMQ keeps them in RocksDB."""

PLAIN_FILES: Final = frozenset(
    {
        "consumerFilter.json",
        "consumerOrderInfo.json",
        "messageRequestMode.json",
        USERS_FILE,
        "topicQueueMapping.json",
        "transactionMetrics.json",
    }
)


class PlainJsonFile(JsonConfigFile):
    """One of `PLAIN_FILES`; its members are JSON values, replaced together."""

    HAS_VERSION: ClassVar[bool] = False

    def __init__(self, directory: Path, name: str, clock: Clock | None = None) -> None:
        """Raise StoreConfigError for a name that is not in `PLAIN_FILES`."""
        if name not in PLAIN_FILES:
            raise StoreConfigError("config file", name, f"must be one of {', '.join(sorted(PLAIN_FILES))}")
        super().__init__(directory, clock, name)
        if name == USERS_FILE:
            self.mode = 0o600
        self._members: dict[str, Any] = {}

    def load(self) -> dict[str, Any]:
        """Return the members of the file, {} if there is none; ConfigFileError if it and its `.bak` are damaged."""
        with self._guard:
            self._refresh()
            return dict(self._members)

    def save(self, members: dict[str, Any]) -> None:
        """Replace the members; durable on return. ValueError for a value that JSON does not have."""
        with self._guard:
            self._refresh()
            if members == self._members and self._document:
                return
            self._members, self._document = dict(members), {}
            self._persist()

    def _adopt(self, document: dict[str, Any]) -> None:
        self._members = dict(document)

    def members(self) -> dict[str, Any]:
        return self._members
