"""Settings that are changed over the network while a server runs: those that `rocketflow.adminConfigKeys` lists.

RocketMQ's source: common/Configuration.java (update, persist).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow.aio.server import RefusedError
from rocketflow.errors import UsageError
from rocketflow.process.nearest import did_you_mean
from rocketflow.process.properties import property_text, with_value
from rocketflow.process.server_settings import ADMIN_KEYS
from rocketflow.remoting.codes import ResponseCode
from rocketflow_store import StoreError
from rocketflow_store.spi.settings import parse_properties

if TYPE_CHECKING:
    from rocketflow.process.server_settings import ServerSettings

LOG: Final = logging.getLogger("rocketflow.process")

_LISTING: Final = f"list the key in {ADMIN_KEYS} of that file"


class LiveSettings:
    """Changes a server's settings by requests 25 and 318; one change at a time.

    `file` is the properties file that the server was started with, if there is one: a change is written there first, so
    that the next start finds it, as in RocketMQ.
    """

    def __init__(self, settings: ServerSettings, file: Path | None) -> None:
        self._settings = settings
        self._file = file
        self._changing = asyncio.Lock()

    async def change(self, body: bytes, by: str) -> dict[str, Any]:
        """Change settings as a properties text says, for the peer `by`; return the values by key.

        Raises RefusedError, and changes nothing then: 16 for a key that may not be changed, 29 for a value that does
        not fit its key, 1 if the file cannot be written.
        """
        wanted = self._wanted(body)
        async with self._changing:
            if self._file is not None and wanted:
                try:
                    await asyncio.to_thread(_write, self._file, wanted)
                except (OSError, StoreError) as error:
                    why = f"the change cannot be kept in {self._file}: {error}"
                    raise RefusedError(ResponseCode.SYSTEM_ERROR, why) from None
            self._settings.take(wanted)
        for key, value in wanted.items():
            kept = f"and written to {self._file}" if self._file is not None else "until the server stops"
            LOG.warning("%s=%s: changed over the network by %s, %s", key, property_text(value), by, kept)
        return wanted

    def _wanted(self, body: bytes) -> dict[str, Any]:
        """Return the new values by key. Raises RefusedError."""
        allowed = self._settings.admin_keys
        if not allowed:
            why = "settings are not changed over the network: change the server's file and start it again"
            raise RefusedError(ResponseCode.NO_PERMISSION, f"{why}, or {_LISTING}")
        found = {}
        try:
            for _, key, text in parse_properties(body.decode("utf-8", "replace")):
                if key not in allowed:
                    why = f"{key} is not changed over the network: {self._remedy(key)}"
                    raise RefusedError(ResponseCode.NO_PERMISSION, why)
                found[key] = self._settings.value_of(key, text)
        except (UsageError, StoreError) as error:
            raise RefusedError(ResponseCode.INVALID_PARAMETER, str(error)) from None
        return found

    def _remedy(self, key: str) -> str:
        if key in self._settings.live_keys:
            return _LISTING
        if key in self._settings.TABLE:
            return "it is read at the start only: change the server's file and start it again"
        return did_you_mean(key, self._settings.admin_keys)


def _write(file: Path, values: Mapping[str, Any]) -> None:
    """Set keys in a properties file, whose other lines stay. Raises OSError, and StoreError for a malformed escape."""
    path = file.resolve()
    text = path.read_bytes().decode("latin-1")  # each byte stays what it is
    for key, value in values.items():
        text = with_value(text, key, value)
    new = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with new.open("wb") as opened:
            shutil.copymode(path, new)
            opened.write(text.encode("latin-1"))
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(new, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            new.unlink()
