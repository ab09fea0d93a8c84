"""Fields of many records at once (`columnar.decode.RecordColumns`)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rocketflow_store.columnar.decode import RecordColumns
from rocketflow_store.format.message_id import encode_host
from rocketflow_store.format.record import RecordFields, encode_record

_HOST = encode_host("10.0.0.5:10911")


@pytest.mark.parametrize("topics", [["a", "bbb"], ["%RETRY%" + "g" * 140], ["%RETRY%" + "g" * 140, "a"]])
def test_records_without_properties_are_whole(topics: list[str]) -> None:
    """Whatever topics stand beside each other: 4.9 stores a message without any property as it is."""
    records = [
        encode_record(RecordFields(topic.encode(), 0, b"body", b"", 0, 0, 1, _HOST, _HOST), 0, 0, 1) for topic in topics
    ]
    sizes = np.array([len(one) for one in records], np.int64)
    columns = RecordColumns(pa.py_buffer(b"".join(records)), np.cumsum(sizes) - sizes, sizes)
    assert not columns.faults
    assert columns.topics().to_pylist() == topics
