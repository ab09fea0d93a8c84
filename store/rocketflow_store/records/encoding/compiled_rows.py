"""Rows of columns as records by the compiled kernel, which takes the rows of `encode` unless one is not usual."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from rocketflow_store.format.record import MAGIC_V1, MAGIC_V2, MAX_V1_TOPIC_SIZE
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.java_compat import TAG_KEY_PREFIX, string_hash
from rocketflow_store.records.decoding.index_entries import IndexEntries

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

_NO_BYTES: Final = np.zeros(0, np.uint8)


class RowTexts(NamedTuple):
    """The texts of rows: the columns of their properties, and of the ids that queues and index are made of.

    A column of `written` without a name has names and separators in its values. `ids` are UNIQ_KEY, KEYS and TAGS, None
    for a column that no row has. With `new_ids` (prefix and first tick) rows get UNIQ_KEYs after what is written.
    """

    written: Sequence[tuple[bytes, pa.Array]]
    ids: tuple[pa.Array | None, pa.Array | None, pa.Array | None]
    new_ids: tuple[bytes, int] | None = None


class EncodedRows(NamedTuple):
    """Encoded rows, as the attributes of `encode.EncodedChunk`."""

    data: pa.Buffer
    starts: Ints
    sizes: Ints
    body_crcs: Ints
    tags_codes: Ints
    entries: IndexEntries
    row_hashes: npt.NDArray[np.uint64] | None


class RowContents(NamedTuple):
    """Inputs of a row's hash besides its bytes: times and queues as its columns give them, None without them."""

    born: Ints | None
    queue_ids: npt.NDArray[np.int32] | None


def compiled_rows(
    head: bytes,
    bodies: pa.Array,
    topics: Sequence[str],
    topic_codes: npt.NDArray[np.int32],
    queue_ids: npt.NDArray[np.int32],
    flags: Any,
    born: Any,
    texts: RowTexts,
    contents: RowContents | None,
    *,
    reserved: int,
    indexed: bool,
) -> EncodedRows | None:
    """Return the records of rows, None if there is no kernel, or a row that it leaves over.

    `head` has the fields that all rows share; `flags` and `born` are arrays, or in `head`. Rows are hashed if there
    are `contents`.
    """
    count = len(bodies)
    if COMPILED is None or count == 0:
        return None
    encoder = COMPILED.RowEncoder(
        *_values(bodies),
        [(name, *_column(column)) for name, column in texts.written],
        [None if column is None else (b"", *_column(column)) for column in texts.ids],
        texts.new_ids,
        reserved,
        indexed,
    )
    ends, parts, facts = topic_columns(topics)
    size = encoder.size + count * (len(head) + 2) + int(np.diff(ends).astype(np.int64)[topic_codes].sum())
    if size > np.iinfo(np.int32).max:
        return None
    data = pa.allocate_buffer(size)
    starts, sizes, body_crcs, tags_codes = np.empty((4, count), np.int64)
    hashes, of_row = np.empty(encoder.keys, np.int32), np.empty(encoder.keys, np.int64)
    of_tag = np.empty(encoder.keys, np.bool_)
    row_hashes = None if contents is None else np.empty(count, np.uint64)
    entries = encoder.encode(
        *(head, ends, parts, facts, topic_codes, queue_ids),
        *(_array(flags, np.int32), _array(born, np.int64)),
        *(np.frombuffer(data, np.uint8), starts, sizes, body_crcs, tags_codes, hashes, of_row, of_tag.view(np.uint8)),
        *(row_hashes, *((None, None) if contents is None else contents)),
    )
    if entries < 0:
        return None
    found = IndexEntries(hashes[:entries], of_row[:entries], of_tag[:entries]) if indexed else IndexEntries.none()
    return EncodedRows(data, starts, sizes, body_crcs, tags_codes, found, row_hashes)


def topic_part(topic: str) -> bytes:
    """Return a topic as a record has it, after its length."""
    raw = topic.encode()
    return len(raw).to_bytes(1 if len(raw) <= MAX_V1_TOPIC_SIZE else 2, "big") + raw


def magic_of(topic: str) -> int:
    """Return the magic of records of a topic, which says how long its length is."""
    return MAGIC_V1 if len(topic.encode()) <= MAX_V1_TOPIC_SIZE else MAGIC_V2


def topic_columns(topics: Sequence[str]) -> tuple[npt.NDArray[np.int32], bytes, npt.NDArray[np.uint32]]:
    """Return topics as the kernel takes them: ends and bytes of `topic_part`, magic and Java's hashes of each."""
    parts = [topic_part(topic) for topic in topics]
    ends = np.zeros(len(parts) + 1, np.int32)
    np.cumsum([len(part) for part in parts], out=ends[1:])
    facts = [(magic_of(one), *map(string_hash, (f"{one}#", f"{one}#{TAG_KEY_PREFIX}", one))) for one in topics]
    return ends, b"".join(parts), np.array(facts, np.int64).reshape(len(parts), 4).astype(np.uint32)


def _array(values: Any, kind: type[np.signedinteger[Any]]) -> npt.NDArray[Any] | None:
    return np.ascontiguousarray(values, kind) if isinstance(values, np.ndarray) else None


def _column(column: pa.Array) -> tuple[npt.NDArray[np.int32], Any, Any, int]:
    """Return (offsets, bytes, bitmap or None, first bit) of a column of text."""
    valid = column.buffers()[0] if column.null_count else None
    return *_values(column), None if valid is None else np.frombuffer(valid, np.uint8), column.offset


def _values(column: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    _, offsets, data = column.buffers()
    octets = _NO_BYTES if data is None or data.size == 0 else np.frombuffer(data, np.uint8)
    return np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4), octets
