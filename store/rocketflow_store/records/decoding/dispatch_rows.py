"""The input of ConsumeQueue units and index entries: a function of the records alone, many at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.java_compat import TAG_KEY_PREFIX, wrap_int64
from rocketflow_store.model.property_names import (
    PROPERTY_DELAY,
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
    PROPERTY_INNER_NUM,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
)
from rocketflow_store.model.system_flags import (
    INNER_BATCH_FLAG,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_ROLLBACK,
)
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC, is_directory_name
from rocketflow_store.records.arrow.gather import in_row
from rocketflow_store.records.arrow.hashing import string_hashes
from rocketflow_store.records.decoding.index_entries import IndexEntries, index_entries

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from rocketflow_store.records.decoding.decode import RecordColumns
    from rocketflow_store.records.decoding.index_entries import Hashes
    from rocketflow_store.records.decoding.properties import PropertySegments

    Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class DispatchRows:
    """The input of dispatch for records that follow each other in the log; one element per record.

    `queue_of` is an index into `queues`; it is -1 for records that get no unit (prepared, rolled back, of a topic that
    is not allowed as a directory name).
    """

    phy_offsets: Ints
    sizes: Ints
    tags_codes: Ints
    store_timestamps: Ints
    queue_offsets: Ints
    queues: Sequence[tuple[str, int]]
    queue_of: npt.NDArray[np.int32]
    entries: IndexEntries
    batch_nums: Ints | None = None
    lmq: Sequence[tuple[int, str, int]] = ()
    """(row, name, queue offset) of LMQs that get a unit too."""


@dataclass(frozen=True, slots=True)
class SoundRows:
    """Records that the kernel has checked: the input of dispatch, sysFlags, and how many lack a CRC of their own."""

    rows: DispatchRows
    sys_flags: npt.NDArray[np.int32]
    without_crc: int


_NAMES: Final = (PROPERTY_UNIQ_KEY, PROPERTY_KEYS, PROPERTY_TAGS, PROPERTY_DELAY, PROPERTY_INNER_MULTI_QUEUE_OFFSET)
_OF_DISPATCH: Final = tuple(name.encode() for name in _NAMES)
_ENTRIES_OF_EACH: Final = (4, 64)
"""Room for index entries of each record: usually, and at most for the kernel."""


def sound_rows(
    records: tuple[pa.Buffer, Ints, Ints],
    file_from_offset: int,
    delay_levels_ms: Sequence[int],
    record_crc: tuple[int, int] | None,
) -> SoundRows | None:
    """Return what dispatch needs of records (buffer, positions, sizes) in a file that begins at `file_from_offset`.

    None if there is no kernel, or a record is unusual. Each must have its place and its CRC, those at physical offsets
    `record_crc` [from, to) the CRC of themselves; if that is None, they were checked before.
    """
    buffer, positions, sizes = records
    count = len(positions)
    if COMPILED is None or not count:
        return None
    tags_codes, times, queue_offsets = np.empty((3, count), np.int64)
    queue_of, sys_flags = np.empty((2, count), np.int32)
    checked = None if record_crc is None else (file_from_offset, *record_crc)
    for of_each in _ENTRIES_OF_EACH:
        room = of_each * count
        hashes, of_row, of_tag = np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.bool_)
        seen = COMPILED.dispatch_rows(
            np.frombuffer(buffer, np.uint8),
            in_row(positions),
            in_row(sizes),
            checked,
            _OF_DISPATCH,
            TAG_KEY_PREFIX.encode(),
            SCHEDULE_TOPIC.encode(),
            np.array(delay_levels_ms, np.int64),
            (tags_codes, times, queue_offsets, queue_of, sys_flags),
            (hashes, of_row, of_tag.view(np.uint8)),
        )
        if seen is None:
            return None
        entries, without_crc, named = seen
        if entries >= 0:
            break
    else:
        return None
    queues, code_of = _ordered(named)
    rows = DispatchRows(
        phy_offsets=positions + file_from_offset,
        sizes=sizes,
        tags_codes=tags_codes,
        store_timestamps=times,
        queue_offsets=queue_offsets,
        queues=queues,
        queue_of=code_of[queue_of],
        entries=IndexEntries(*(_kept(one, entries) for one in (hashes, of_row, of_tag))),
    )
    return SoundRows(rows, sys_flags, without_crc)


def _kept(column: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    """Return the first values of a column, in less memory if they are few."""
    return column[:count].copy() if 2 * count < len(column) else column[:count]


def _ordered(named: Sequence[tuple[bytes, int]]) -> tuple[list[tuple[str, int]], npt.NDArray[np.int32]]:
    """Return queues by topic (in the order of their first records) and id, and the code of each of `named` in it."""
    topics = list(dict.fromkeys(topic for topic, _ in named))
    names = [topic.decode() for topic in topics]
    number = {topic: at for at, topic in enumerate(topics)}
    order = sorted(range(len(named)), key=lambda at: (number[named[at][0]], named[at][1]))
    code_of = np.empty(len(named), np.int32)
    code_of[order] = np.arange(len(named), dtype=np.int32)
    queues = [(names[number[named[at][0]]], named[at][1]) for at in order]
    if not _may_have_a_queue(names).all():
        code_of[[not is_directory_name(topic.decode()) for topic, _ in named]] = -1
    return queues, code_of


def rows_of_records(records: RecordColumns, file_from_offset: int, delay_levels_ms: Sequence[int]) -> DispatchRows:
    """Return the input of dispatch for records in the log (checked before)."""
    usual = sound_rows((records.buffer, records.positions, records.sizes), file_from_offset, delay_levels_ms, None)
    if usual is not None:
        return usual.rows
    segments = records.property_segments()
    topics, topic_of = _codes(records.topics())
    queue_ids = records.field(">i4", 12).astype(np.int64)
    kinds = records.sys_flag & TRANSACTION_MASK
    queues, queue_of = _queues(topics, topic_of, queue_ids)
    queue_of[(kinds != 0) & (kinds != TRANSACTION_COMMIT)] = -1
    queue_of[~_may_have_a_queue(topics)[topic_of] | (queue_ids < 0)] = -1
    store_timestamps = records.after_born_host(">i8", 56).astype(np.int64)
    tags = string_hashes(segments.column(PROPERTY_TAGS))
    tags_codes = tags_codes_of(tags)
    if SCHEDULE_TOPIC in topics:
        scheduled = topic_of == topics.index(SCHEDULE_TOPIC)
        texts, text_of = _codes(segments.column(PROPERTY_DELAY).fill_null(""))
        for code, text in enumerate(texts):
            delay_ms = _delay_ms(text, delay_levels_ms)
            if delay_ms is not None:
                rows = scheduled & (text_of == code)
                tags_codes[rows] = store_timestamps[rows] + delay_ms
    entries = index_entries(topics, topic_of, segments.column(PROPERTY_UNIQ_KEY), segments.column(PROPERTY_KEYS), tags)
    return DispatchRows(
        phy_offsets=records.positions + file_from_offset,
        sizes=records.sizes,
        tags_codes=tags_codes,
        store_timestamps=store_timestamps,
        queue_offsets=records.field(">i8", 20).astype(np.int64),
        queues=queues,
        queue_of=queue_of,
        entries=entries.where(kinds != TRANSACTION_ROLLBACK),
        batch_nums=batch_nums(records, segments),
        lmq=records.lmqs(),
    )


def batch_nums(records: RecordColumns, segments: PropertySegments) -> Ints | None:
    """Return the number of messages in each record; None if no record is an inner batch."""
    inner = np.flatnonzero(records.sys_flag & INNER_BATCH_FLAG)
    if len(inner) == 0:
        return None
    numbers = segments.column(PROPERTY_INNER_NUM)
    found = np.ones(records.count, np.int64)
    for row in inner.tolist():
        text = numbers[row].as_py() or ""
        if text.isascii() and text.isdigit() and 0 < int(text) < 1 << 15:
            found[row] = int(text)
    return found


def deliver_time(delay: str | None, store_timestamp: int, delay_levels_ms: Sequence[int], tags_code: int) -> int:
    """Return the tags code of a schedule topic's unit: the delivery time (ms), or the tag's hash without a level."""
    delay_ms = _delay_ms(delay, delay_levels_ms)
    return tags_code if delay_ms is None else wrap_int64(store_timestamp + delay_ms)


def _delay_ms(delay: str | None, delay_levels_ms: Sequence[int]) -> int | None:
    """Return the delay of a message's DELAY; None without a level."""
    try:
        level = int(delay or 0)
    except ValueError:
        return None
    return None if level <= 0 else delay_levels_ms[min(level, len(delay_levels_ms)) - 1]


def tags_codes_of(tags: Hashes) -> Ints:
    """Return the tags codes of TAGS with these hashes, 0 for none."""
    return tags[0].view(np.int32).astype(np.int64)


def _may_have_a_queue(topics: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return a mask of the names that may become a directory: a client wrote them, or damage changed them."""
    return np.fromiter((is_directory_name(topic) for topic in topics), bool, len(topics))


def _codes(values: pa.Array) -> tuple[list[str], npt.NDArray[np.int32]]:
    encoded = pc.dictionary_encode(values)
    codes = np.frombuffer(encoded.indices.buffers()[1], np.int32, len(values), encoded.indices.offset * 4)
    return encoded.dictionary.to_pylist(), codes


def _queues(
    topics: Sequence[str], topic_of: npt.NDArray[np.int32], queue_ids: Ints
) -> tuple[list[tuple[str, int]], npt.NDArray[np.int32]]:
    tagged = (topic_of.astype(np.int64) << 32) | queue_ids
    different, queue_of = np.unique(tagged, return_inverse=True)
    queues = [(topics[one >> 32], one & 0xFFFFFFFF) for one in different.tolist()]
    return queues, queue_of.astype(np.int32)
