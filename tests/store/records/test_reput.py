"""Redelivered records (`encoding.reput`) are, byte for byte, those of the scalar encoder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocketflow_store import StoreConfig
from rocketflow_store.format.record import RecordFields, encode_record
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.errors import MessageRejectedError
from rocketflow_store.model.message_id import encode_host
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC
from rocketflow_store.records.decoding import dispatch_rows
from rocketflow_store.records.decoding.decode import RecordColumns
from rocketflow_store.records.decoding.dispatch_rows import DispatchRows, rows_of_records
from rocketflow_store.records.encoding.encode import EncodedChunk
from rocketflow_store.records.encoding.relocate import relocate
from rocketflow_store.records.encoding.reput import TargetQueues, reput
from tests.support.kernel_switch import without_kernel

_HOSTS = [encode_host("10.0.0.5:10911"), encode_host("[2001:db8::7]:10911")]
_NAMES = [
    "TAGS",
    "KEYS",
    "UNIQ_KEY",
    "DELAY",
    "REAL_TOPIC",
    "REAL_QID",
    "INNER_MULTI_QUEUE_OFFSET",
    "city",
    "Ö",
    "WAIT",
]
_VALUES = st.one_of(
    st.sampled_from(["3", "0", "-1", "99", "x", "a b", "a  b ", "Köln", "𝄞"]), st.text("ab\x01", min_size=1)
)
_PAIRS = st.lists(st.tuples(st.sampled_from(_NAMES), _VALUES), max_size=6)
_TOPICS = st.sampled_from(["orders", "%RETRY%group", SCHEDULE_TOPIC, "%RETRY%" + "g" * 140, "t" * 127])


@dataclass(frozen=True)
class Case:
    """A stored record, True if it ends with its CRC, and its new queue."""

    fields: RecordFields
    with_crc: bool
    topic: str
    queue_id: int
    gap: int


def _properties(pairs: list[tuple[str, str]], closed: bool, odd: bytes) -> bytes:
    raw = "".join(f"{name}\x01{value}\x02" for name, value in pairs).encode()
    return odd + (raw if closed or not raw else raw[:-1])


_CASES = st.builds(
    Case,
    fields=st.builds(
        RecordFields,
        topic=_TOPICS.map(str.encode),
        queue_id=st.integers(0, 1 << 20),
        body=st.binary(max_size=40),
        properties=st.builds(
            _properties, _PAIRS, st.booleans(), st.sampled_from([b"", b"noise\x02", b"\x01v\x02", b"empty\x01\x02\x02"])
        ),
        flag=st.integers(-5, 5),
        sys_flag=st.sampled_from([0, 1, 2, 8, 0x101, 0x201]),
        born_timestamp=st.integers(0, 1 << 41),
        born_host=st.sampled_from(_HOSTS),
        store_host=st.sampled_from(_HOSTS),
        reconsume_times=st.integers(0, 17),
        prepared_transaction_offset=st.integers(0, 1 << 50),
    ),
    with_crc=st.booleans(),
    topic=_TOPICS,
    queue_id=st.integers(0, 1 << 18),
    gap=st.integers(0, 9),
)


def _columns(cases: list[Case]) -> RecordColumns:
    raw, positions, sizes = bytearray(), [], []
    for case in cases:
        raw += bytes(case.gap)
        record = encode_record(case.fields, len(raw), 5, 77, case.with_crc)
        positions.append(len(raw))
        sizes.append(len(record))
        raw += record
    return RecordColumns(pa.py_buffer(bytes(raw)), np.array(positions, np.int64), np.array(sizes, np.int64))


def _reput(cases: list[Case], config: StoreConfig, **changes: object) -> EncodedChunk:
    topics = sorted({case.topic for case in cases})
    targets = TargetQueues(
        topics,
        np.array([topics.index(case.topic) for case in cases], np.int32),
        np.array([case.queue_id for case in cases], np.int32),
    )
    return reput(
        _columns(cases),
        targets,
        config,
        **changes,  # type: ignore[arg-type]
    )


def _expected_properties(case: Case, drop: set[str], new: dict[str, str]) -> bytes:
    raw = case.fields.properties
    if case.with_crc and raw and not raw.endswith(b"\x02"):
        raw += b"\x02"
    dropped = {"INNER_MULTI_QUEUE_OFFSET", *drop}
    pairs = [one.split(b"\x01", 1) for one in raw.split(b"\x02")]
    good = [pair for pair in pairs if len(pair) == 2 and pair[0] and pair[1]]
    if any(name.decode() in dropped for name, _ in good):
        raw = b"".join(name + b"\x01" + value + b"\x02" for name, value in good if name.decode() not in dropped)
    if new and raw and not raw.endswith(b"\x02"):
        raw += b"\x02"
    return raw + "".join(f"{name}\x01{value}\x02" for name, value in new.items()).encode()


def _placed(chunk: EncodedChunk, property_crc: bool) -> list[bytes]:
    octets = chunk.writable()
    count = len(chunk.sizes)
    places, offsets = 1000 + np.cumsum(chunk.sizes) - chunk.sizes, 40 + np.arange(count)
    relocate(octets, chunk.starts, chunk.sizes, places, offsets, 123456, property_crc=property_crc)
    return [octets[at : at + size].tobytes() for at, size in zip(chunk.starts, chunk.sizes, strict=True)]


def _check(cases: list[Case], chunk: EncodedChunk, expected: list[RecordFields], config: StoreConfig) -> None:
    records = _placed(chunk, chunk.property_crc)
    place = 1000
    for number, (record, fields) in enumerate(zip(records, expected, strict=True)):
        assert record == encode_record(fields, place, 40 + number, 123456, config.append_prop_crc)
        place += len(record)
    raw = bytes(1000) + b"".join(records)
    read = RecordColumns(pa.py_buffer(raw), 1000 + chunk.starts - chunk.starts[0], chunk.sizes)
    assert not read.faults
    dispatched = rows_of_records(read, 0, config.delay_levels_ms)
    queues, queue_of = chunk.queues()
    encoded = chunk.dispatch_rows(dispatched.phy_offsets, dispatched.queue_offsets, queues, queue_of, 123456)
    assert _facts(encoded) == _facts(dispatched)


def _facts(rows: DispatchRows) -> object:
    return (
        rows.tags_codes.tolist(),
        rows.store_timestamps.tolist(),
        [rows.queues[queue] for queue in rows.queue_of.tolist()],
        rows.entries.hashes.tolist(),
        rows.entries.of_row.tolist(),
        list(rows.lmq),
    )


@given(st.lists(_CASES, min_size=1, max_size=6), st.booleans())
def test_reput_records_are_those_of_the_scalar_encoder(cases: list[Case], property_crc: bool) -> None:
    config = StoreConfig(enabled_append_prop_crc=property_crc)
    expected = [
        replace(
            case.fields,
            topic=case.topic.encode(),
            queue_id=case.queue_id,
            properties=_expected_properties(case, set(), {}),
            prepared_transaction_offset=0,
        )
        for case in cases
    ]
    _check(cases, _reput(cases, config), expected, config)


@given(
    st.lists(st.tuples(_CASES, st.none() | st.sampled_from(["17", "Ü", "t b"])), min_size=1, max_size=6), st.booleans()
)
def test_reput_sets_and_drops_properties(rows: list[tuple[Case, str | None]], property_crc: bool) -> None:
    """Properties are set (or removed, if the value is null) or dropped; reconsumeTimes changes."""
    cases, config = [case for case, _ in rows], StoreConfig(enabled_append_prop_crc=property_crc)
    expected = [
        replace(
            case.fields,
            topic=case.topic.encode(),
            queue_id=case.queue_id,
            properties=_expected_properties(
                case, {"TAGS", "TIMER", "DELAY", "city"}, {} if value is None else {"TAGS": value, "TIMER": value}
            ),
            prepared_transaction_offset=0,
            reconsume_times=case.fields.reconsume_times + 1,
        )
        for case, value in rows
    ]
    values = pa.array([value for _, value in rows], pa.string())
    # a new pair is per row: the rest of the row must not depend on its neighbours
    for one in expected:
        if one.properties and not one.properties.endswith(b"\x02"):
            one.properties += b"\x02"
    chunk = _reput(
        cases,
        config,
        set_properties={"TAGS": values, "TIMER": values},
        drop_properties=("DELAY", "city"),
        reconsume_times=np.array([case.fields.reconsume_times + 1 for case in cases], np.int32),
    )
    _check(cases, chunk, expected, config)


def _case(**changes: object) -> Case:
    fields = RecordFields(b"t", 0, b"body", b"DELAY\x013\x02", 0, 0, 1, _HOSTS[0], _HOSTS[0])
    return Case(replace(fields, **changes), False, "orders", 1, 0)  # type: ignore[arg-type]


def _delayed_again(topic: str) -> Case:
    return replace(_case(properties=b"UNIQ_KEY\x01u\x02DELAY\x013\x02"), topic=topic)


def _all_of(chunk: EncodedChunk) -> dict[str, Any]:
    found = {name: getattr(chunk, name) for name in EncodedChunk.__dataclass_fields__}
    found["data"] = chunk.data.to_pybytes()
    for name in ("hashes", "of_row", "of_tag"):
        found[name] = getattr(chunk.entries, name)
    found["lmqs"] = chunk.lmqs and (chunk.lmqs.names, chunk.lmqs.rows.tolist(), chunk.lmqs.at.tolist())
    del found["entries"]
    return {name: (one.dtype, one.tolist()) if isinstance(one, np.ndarray) else one for name, one in found.items()}


@pytest.mark.skipif(COMPILED is None, reason="this machine has no compiled kernel")
@given(
    st.lists(_CASES, min_size=1, max_size=6),
    st.sampled_from([None, "17", "Ü", "t b"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
@example([_delayed_again(SCHEDULE_TOPIC)], None, False, True, False)
@example([_delayed_again("orders")], None, False, False, False)
def test_reput_gives_the_same_chunk_with_the_kernel_and_without(
    cases: list[Case], tag: str | None, property_crc: bool, indexed: bool, lmqs: bool
) -> None:
    config = StoreConfig(enabled_append_prop_crc=property_crc, message_index_enable=indexed, enable_lmq=lmqs)
    changes: dict[str, Any] = {}
    if tag is not None:
        values = pa.array([tag] * len(cases), pa.string())
        changes = {"set_properties": {"TAGS": values}, "drop_properties": ("DELAY", "KEYS")}
    compiled = _reput(cases, config, **changes)
    with without_kernel(dispatch_rows):
        python = _reput(cases, config, **changes)
    assert _all_of(compiled) == _all_of(python)


@pytest.mark.skipif(COMPILED is None, reason="this machine has no compiled kernel")
@pytest.mark.parametrize(
    ("properties", "topic", "is_taken"),
    [
        (b"UNIQ_KEY\x01u\x02KEYS\x01a b\x02TAGS\x01t\x02DELAY\x013\x02", "orders", True),
        ("TAGS\x01Köln\x02".encode(), "%RETRY%group", True),
        (b"", "orders", True),
        (b"DELAY\x013\x02", SCHEDULE_TOPIC, False),
        (b"TAGS\x01\xff\x02", "orders", False),
    ],
)
def test_usual_redelivered_records_are_read_by_the_kernel(properties: bytes, topic: str, is_taken: bool) -> None:
    case = replace(_case(properties=properties), topic=topic)
    with patch(
        "rocketflow_store.records.encoding.reput.index_entries", side_effect=dispatch_rows.index_entries
    ) as used:
        _reput([case], StoreConfig())
    assert used.called is not is_taken


def test_a_crc_without_space_is_omitted() -> None:
    cases = [_case(), _case(properties=b"k\x01" + b"v" * 32760 + b"\x02")]
    chunk = _reput(cases, StoreConfig(enabled_append_prop_crc=True))
    assert not chunk.property_crc
    config = StoreConfig(enabled_append_prop_crc=False)
    _check(cases, chunk, [replace(case.fields, topic=b"orders", queue_id=1) for case in cases], config)


@pytest.mark.parametrize(
    ("case", "value", "why"),
    [
        (_case(sys_flag=4), "v", "half of a transaction"),
        (_case(sys_flag=0xC), "v", "half of a transaction"),
        (_case(sys_flag=0x80), "v", "inner batch"),
        (_case(), "a\x02REAL_TOPIC\x01b", "separator"),
        (_case(properties=b"k\x01" + b"v" * 32750 + b"\x02"), "v" * 20, "too long"),
    ],
)
def test_reput_names_the_record_that_cannot_be_redelivered(case: Case, value: str, why: str) -> None:
    with pytest.raises(MessageRejectedError, match=why) as caught:
        _reput([_case(), case], StoreConfig(), set_properties={"NEW": pa.array(["v", value])})
    assert caught.value.row == 1
