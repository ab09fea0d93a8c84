"""Findings of `verify` that an operator has accepted: JSON lines of file, offset, length and a digest of the bytes.

A finding is accepted as long as its bytes do not change; after a change it is a new one.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.files import os_files
from rocketflow_store.files.json_text import parse_json
from rocketflow_store.files.os_files import access_error
from rocketflow_store.model.clock import SystemClock
from rocketflow_store.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow_store.fsck.findings import Finding, VerifyResult

LOSS_KINDS: Final = frozenset({"record", "missing-file", "stray-unit"})
"""Kinds of findings that can mean lost messages."""
_CHUNK: Final = 1 << 20
_ABSENT: Final = "absent"
_UNREADABLE: Final = "unreadable"

Key = tuple[str, str, int, int, str]


class AcceptedFileError(StoreError):
    """A line of a file of accepted findings cannot be read."""

    exit_code = 2

    def __init__(self, path: Path, line: int, why: str) -> None:
        super().__init__(f"{path} line {line}: {why}; give a file that verify --accept wrote")


@dataclass(slots=True)
class AcceptedFindings:
    """The accepted findings of the store at `root`, kept in the file `path`."""

    path: Path
    root: Path
    known: set[Key] = field(default_factory=set)
    begun: bool = False
    """True if an earlier run wrote to the file."""

    @classmethod
    def load(cls, path: str | Path, root: Path) -> AcceptedFindings:
        """Read `path`; no findings are accepted if it does not exist."""
        found = cls(Path(path), root.absolute())
        try:
            text = os_files.read_file(found.path).decode("utf-8")
        except FileNotFoundError:
            return found
        except UnicodeDecodeError as error:
            raise AcceptedFileError(found.path, 1, "not UTF-8") from error
        except OSError as error:
            raise access_error(found.path, error) from error
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                found.begun = True
                key = _key_of_line(found.path, number, line)
                found.known |= set() if key is None else {key}
        return found

    def is_accepted(self, finding: Finding) -> bool:
        """Return True if the finding is known, and its bytes are unchanged."""
        return self._key(finding) in self.known

    def add(self, findings: Sequence[Finding]) -> None:
        """Append findings to the file; durable on return. A first run without findings notes that there were none."""
        date = f"{datetime.fromtimestamp(SystemClock().now_ms() // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
        lines = [] if findings or self.begun else [json.dumps({"findings": 0, "date": date}) + "\n"]
        for one in findings:
            kind, file, offset, length, digest = key = self._key(one)
            self.known.add(key)
            fields = {"file": file, "offset": offset, "length": length, "digest": digest, "date": date}
            lines.append(json.dumps({**fields, "kind": kind, "detail": one.detail}, ensure_ascii=False) + "\n")
        if not lines:
            return
        data = "".join(lines).encode()
        fd = os_files.open_file(self.path, write=True, create=True)
        try:
            os_files.write_at(fd, self.path, os_files.file_size(fd), data)
            os_files.sync_file(fd, self.path)
        finally:
            os_files.close_file(fd)
        os_files.sync_directory(self.path.absolute().parent)

    def exit_code(self, result: VerifyResult, fresh: Sequence[Finding]) -> int:
        """Return 0 if nothing is new, 3 if new findings can be lost messages, else 1."""
        if not fresh and not result.unlisted:
            return 0
        lost = result.unlisted or any(one.kind in LOSS_KINDS for one in fresh)
        return 3 if result.lost_records and lost else 1

    def _key(self, finding: Finding) -> Key:
        path = Path(finding.file)
        inside = path.is_relative_to(self.root)
        name = str(path.relative_to(self.root)) if inside else str(path)
        return finding.kind, name, finding.offset, finding.length, _digest(path, finding)


def _digest(path: Path, finding: Finding) -> str:
    """Return the SHA-256 of the bytes that a finding is about, or of its text if it is about none.

    So a reworded text makes an accepted finding without bytes a new one.
    """
    if not finding.length:
        return hashlib.sha256(finding.detail.encode("utf-8", "surrogateescape")).hexdigest()
    if not path.is_file():
        return _ABSENT
    digest = hashlib.sha256()
    try:
        fd = os_files.open_file(path, write=False)
        try:
            end = min(finding.offset + finding.length, os_files.file_size(fd))
            for start in range(finding.offset, end, _CHUNK):
                digest.update(os_files.read_at(fd, start, min(_CHUNK, end - start), path))
        finally:
            os_files.close_file(fd)
    except (OSError, StoreError):
        return _UNREADABLE
    return digest.hexdigest()


def _key_of_line(path: Path, number: int, line: str) -> Key | None:
    """Return the finding that a line accepts, None for the note that there were none."""
    try:
        fields: dict[str, Any] = parse_json(line)
        if "findings" in fields:
            return None
        file, offset, length, digest = (fields[name] for name in ("file", "offset", "length", "digest"))
        kind = fields.get("kind", "")
    except (ValueError, KeyError, TypeError) as error:
        raise AcceptedFileError(path, number, f"no accepted finding ({error})") from error
    if not all(isinstance(one, str) for one in (file, digest, kind)) or not all(
        type(one) is int for one in (offset, length)
    ):
        raise AcceptedFileError(path, number, "no accepted finding")
    return kind, file, offset, length, digest
