"""Staged parts whose rows are proven to be the records that their commit announces: nothing else is appended.

A commit proves all parts before it creates a topic or writes a byte, and without the put lock. Each chunk is read into
memory of its own, judged there (`records.encoding.prepared`) and dropped, except for its columns and its CRC-32. The
append reads it again into the memory that it writes from: bytes that an abandoned task has overwritten meanwhile have
another CRC and undo the commit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from isal.isal_zlib import crc32

from rocketflow_store.commits.staged_part import PartBytes, PartReader
from rocketflow_store.model.errors import StagedPartError
from rocketflow_store.records.encoding.prepared import first_fault, why_not_prepared

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    import numpy.typing as npt

    from rocketflow_store.commits.staged_part import StagedPart
    from rocketflow_store.records.encoding.encode import EncodedChunk
    from rocketflow_store.settings.store_config import StoreConfig

_NO_BYTES: Final = pa.py_buffer(b"")


def proven_chunks(parts: Iterable[StagedPart], config: StoreConfig, *, redelivered: bool) -> list[EncodedChunk]:
    """Return the chunks of parts, in their order; raise StagedPartError for the first that cannot be committed.

    `redelivered` is set for rows that may be messages that were stored before.
    """
    return [chunk for part in parts for chunk in _proven(part, config, redelivered=redelivered)]


def _proven(part: StagedPart, config: StoreConfig, *, redelivered: bool) -> list[EncodedChunk]:
    reader, rows = PartReader(part), 0
    chunks: list[EncodedChunk] = []
    try:
        for topic in part.topics:
            why = why_not_prepared(topic, redelivered=redelivered)
            if why:
                raise StagedPartError(reader.name, why)
        for chunk in reader.chunks(config.delay_levels_ms):
            fault = first_fault(chunk, config, redelivered=redelivered)
            if fault is not None:
                reader.check_crc()
                raise StagedPartError(reader.name, fault[1], rows + fault[0])
            rows += len(chunk.sizes)
            crc = int(crc32(chunk.data))
            staged = _Staged(part, reader.position_of(chunk), chunk.data.size, crc)
            chunks.append(replace(chunk, data=_NO_BYTES, staged=staged))
    finally:
        reader.close()
    return chunks


@dataclass(frozen=True, slots=True)
class _Staged:
    """The proven bytes of a chunk; see `StagedBytes`."""

    part: StagedPart
    position: int
    size: int
    crc: int

    def read_into(self, octets: npt.NDArray[np.uint8]) -> None:
        """Fill `octets`; raise StagedPartError if the part was changed since it was proven."""
        source = PartBytes(self.part)
        try:
            source.read_into(self.position, octets)
        finally:
            source.close()
        if int(crc32(octets)) != self.crc:
            raise StagedPartError(self.part.path or "inline part", "the part was changed while it was committed")
