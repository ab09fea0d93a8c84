"""Properties by name of many rows are those of the scalar decoder, in any order of names in each row."""

from __future__ import annotations

from types import ModuleType
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocketflow_store import StoreConfig
from rocketflow_store.format.properties import decode_properties
from rocketflow_store.model.message_id import UNIQ_KEYS
from rocketflow_store.records.decoding.properties import split_properties
from rocketflow_store.records.encoding import compiled_rows
from rocketflow_store.records.encoding.encode import BatchEncoder
from tests.support.kernel_switch import without_kernel

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


@pytest.mark.parametrize("modules", [(), (compiled_rows,)])
def test_null_that_has_bytes_is_no_text(modules: tuple[ModuleType, ...]) -> None:
    texts, bodies = pa.array(["a", "b", "c"]), pa.array([b"1", b"2", b"3"])
    hidden = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x05"), *texts.buffers()[1:]])
    found = []
    for column in (hidden, pa.array(["a", None, "c"])):
        columns = {"body": bodies, "keys": column, "tags": column, "shardingKey": column}
        encoder = BatchEncoder(StoreConfig(), lambda _: 4, "t")
        ids = patch.object(UNIQ_KEYS, "reserve", lambda _: ("7F0000011234ABCDEF01", 77))
        with without_kernel(*modules), ids:
            (chunk,) = encoder.encode(pa.RecordBatch.from_pydict(columns).slice(1), 1)
        found.append((chunk.data.to_pybytes(), chunk.tags_codes.tolist(), chunk.entries.hashes.tolist()))
    assert found[0] == found[1]
