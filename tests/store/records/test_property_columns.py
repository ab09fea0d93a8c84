"""Properties by name of many rows are those of the scalar decoder, in any order of names in each row."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from rocketflow_store.format.properties import decode_properties
from rocketflow_store.records.decoding.properties import split_properties

_NAMES = ("KEYS", "TAGS", "CRC32#", "WAIT", "a")
_pair = st.tuples(st.sampled_from(_NAMES), st.sampled_from(["", "x", "yy"]))
_alike = st.integers(1, 4).flatmap(lambda pairs: st.lists(st.lists(_pair, min_size=pairs, max_size=pairs), min_size=1))


@given(st.one_of(_alike, st.lists(st.lists(_pair, max_size=4))))
@example([[("KEYS", "x"), ("TAGS", "yy")], [("TAGS", "x"), ("KEYS", "yy")]])
@example([[("KEYS", "x"), ("TAGS", "x")], [("KEYS", "x"), ("KEYS", "yy")]])
@example([[("TAGS", "x"), ("TAGS", "x")], [("KEYS", "x"), ("KEYS", "yy")]])
def test_columns_and_maps_agree_with_the_scalar_decoder(rows: list[list[tuple[str, str]]]) -> None:
    strings = ["".join(f"{name}\x01{value}\x02" for name, value in row).encode() for row in rows]
    expected = [decode_properties(one) for one in strings]
    segments = split_properties(pa.array(strings, pa.binary()))
    for name in (*_NAMES, "none"):
        assert segments.column(name).to_pylist() == [one.get(name) for one in expected], name
    assert [dict(one) for one in segments.maps().to_pylist()] == expected
