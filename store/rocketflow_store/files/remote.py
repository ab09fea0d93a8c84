"""Directories in object storage, or in any file system of pyarrow.fs (or fsspec, if it is installed), by their URI.

Credentials come from the environment (AWS_ACCESS_KEY_ID and so on) or from the URI; secrets in a URI appear in no name,
error or log line.
"""

from __future__ import annotations

import importlib
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import pyarrow as pa

from rocketflow_store.model.errors import NotAStoreError, RemoteStoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow.fs import FileSystem

_SECRETS: Final = ("secret", "password", "token", "key", "credential", "signature", "sas")
_OF_ONE_PROCESS: Final = ("memory", "mock")
_CHECKSUMS: Final = ("AWS_REQUEST_CHECKSUM_CALCULATION", "AWS_RESPONSE_CHECKSUM_VALIDATION")
"""Checksums that many servers other than Amazon's do not know, and that Amazon's client sends by default."""
_HIDDEN: Final = "***"
_PART: Final = 8 << 20

_file_systems: dict[str, tuple[FileSystem, str]] = {}


def is_uri(text: str) -> bool:
    """Return True if a location is given by a URI, not by a path of this machine."""
    return "://" in text


def any_opened() -> bool:
    """Return True if this process has a client of object storage, which would not survive a fork."""
    return bool(_file_systems)


@dataclass(frozen=True, slots=True)
class RemoteDirectory:
    """The directory at `uri`; failures raise RemoteStoreError, an unknown URI NotAStoreError."""

    uri: str

    def __repr__(self) -> str:
        return f"RemoteDirectory({self.name!r})"

    @property
    def name(self) -> str:
        """The URI without its secrets."""
        parts = urlsplit(self.uri)
        host = parts.netloc.rpartition("@")
        query = [(key, _HIDDEN if _is_secret(key) else value) for key, value in parse_qsl(parts.query)]
        netloc = f"{_HIDDEN}@{host[2]}" if host[1] else parts.netloc
        return _uri(parts.scheme, netloc, parts.path.rstrip("/"), urlencode(query, safe=":/*"))

    def below(self, name: str) -> RemoteDirectory:
        """Return a directory in this one."""
        parts = urlsplit(self.uri)
        return RemoteDirectory(_uri(parts.scheme, parts.netloc, f"{parts.path.rstrip('/')}/{name}", parts.query))

    def name_of(self, relative: str) -> str:
        """Return the name of a file for messages."""
        return f"{self.name.partition('?')[0]}/{relative}"

    def files(self, *, recursive: bool = False) -> list[tuple[str, int]]:
        """Return (path below this directory, bytes) of its files, by path; none if it does not exist."""
        from pyarrow.fs import FileSelector, FileType

        system, base = self._open()
        with self._typed_errors(""):
            found = system.get_file_info(FileSelector(base, allow_not_found=True, recursive=recursive))
        start = len(base.rstrip("/")) + 1
        return sorted((one.path[start:], int(one.size)) for one in found if one.type == FileType.File)

    def read(self, relative: str) -> bytes:
        """Return the content of a small file."""
        system, base = self._open()
        with self._typed_errors(relative), system.open_input_file(f"{base}/{relative}") as opened:
            return bytes(opened.read())

    def opened(self, relative: str) -> RemoteFile:
        """Open a file to be read range by range."""
        system, base = self._open()
        with self._typed_errors(relative):
            return RemoteFile(self, relative, system.open_input_file(f"{base}/{relative}"))

    def put(self, relative: str, data: bytes) -> None:
        """Write a small file."""
        system, base = self._open()
        with self._typed_errors(relative):
            self._make_room(system, f"{base}/{relative}")
            with system.open_output_stream(f"{base}/{relative}") as stream:
                stream.write(data)

    def put_file(self, relative: str, path: str) -> None:
        """Copy a local file to the directory; it is visible as a whole once this returns."""
        system, base = self._open()
        with self._typed_errors(relative):
            self._make_room(system, f"{base}/{relative}")
            with pa.OSFile(path, "rb") as source, system.open_output_stream(f"{base}/{relative}") as stream:
                while block := source.read_buffer(_PART):
                    if block.size == 0:
                        break
                    stream.write(block)

    def remove(self, relative: str) -> None:
        """Delete a file; do nothing if it does not exist."""
        from pyarrow.fs import FileType

        system, base = self._open()
        with self._typed_errors(relative):
            if system.get_file_info(f"{base}/{relative}").type == FileType.File:
                system.delete_file(f"{base}/{relative}")

    def _make_room(self, system: FileSystem, path: str) -> None:
        if system.type_name == "local":  # others have no directories, or create them
            system.create_dir(path.rpartition("/")[0], recursive=True)

    def _open(self) -> tuple[FileSystem, str]:
        known = _file_systems.get(self.uri)
        if known is None:
            with self._typed_errors(""):
                known = _file_systems[self.uri] = self._connect()
        return known

    def _connect(self) -> tuple[FileSystem, str]:
        from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem

        scheme = urlsplit(self.uri).scheme
        if scheme in _OF_ONE_PROCESS:
            raise NotAStoreError(self.name, "is the memory of one process; name a place that other processes see")
        if "endpoint_override=" in self.uri:
            for name in _CHECKSUMS:
                os.environ.setdefault(name, "when_required")
        try:
            system, path = FileSystem.from_uri(self.uri)
        except pa.ArrowInvalid as error:
            try:
                fsspec: Any = importlib.import_module("fsspec")
                handler, path = fsspec.core.url_to_fs(self.uri)
            except (ImportError, ValueError):
                raise NotAStoreError(self.name, f"cannot be opened: {self._clean(error)}") from None
            system = PyFileSystem(FSSpecHandler(handler))
        return system, path.rstrip("/")

    @contextmanager
    def _typed_errors(self, relative: str) -> Iterator[None]:
        """Raise errors of the storage's client as RemoteStoreError, without secrets."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            why = self._clean(error)
            raise RemoteStoreError(self.name_of(relative) if relative else self.name, why) from None

    def _clean(self, error: BaseException) -> str:
        text = " ".join(str(error).split())
        parts = urlsplit(self.uri)
        secrets = [parts.username, parts.password, *(value for key, value in parse_qsl(parts.query) if _is_secret(key))]
        text = text.replace(self.uri, self.name)
        for one in secrets:
            text = text.replace(one, _HIDDEN) if one else text
        return text


class RemoteFile:
    """An open file of a RemoteDirectory."""

    def __init__(self, directory: RemoteDirectory, relative: str, opened: Any) -> None:
        self._directory, self._relative, self._opened = directory, relative, opened

    def read_at(self, start: int, size: int) -> memoryview:
        """Return `size` bytes from `start` on; raise RemoteStoreError if there are fewer."""
        with self._directory._typed_errors(self._relative):
            data = memoryview(self._opened.read_at(size, start))
            if len(data) != size:
                raise OSError(f"{len(data)} of {size} bytes read at {start}: the file is shorter than it was listed")
        return data

    def close(self) -> None:
        with self._directory._typed_errors(self._relative):
            self._opened.close()


def _uri(scheme: str, netloc: str, path: str, query: str) -> str:
    """Join the parts of a URI unchanged; the standard library drops slashes of schemes that it does not know."""
    return f"{scheme}://{netloc}{path}" + (f"?{query}" if query else "")


def _is_secret(key: str) -> bool:
    return any(one in key.lower() for one in _SECRETS)
