"""One JSON file of `config/`: loaded with its `.bak` as the fallback, replaced atomically.

If the file exists but neither it nor its `.bak` can be parsed, reading it is an error: starting with an empty file
would lose its content.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rocketflow_store.files.fastjson import format_json, parse_json_object
from rocketflow_store.files.json_fields import object_field
from rocketflow_store.files.os_files import (
    access_error,
    make_directory,
    read_file,
    sync_directory,
    write_atomically,
)
from rocketflow_store.model.clock import Clock, SystemClock
from rocketflow_store.model.errors import CorruptRecordError
from rocketflow_store.tables.data_version import DataVersion
from rocketflow_store.tables.table_row import entry_of, row_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class ConfigFileError(CorruptRecordError):
    """A config file and its `.bak` are both unreadable: repair one, or delete both to start with defaults."""

    def __init__(self, file: object, why: str, backup_why: str) -> None:
        super().__init__(
            file, 0, f"{why}; its .bak {backup_why}; restore one of them, or delete both to start with defaults"
        )


class _Fault(NamedTuple):
    """The reason why a file cannot be used."""

    why: str
    missing: bool = False


class JsonConfigFile(ABC):
    """Base of the typed files. Reads return the present content of the file; changes need the store's write lock.

    Unknown members of the JSON survive every rewrite.
    """

    NAME: ClassVar[str]
    HAS_VERSION: ClassVar[bool] = True
    """False for a file that RocketMQ writes without `dataVersion`."""

    mode: int = 0o644

    def __init__(self, directory: Path, clock: Clock | None = None, name: str | None = None) -> None:
        self.path = directory / (name or self.NAME)
        self._is_held = False
        self._clock = clock or SystemClock()
        self._guard = threading.RLock()
        self._document: dict[str, Any] = {}
        self._version = DataVersion()
        self._seen: object = None
        self._name_is_good = True
        self._gathers = self._has_unwritten = False

    def hold(self) -> None:
        """Serve reads from memory from now on: the caller's process has the store's write lock until it ends."""
        self._is_held = True

    @property
    def data_version(self) -> DataVersion:
        with self._guard:
            self._refresh()
            return self._version

    @abstractmethod
    def _adopt(self, document: dict[str, Any]) -> None:
        """Take over the members of `document`; raise ValueError, and change nothing, if one is invalid."""

    @abstractmethod
    def members(self) -> dict[str, Any]:
        """Return the members to write, except for `dataVersion`."""

    def _refresh(self) -> None:
        """Load the file if it has changed since the last load; one that is held is loaded once."""
        if self._is_held and self._seen is not None:
            return
        signature = (_signature(self.path), _signature(_backup(self.path)))
        if signature == self._seen:
            return
        fault = self._try_load(self.path)
        self._name_is_good = fault is None
        if fault is not None:
            backup_fault = self._try_load(_backup(self.path))
            if backup_fault is not None and not (fault.missing and backup_fault.missing):
                raise ConfigFileError(self.path, fault.why, backup_fault.why)
            if backup_fault is not None:
                self._adopt({})
                self._document, self._version = {}, DataVersion()
        self._seen = signature

    def _try_load(self, path: Path) -> _Fault | None:
        """Load `path`; return None, or the reason why it cannot be used."""
        try:
            raw = read_file(path)
        except FileNotFoundError:
            return _Fault("is missing", missing=True)
        except OSError as error:
            raise access_error(path, error) from error
        if not raw.strip():
            return _Fault("is empty")
        try:
            document = parse_json_object(raw.decode("utf-8"))
            version = row_of(DataVersion, object_field(document, "dataVersion"))
            self._adopt(document)
        except ValueError as error:
            return _Fault(f"cannot be understood ({error})")
        self._document, self._version = document, version
        return None

    @contextmanager
    def one_write(self) -> Iterator[None]:
        """Write the changes of a block together, at its end. Raises StoreError there."""
        with self._guard:
            if self._gathers:
                yield
                return
            self._gathers = True
            try:
                yield
            finally:
                self._gathers = False
                if self._has_unwritten:
                    self._has_unwritten = False
                    self._persist()

    def renew_version(self) -> None:
        """Write the file as it is under the next data version. Raises StoreError."""
        with self._guard:
            self._refresh()
            self._persist()

    def _persist(self) -> None:
        """Write the current members under the next data version; keep the previous file as `.bak` if it was valid."""
        if self._gathers:
            self._has_unwritten = True
            return
        version = self._version.next(self._clock.now_ms())
        document = {**self._document, **self.members()}
        if self.HAS_VERSION:
            document["dataVersion"] = entry_of(version)
        directory = self.path.parent
        if not directory.is_dir():
            try:
                make_directory(directory)
            except OSError as error:
                raise access_error(directory, error) from error
            sync_directory(directory.parent)
        try:
            data = format_json(dict(sorted(document.items())))
            write_atomically(self.path, data, keep_backup=self._name_is_good, mode=self.mode)
        except BaseException:
            self._seen = None  # memory is ahead of the disk: load again from the disk
            raise
        self._document, self._version, self._name_is_good = document, version, True
        self._seen = (_signature(self.path), _signature(_backup(self.path)))


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise access_error(path, error) from error
    return status.st_ino, status.st_size, status.st_mtime_ns
