"""Rows that the kernel accepts for a commit are those that Python accepts; it judges usual rows alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketflow_store import StoreConfig
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import MessageRejectedError
from rocketflow_store.records.decoding.index_entries import IndexEntries
from rocketflow_store.records.encoding import compiled_rows, prepared
from rocketflow_store.records.encoding.encode import EncodedChunk
from tests.store.kernel.test_encode_rows import NOW, batches, chunks_of, encoded
from tests.support.kernel_switch import without_kernel
from tests.support.trials import some

pytestmark = pytest.mark.skipif(COMPILED is None, reason="this machine has no compiled kernel")

CONFIG: Final = StoreConfig(clock=ManualClock(NOW), mapped_file_size_commit_log=2_000, max_message_size=600)
PROPERTY_BYTES: Final = [
    b"\x00",
    b"\x01",
    b"\x02",
    b"\x80",
    b"K",
    b"T",
    b"\x01a\x02",
    b"DELAY\x013\x02",
    b"INNER_BASE\x01",
]


def judged(chunk: EncodedChunk) -> tuple[Any, Any]:
    """Return what is found with the kernel and without it."""
    found: list[Any] = []
    for modules in ((), (prepared,)):
        with without_kernel(*modules):
            try:
                found.append(prepared.first_fault(chunk, CONFIG, redelivered=False))
            except MessageRejectedError as error:
                found.append(str(error))
    return found[0], found[1]


@settings(max_examples=some(300))
@given(batches(), st.booleans(), st.booleans(), st.data())
def test_changed_rows_have_the_same_fault_by_kernel_and_python(
    batch: pa.RecordBatch, with_crc: bool, indexed: bool, data: st.DataObject
) -> None:
    config = replace(CONFIG, enabled_append_prop_crc=with_crc, message_index_enable=indexed)
    chunks = encoded(batch, config)
    if isinstance(chunks, str):
        return
    (chunk,) = chunks
    octets, columns = np.frombuffer(bytearray(chunk.data.to_pybytes()), np.uint8), {}
    for _ in range(data.draw(st.integers(0, 2))):
        row = data.draw(st.integers(0, len(chunk.sizes) - 1))
        start, end = int(chunk.starts[row]), int(chunk.starts[row] + chunk.sizes[row])
        places = st.integers(start, min(start + 90, end - 1)) | st.integers(max(start, end - 120), end - 1)
        at = data.draw(places)
        changed = data.draw(st.sampled_from(PROPERTY_BYTES) | st.binary(min_size=1, max_size=4))[: end - at]
        octets[at : at + len(changed)] = np.frombuffer(changed, np.uint8)
    if data.draw(st.booleans()):
        name = data.draw(st.sampled_from(["sizes", "queue_ids", "topic_codes", "tags_codes", "starts"]))
        columns[name] = getattr(chunk, name).copy()
        most = len(chunk.topics) - 1 if name == "topic_codes" else 1 << 17
        columns[name][row_of(data, chunk)] = data.draw(st.integers(0 if name == "topic_codes" else -2, most))
    entries = chunk.entries
    if len(entries.hashes) and data.draw(st.booleans()):
        hashes, of_tag = entries.hashes.copy(), entries.of_tag.copy()
        at = data.draw(st.integers(0, len(hashes) - 1))
        if data.draw(st.booleans()):
            hashes[at] ^= 1
        else:
            of_tag[at] = not of_tag[at]
        entries = IndexEntries(hashes[at % 2 :], entries.of_row[at % 2 :], of_tag[at % 2 :])
    compiled, python = judged(replace(chunk, data=pa.py_buffer(octets), entries=entries, **columns))
    assert compiled == python


def row_of(data: st.DataObject, chunk: EncodedChunk) -> int:
    row: int = data.draw(st.integers(0, len(chunk.sizes) - 1))
    return row


def test_usual_rows_are_judged_by_the_kernel_alone() -> None:
    columns = {
        "body": [b"a", b"b" * 300],
        "keys": ["k l", None],
        "tags": ["键", ""],
        "shardingKey": ["s", None],
        "properties": pa.array([[("a", "b")], []], pa.map_(pa.string(), pa.string())),
    }
    for with_crc in (True, False):
        chunks = chunks_of(pa.RecordBatch.from_pydict(columns), replace(CONFIG, enabled_append_prop_crc=with_crc))
        with patch.object(prepared, "RecordColumns", side_effect=AssertionError):
            assert [prepared.first_fault(one, CONFIG, redelivered=False) for one in chunks] == [None]


@pytest.mark.parametrize("with_crc", [True, False])
def test_rows_that_are_not_as_their_columns_claim_have_the_same_fault_by_kernel_and_python(with_crc: bool) -> None:
    columns = {"body": [b"one", b"two"], "keys": ["k l", "m"], "tags": ["a", "b"]}
    (chunk,) = chunks_of(pa.RecordBatch.from_pydict(columns), replace(CONFIG, enabled_append_prop_crc=with_crc))
    raw, one = chunk.data.to_pybytes(), np.array([0, 1])
    hashes, of_row, of_tag = chunk.entries.hashes, chunk.entries.of_row, chunk.entries.of_tag
    changed: list[dict[str, Any]] = [
        {"data": pa.py_buffer(raw.replace(b"two", b"tw0"))},
        {"data": pa.py_buffer(raw.replace(b"TAGS\x01b", b"TAGS\x01\xff"))},
        {"tags_codes": chunk.tags_codes + one},
        {"queue_ids": (chunk.queue_ids + one).astype(np.int32)},
        {"sizes": chunk.sizes - one},
        {"entries": IndexEntries(hashes[:-1], of_row[:-1], of_tag[:-1])},
        {"entries": IndexEntries(hashes, of_row, ~of_tag)},
        {"entries": IndexEntries(hashes ^ 1, of_row, of_tag)},
    ]
    for change in changed:
        compiled, python = judged(replace(chunk, **change))
        assert compiled == python
        assert python is not None


@pytest.mark.parametrize("name", ["INNER_BASE", "__CRC32#", "__RMQ.TRANSIENT.x"])
def test_rows_with_properties_that_only_the_store_sets_are_left_over(name: str) -> None:
    given = "x" * len(name)
    properties = pa.array([[(given, "1")]], pa.map_(pa.string(), pa.string()))
    (chunk,) = chunks_of(pa.RecordBatch.from_pydict({"body": [b"a"], "properties": properties}), CONFIG)
    octets = chunk.data.to_pybytes().replace(given.encode(), name.encode())
    compiled, python = judged(replace(chunk, data=pa.py_buffer(octets)))
    assert compiled == python == (0, "it has a property that only the store sets")


def test_rows_that_python_encoded_are_proven_by_the_kernel() -> None:
    with without_kernel(compiled_rows):
        (chunk,) = chunks_of(pa.RecordBatch.from_pydict({"body": [b"a"], "keys": ["k"]}), CONFIG)
    assert judged(chunk) == (None, None)
