"""Offsets in their JSON form, as in Spark's offset log."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow.spark.source.stream_offset import CheckpointError, QueueKey, QueuePosition, StreamOffset

KEYS = st.builds(
    QueueKey,
    st.sampled_from(["", "broker-a", "b.2"]),
    st.text("%|abZ09_-", min_size=1, max_size=12),
    st.integers(0, 300),
)
POSITIONS = st.builds(
    QueuePosition,
    st.integers(0, 1 << 62),
    st.integers(-1, 1 << 62),
    st.integers(0, 0xFFFFFFFF),
    st.none() | st.integers(0, 1 << 62),
)


@given(st.dictionaries(KEYS, POSITIONS, max_size=20))
def test_round_trip_through_json_text(positions: dict[QueueKey, QueuePosition]) -> None:
    offset = StreamOffset(positions)
    text = json.dumps(offset.to_json())
    assert StreamOffset.from_json(json.loads(text)) == StreamOffset(positions)
    shuffled = StreamOffset(dict(reversed(positions.items())))
    assert json.dumps(shuffled.to_json()) == text
    assert json.dumps(json.loads(text), sort_keys=True) == text


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        {"orders": {"0": 5}},
        {"version": 3, "queues": {}},
        {"version": 1, "queues": []},
        {"version": 1, "queues": {"orders": [1]}},
        {"version": 1, "queues": {"orders": {"x": [1, 2, 3]}}},
        {"version": 1, "queues": {"orders": {"0": [1, 2]}}},
        {"version": 1, "queues": {"orders": {"0": [1, 2, "3"]}}},
        {"version": 1, "queues": {"orders": {"0": [-1, 2, 3]}}},
        {"version": 1, "queues": {"orders": {"0": [1.5, 2, 3]}}},
    ],
)
def test_json_that_is_no_offset_raises(value: Any) -> None:
    with pytest.raises(CheckpointError):
        StreamOffset.from_json(value)
