"""The check of many records at once: sound records pass together, and no damaged byte does."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketflow_store.format.record import MIN_RECORD_SIZE, RecordFields, encode_record
from rocketflow_store.kernel import COMPILED
from rocketflow_store.reading import sound_records
from rocketflow_store.reading.sound_records import MAX_GAP, MAX_SPAN, UnitColumns, are_sound
from tests.support.kernel_switch import without_kernel

TOPIC: Final = b"orders"
PART: Final = bytes([len(TOPIC)]) + TOPIC
QUEUE: Final = 3
FIRST: Final = 70_000
PLAIN: Final = RecordFields(TOPIC, QUEUE, b"", b"KEYS\x01k\x02", 0, 0, 1, bytes(8), bytes(8))
UNCHECKED: Final = {*range(16, 20), *range(36, 84)}
"""Bytes that a body CRC does not cover: flag, sysFlag, times, hosts, counts."""


class Copy:
    """Records with other bytes between them, as one call reads them."""

    def __init__(self, fields: list[RecordFields], gap: int, crcs: list[bool]) -> None:
        self.raw = bytearray()
        self.starts: list[int] = []
        sizes = []
        for number, (one, crc) in enumerate(zip(fields, crcs, strict=True)):
            self.raw += bytes(gap if number else 0)
            record = encode_record(one, FIRST + len(self.raw), number, 5, crc)
            self.starts.append(len(self.raw))
            sizes.append(len(record))
            self.raw += record
        places = [FIRST + start for start in self.starts]
        self.units = UnitColumns(list(range(len(fields))), places, sizes, [0] * len(fields), [])

    def is_sound(self, *, units: UnitColumns | None = None, queue_id: int = QUEUE, part: bytes = PART) -> bool:
        given = (self.raw, self.starts, units or self.units, queue_id, part, lambda place: place < FIRST)
        found = are_sound(*given)
        with without_kernel(sound_records):
            assert are_sound(*given) == found
        return found


BODIES: Final = st.lists(st.binary(max_size=40), min_size=1, max_size=8)


@given(BODIES, st.integers(0, 20), st.booleans())
@settings(deadline=None, database=None)
def test_whole_records_are_sound(bodies: list[bytes], gap: int, crc: bool) -> None:
    copy = Copy([replace(PLAIN, body=one) for one in bodies], gap, [crc] * len(bodies))
    assert copy.is_sound()
    assert not copy.is_sound(queue_id=QUEUE + 1)
    assert not copy.is_sound(part=PART[:-1] + b"x")
    assert not copy.is_sound(units=copy.units._replace(offsets=[one + 1 for one in copy.units.offsets]))
    assert not copy.is_sound(units=copy.units._replace(phy_offsets=[one + 1 for one in copy.units.phy_offsets]))
    assert not copy.is_sound(units=copy.units._replace(sizes=[one + 1 for one in copy.units.sizes]))


@given(BODIES, st.integers(0, 20), st.booleans(), st.data())
@settings(deadline=None, database=None, max_examples=300)
def test_one_damaged_byte_makes_none_of_them_sound(
    bodies: list[bytes], gap: int, crc: bool, data: st.DataObject
) -> None:
    copy = Copy([replace(PLAIN, body=one) for one in bodies], gap, [crc] * len(bodies))
    number = data.draw(st.integers(0, len(bodies) - 1))
    size = copy.units.sizes[number]
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
    copy = Copy([plain, plain], 0, [False, False])
    for modules in ((), (sound_records,)):
        with without_kernel(*modules):
            assert not are_sound(copy.raw, copy.starts, copy.units, QUEUE, PART, lambda place: place > FIRST)


@given(BODIES, st.booleans(), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4), st.data())
@settings(deadline=None, database=None, max_examples=300)
def test_any_bytes_have_one_answer_with_and_without_the_kernel(
    bodies: list[bytes], crc: bool, changes: list[tuple[int, int]], data: st.DataObject
) -> None:
    copy = Copy([replace(PLAIN, body=one) for one in bodies], 0, [crc] * len(bodies))
    for at, octet in changes:
        copy.raw[at % len(copy.raw)] = octet
    number = data.draw(st.integers(0, len(bodies) - 1))
    start, size = copy.starts[number], copy.units.sizes[number]
    copy.raw[start : start + 4] = data.draw(st.sampled_from([size, size - 1, 0, 1 << 31, 91])).to_bytes(4, "big")
    copy.raw[start + 84 : start + 88] = (
        data.draw(st.sampled_from([len(bodies[number]), -1, size, 1 << 30])).to_bytes(4, "big", signed=True)
        if data.draw(st.booleans())
        else copy.raw[start + 84 : start + 88]
    )
    copy.is_sound()


@pytest.mark.skipif(COMPILED is None, reason="this machine has no compiled kernel")
@given(
    st.binary(max_size=300), st.lists(st.integers(-400, 1 << 40), min_size=1, max_size=3), st.integers(-200, 1 << 31)
)
def test_kernel_reads_nothing_outside_of_its_buffer(raw: bytes, starts: list[int], size: int) -> None:
    assert COMPILED is not None
    count = len(starts)
    assert COMPILED.sound_records(raw, starts, [size] * count, [0] * count, [0] * count, 0, b"\x01t") == 0
    assert COMPILED.sound_records(raw, starts, [], [0] * count, [0] * count, 0, b"\x01t") == 0


@pytest.mark.skipif(COMPILED is None, reason="this machine has no compiled kernel")
@given(st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=5)), max_size=6))
def test_kernel_closes_gaps(pieces: list[tuple[bytes, bytes]]) -> None:
    assert COMPILED is not None
    raw, starts = bytearray(), []
    for piece, gap in pieces:
        starts.append(len(raw))
        raw += piece + gap
    sizes = [len(piece) for piece, _ in pieces]
    size = COMPILED.close_gaps(raw, starts, sizes)
    assert raw[:size] == b"".join(piece for piece, _ in pieces)
    for bad in ([0, 0], [1, 4]), ([5, 4], [2, 1]), ([0, 2], [3, 1]), ([9], [1]), ([8], [-1]), ([-1], [1]):
        with pytest.raises(ValueError, match="piece"):
            COMPILED.close_gaps(bytearray(8), *bad)


def test_a_span_ends_where_the_limits_the_match_or_the_file_say() -> None:
    sizes = [MIN_RECORD_SIZE] * 6
    places = [FIRST + 100 * number for number in range(6)]
    units = UnitColumns(list(range(6)), places, sizes, [0] * 6, [])
    end = places[-1] + sizes[-1]
    assert units.first_span(32, 10_000, end) == units
    assert units.first_span(4, 10_000, end).offsets == [0, 1, 2, 3]
    assert units.first_span(32, 3 * MIN_RECORD_SIZE, end).offsets == [0, 1, 2]
    assert units.first_span(32, MIN_RECORD_SIZE - 1, end).offsets == []
    doubtful = units._replace(are_sure=[True, True, False, True, True, True])
    assert doubtful.first_span(32, 10_000, end).offsets == [0, 1]
    assert doubtful.rows(4) == [(4, places[4], sizes[4], 0, 1, True), (5, places[5], sizes[5], 0, 1, True)]
    for odd in (
        units.first_span(32, 10_000, end - 1),
        units._replace(sizes=[*sizes[:5], MIN_RECORD_SIZE - 1]).first_span(32, 10_000, end),
        units._replace(sizes=[*sizes[:5], -MIN_RECORD_SIZE]).first_span(32, 10_000, end),
        units._replace(phy_offsets=[*places[:5], places[4]]).first_span(32, 10_000, end),
        units._replace(phy_offsets=[*places[:5], places[5] + MAX_GAP]).first_span(32, 10_000, 1 << 40),
    ):
        assert odd.offsets == []
    many = 1 + MAX_SPAN // MAX_GAP
    far = UnitColumns(list(range(many)), [FIRST + MAX_GAP * one for one in range(many)], [100] * many, [0] * many, [])
    assert far.first_span(many, MAX_SPAN, 1 << 40).offsets == []
