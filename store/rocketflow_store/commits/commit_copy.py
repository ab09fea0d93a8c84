"""A copy of the newest envelope of each sink, `rocketflow/staging/SINK/last`.

The log decides what is committed. If the envelope there is damaged, this copy replaces it: one flipped bit must not let
a batch be committed twice. The copy is not synced: after a power loss its CRC shows whether it is complete.

    8 digits CRC-32 (hex) of the body, space, 8 digits length of the body, newline, the envelope's body
"""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rocketflow_store.commits.staged_part import sink_directory
from rocketflow_store.files import os_files
from rocketflow_store.metadata.native.commit_envelope import CommitEnvelope, decode_envelope
from rocketflow_store.model.errors import StoreError

if TYPE_CHECKING:
    from rocketflow_store.metadata.layout.store_paths import StorePaths

_HEAD_SIZE: Final = 18


def leave_copy(paths: StorePaths, envelope: CommitEnvelope) -> None:
    """Write the copy of a new envelope; a failure loses nothing."""
    path, body = sink_directory(paths.staging, envelope.sink_id) / "last", envelope.encode()
    with suppress(StoreError, OSError):
        os_files.make_directory(path.parent)
        fd = os_files.open_file(path, write=True, create=True)
        try:
            os_files.write_at(fd, path, 0, b"%08x %08d\n" % (zlib.crc32(body), len(body)) + body)
        finally:
            os_files.close_file(fd)


def copy_of(paths: StorePaths, sink_id: str, phy_offset: int) -> CommitEnvelope | None:
    """Return the copied envelope of a sink, None if it is missing or was written at another physical offset."""
    try:
        raw = os_files.read_file(sink_directory(paths.staging, sink_id) / "last")
        body = raw[_HEAD_SIZE : _HEAD_SIZE + int(raw[9:17])]
        if int(raw[:8], 16) != zlib.crc32(body):
            return None
    except (OSError, StoreError, ValueError):
        return None
    envelope = decode_envelope(body)
    return envelope if envelope is not None and envelope.begin_offset == phy_offset else None
