"""The check of many records at once: sound records pass together, and no damaged byte does."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketflow_store.format.record import MIN_RECORD_SIZE, RecordFields, encode_record
from rocketflow_store.kernel import COMPILED
from rocketflow_store.log.record_crc_range import RecordCrcRange
from rocketflow_store.reading import sound_records
from rocketflow_store.reading.sound_records import MAX_GAP, MAX_SPAN, UnitRows
from rocketflow_store.records.arrow.unit_types import units_of
from tests.support.kernel_switch import without_kernel

TOPIC: Final = b"orders"
PART: Final = bytes([len(TOPIC)]) + TOPIC
QUEUE: Final = 3
FIRST: Final = 70_000
PLAIN: Final = RecordFields(TOPIC, QUEUE, b"", b"KEYS\x01k\x02", 0, 0, 1, bytes(8), bytes(8))
UNCHECKED: Final = {*range(16, 20), *range(36, 84)}
"""Bytes that a body CRC does not cover: flag, sysFlag, times, hosts, counts."""
ODD_PLACES: Final = st.integers(0, 2_000) | st.integers(-2_000, 40_000) | st.sampled_from([-(1 << 63), (1 << 63) - 1])
ODD_SIZES: Final = st.integers(-100, 500) | st.sampled_from([-(1 << 31), (1 << 31) - 1])
ODD_UNITS: Final = st.lists(st.tuples(ODD_PLACES, ODD_SIZES), max_size=6)


def rows_of(places: Sequence[int], sizes: Sequence[int], are_sure: Sequence[bool] = ()) -> UnitRows:
    """Return units of queue offsets from 0 on."""
    mask = np.array(are_sure, np.bool_) if are_sure else None
    units = units_of(np.array(places, np.int64), np.array(sizes, np.int64))
    return UnitRows(units.tobytes(), range(len(places)), mask)


class Copy:
    """Records with other bytes between them, as one call reads them."""

    def __init__(self, fields: list[RecordFields], gap: int, crcs: list[bool]) -> None:
        self.raw = bytearray()
        self.starts: list[int] = []
        self.sizes: list[int] = []
        for number, (one, crc) in enumerate(zip(fields, crcs, strict=True)):
            self.raw += bytes(gap if number else 0)
            record = encode_record(one, FIRST + len(self.raw), number, 5, crc)
            self.starts.append(len(self.raw))
            self.sizes.append(len(record))
            self.raw += record

    def is_sound(
        self,
        *,
        offset: int = 0,
        place: int = FIRST,
        more: int = 0,
        queue_id: int = QUEUE,
        part: bytes = PART,
        with_crc: tuple[int, int] = (0, FIRST),
    ) -> bool:
        """Return whether the records are sound, with units that say another place or `more` bytes; compare the ways."""
        units, offsets, _ = rows_of([place + start for start in self.starts], [size + more for size in self.sizes])
        crcs = RecordCrcRange(lambda: with_crc, lambda: 1)
        crcs.refresh()
        given = queue_id, part, crcs.touches
        run = UnitRows(units, range(offset, offset + len(offsets)))
        found = sound_records.sound_records(bytearray(self.raw), run, *given)
        for rows in (run, UnitRows(units, np.array(run.offsets, np.int64))):
            assert sound_records.sound_records(bytearray(self.raw), rows, *given) == found
            with without_kernel(sound_records):
                assert sound_records.sound_records(bytearray(self.raw), rows, *given) == found
        if found is None:
            return False
        assert found == b"".join(self.raw[start : start + size] for start, size in zip(self.starts, self.sizes))
        return True


BODIES: Final = st.lists(st.binary(max_size=40), min_size=1, max_size=8)


@given(BODIES, st.integers(0, 20), st.booleans())
@settings(deadline=None, database=None)
def test_whole_records_are_sound(bodies: list[bytes], gap: int, crc: bool) -> None:
    copy = Copy([replace(PLAIN, body=one) for one in bodies], gap, [crc] * len(bodies))
    assert copy.is_sound()
    assert not copy.is_sound(queue_id=QUEUE + 1)
    assert not copy.is_sound(part=PART[:-1] + b"x")
    assert not copy.is_sound(offset=1)
    assert not copy.is_sound(place=FIRST + 1)
    assert not copy.is_sound(more=1)


@given(BODIES, st.integers(0, 20), st.booleans(), st.data())
@settings(deadline=None, database=None, max_examples=300)
def test_one_damaged_byte_makes_none_of_them_sound(
    bodies: list[bytes], gap: int, crc: bool, data: st.DataObject
) -> None:
    copy = Copy([replace(PLAIN, body=one) for one in bodies], gap, [crc] * len(bodies))
    number = data.draw(st.integers(0, len(bodies) - 1))
    size = copy.sizes[number]
    covered = range(size) if crc else [at for at in range(size - len(PLAIN.properties)) if at not in UNCHECKED]
    at = copy.starts[number] + data.draw(st.sampled_from(covered))
    copy.raw[at] ^= data.draw(st.integers(1, 255))
    assert not copy.is_sound()


def test_every_byte_of_a_record_with_a_crc_is_checked() -> None:
    for at in range(len(Copy([PLAIN], 0, [True]).raw)):
        copy = Copy([PLAIN], 0, [True])
        copy.raw[at] ^= 1
        assert not copy.is_sound(), at


def test_records_that_need_another_look_are_not_sound() -> None:
    plain = replace(PLAIN, body=b"body")
    v6 = replace(plain, born_host=bytes(20))
    assert not Copy([plain, v6], 0, [True, True]).is_sound()
    assert not Copy([plain, replace(plain, properties=b"")], 0, [False, False]).is_sound()
    assert not Copy([plain, plain], 0, [True, False]).is_sound()
    bare = Copy([plain, plain], 0, [False, False])
    assert bare.is_sound(with_crc=(0, FIRST))
    assert bare.is_sound(with_crc=(FIRST + bare.starts[1] + 1, 1 << 62))
    assert not bare.is_sound(with_crc=(0, FIRST + 1))
    assert not bare.is_sound(with_crc=(FIRST + bare.starts[1], 1 << 62))
    assert Copy([plain, plain], 0, [True, True]).is_sound(with_crc=(0, 1 << 62))


@given(BODIES, st.booleans(), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4), st.data())
@settings(deadline=None, database=None, max_examples=300)
def test_any_bytes_have_one_answer_with_and_without_the_kernel(
    bodies: list[bytes], crc: bool, changes: list[tuple[int, int]], data: st.DataObject
) -> None:
    copy = Copy([replace(PLAIN, body=one) for one in bodies], 0, [crc] * len(bodies))
    for at, octet in changes:
        copy.raw[at % len(copy.raw)] = octet
    number = data.draw(st.integers(0, len(bodies) - 1))
    start, size = copy.starts[number], copy.sizes[number]
    copy.raw[start : start + 4] = data.draw(st.sampled_from([size, size - 1, 0, 1 << 31, 91])).to_bytes(4, "big")
    copy.raw[start + 84 : start + 88] = (
        data.draw(st.sampled_from([len(bodies[number]), -1, size, 1 << 30])).to_bytes(4, "big", signed=True)
        if data.draw(st.booleans())
        else copy.raw[start + 84 : start + 88]
    )
    copy.is_sound()


@pytest.mark.skipif(COMPILED is None, reason="this machine has no compiled kernel")
@given(st.binary(max_size=300), ODD_UNITS)
def test_kernel_reads_nothing_outside_of_its_buffer(raw: bytes, units: list[tuple[int, int]]) -> None:
    assert COMPILED is not None
    octets = b"".join(struct.pack(">qiq", *one, 0) for one in units)
    for given_units in (octets, octets[:-1]):
        for count in (len(units), len(units) + 1):
            for offsets in (np.zeros(count, np.int64), None):
                assert COMPILED.sound_records(bytearray(raw), given_units, 0, b"\x01t", 0, offsets) == 0


@pytest.mark.skipif(COMPILED is None, reason="this machine has no compiled kernel")
@given(st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_kernel_takes_only_records_that_follow_each_other(rows: list[int]) -> None:
    assert COMPILED is not None
    copy = Copy([PLAIN] * 4, 5, [True] * 4)
    raw = bytearray(copy.raw)
    records = [(copy.starts[row], copy.sizes[row]) for row in rows]
    units = b"".join(struct.pack(">qiq", FIRST + start, size, 0) for start, size in records)
    found = COMPILED.sound_records(raw, units, QUEUE, PART, 0, np.array(rows))
    assert found == (rows[0] == 0 and rows == sorted(set(rows)))
    assert raw == (b"".join(copy.raw[start : start + size] for start, size in records) if found else copy.raw)


def span_of(rows: UnitRows, most: int, most_bytes: int, room: int) -> tuple[int, int]:
    """Return the number of units of a first span, and the bytes that one call reads; compare the ways."""
    first, size = rows.first_span(most, most_bytes, room)
    count = len(first.offsets)
    assert list(first.offsets) == list(rows.offsets[:count])
    assert first.units == rows.units[: 20 * count]
    assert first.are_sure is None
    with without_kernel(sound_records):
        again, again_size = rows.first_span(most, most_bytes, room)
    assert (len(again.offsets), again_size) == (count, size)
    return count, size


def test_a_span_ends_where_the_limits_the_match_or_the_file_say() -> None:
    sizes = [MIN_RECORD_SIZE] * 6
    places = [FIRST + 100 * number for number in range(6)]
    units = rows_of(places, sizes)
    room = 500 + MIN_RECORD_SIZE
    assert span_of(units, 32, 10_000, room) == (6, room)
    assert span_of(units, 4, 10_000, room) == (4, 300 + MIN_RECORD_SIZE)
    assert span_of(units, 0, 10_000, room) == (0, 0)
    assert span_of(units, 32, 3 * MIN_RECORD_SIZE, room) == (3, 200 + MIN_RECORD_SIZE)
    assert span_of(units, 32, MIN_RECORD_SIZE - 1, room) == (0, 0)
    doubtful = rows_of(places, sizes, [True, True, False, True, True, True])
    assert span_of(doubtful, 32, 10_000, room) == (2, 100 + MIN_RECORD_SIZE)
    assert doubtful.fields(4) == [(4, places[4], sizes[4], 0, 1, True), (5, places[5], sizes[5], 0, 1, True)]
    for odd in (
        (units, room - 1),
        (rows_of(places, [*sizes[:5], MIN_RECORD_SIZE - 1]), room),
        (rows_of(places, [*sizes[:5], -MIN_RECORD_SIZE]), room),
        (rows_of([*places[:5], places[4]], sizes), room),
        (rows_of([*places[:5], places[5] + MAX_GAP], sizes), 1 << 40),
    ):
        assert span_of(odd[0], 32, 10_000, odd[1]) == (5, 400 + MIN_RECORD_SIZE)
    many = 1 + MAX_SPAN // MAX_GAP
    far = rows_of([FIRST + MAX_GAP * one for one in range(many)], [100] * many)
    assert span_of(far, many, MAX_SPAN, MAX_SPAN) == (many - 1, MAX_SPAN - MAX_GAP + 100)


@given(
    ODD_UNITS,
    st.integers(0, 7),
    st.integers(-1, 2_000) | st.just(1 << 40),
    st.integers(-1, 5_000) | st.sampled_from([MAX_SPAN, 1 << 62, -(1 << 63)]),
    st.booleans(),
)
@settings(deadline=None, database=None, max_examples=300)
def test_any_units_have_one_span_with_and_without_the_kernel(
    units: list[tuple[int, int]], most: int, most_bytes: int, room: int, in_order: bool
) -> None:
    rows = sorted(units) if in_order else units
    count, size = span_of(rows_of([one[0] for one in rows], [one[1] for one in rows]), most, most_bytes, room)
    assert count <= min(most, len(rows))
    assert size <= max(room, 0)
