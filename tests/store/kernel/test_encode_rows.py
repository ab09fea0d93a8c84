"""Rows of columns become the same records with the compiled kernel and without it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocketflow_store import MessageStore, StoreConfig, StoreError
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.message_id import UNIQ_KEYS
from rocketflow_store.records.encoding import compiled_rows, relocate
from rocketflow_store.records.encoding.encode import BatchEncoder, EncodedChunk
from rocketflow_store.views.dispatch import dispatcher
from rocketflow_store.views.index import index_file
from tests.support.kernel_switch import without_kernel

pytestmark = pytest.mark.skipif(COMPILED is None, reason="this machine has no compiled kernel")

NOW: Final = 1_700_000_000_000
CRC_NAME: Final = "__CRC32#"
_PIECES: Final = st.sampled_from(["", " ", "a", "order-17", "k  l", "ÿ", "键", "😀", "T#", CRC_NAME, "x" * 40, "\x7f"])
TEXTS: Final = st.lists(_PIECES, max_size=4).map("".join)
BODIES: Final = st.binary(max_size=40) | st.integers(60, 300).map(lambda size: bytes(at & 255 for at in range(size)))
TOPICS: Final = st.sampled_from(["t", "orders", "x" * 127, None])
COLUMNS: Final[dict[str, tuple[st.SearchStrategy[Any], pa.DataType]]] = {
    "topic": (TOPICS, pa.string()),
    "tags": (TEXTS | st.none(), pa.string()),
    "keys": (TEXTS | st.none(), pa.string()),
    "shardingKey": (TEXTS | st.none(), pa.string()),
    "queueId": (st.integers(0, 5) | st.none(), pa.int32()),
    "flag": (st.integers(-(1 << 31), (1 << 31) - 1) | st.none(), pa.int32()),
    "bornTimestamp": (st.integers(0, 1 << 45) | st.none(), pa.timestamp("ms")),
    "properties": (
        st.dictionaries(
            st.sampled_from(["a", "KEYS", "TAGS", "UNIQ_KEY", "b" * 30, "INNER_MULTI_DISPATCH"]), TEXTS, max_size=3
        ).map(lambda one: list(one.items()))
        | st.none(),
        pa.map_(pa.string(), pa.string()),
    ),
    "delayTimeLevel": (st.sampled_from([0, 1, 18]), pa.int32()),
    "deliverTimestamp": (st.sampled_from([None, NOW - 5, NOW + 90_000]), pa.timestamp("ms")),
}
USUAL: Final = ("topic", "tags", "keys", "shardingKey", "queueId", "flag", "bornTimestamp")


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    names = draw(st.lists(st.sampled_from(USUAL if draw(st.booleans()) else list(COLUMNS)), unique=True))
    count = draw(st.integers(1, 12))
    columns = {"body": pa.array(draw(st.lists(BODIES, min_size=count, max_size=count)), pa.binary())}
    for name in names:
        values, kind = COLUMNS[name]
        columns[name] = pa.array(draw(st.lists(values, min_size=count, max_size=count)), kind)
    batch = pa.RecordBatch.from_pydict(columns)
    return batch.slice(draw(st.integers(0, count - 1)))


def encoded(batch: pa.RecordBatch, config: StoreConfig) -> list[EncodedChunk] | str:
    """Return the chunks of a batch, or why it is refused."""
    try:
        return chunks_of(batch, config)
    except StoreError as error:
        return f"{error!r} {error}"


def chunks_of(batch: pa.RecordBatch, config: StoreConfig) -> list[EncodedChunk]:
    encoder = BatchEncoder(config, lambda topic: 3 if topic == "t" else 4, "fallback", row_hashes=True)
    with patch.object(UNIQ_KEYS, "reserve", lambda count: ("7F0000011234ABCDEF01", 0x0FFF_FFFF_FFF8)):
        encoder.validate(batch)
        return list(encoder.encode(batch, NOW))


def facts(chunk: EncodedChunk) -> dict[str, Any]:
    found = {name: getattr(chunk, name) for name in EncodedChunk.__dataclass_fields__}
    found["data"] = chunk.data.to_pybytes()
    for entries in ("hashes", "of_row", "of_tag"):
        found[entries] = getattr(found["entries"], entries)
    found["lmqs"] = chunk.lmqs and (chunk.lmqs.names, chunk.lmqs.rows.tolist(), chunk.lmqs.at.tolist())
    del found["entries"]
    return {name: (one.dtype, one.tolist()) if isinstance(one, np.ndarray) else one for name, one in found.items()}


@given(batches(), st.booleans(), st.booleans(), st.booleans(), st.sampled_from(["10.0.0.1:1", "[::1]:9"]))
@example(pa.RecordBatch.from_pydict({"body": [b"b"], "keys": ["a\x02"]}), False, True, False, "10.0.0.1:1")
@example(
    pa.RecordBatch.from_pydict({"body": [b"b"], "keys": ["键 😀"], "tags": ["😀"]}), True, True, False, "10.0.0.1:1"
)
@example(
    pa.RecordBatch.from_pydict({"body": [b"b"] * 2, "queueId": pa.array([1, 2], pa.int32())}),
    *(False, True, False, "10.0.0.1:1"),
)
@example(
    pa.RecordBatch.from_pydict({"body": [b"b"] * 2, "bornTimestamp": pa.array([1, 2], pa.timestamp("ms"))}),
    *(False, True, False, "10.0.0.1:1"),
)
def test_rows_are_encoded_to_the_same_bytes_and_facts_by_kernel_and_python(
    batch: pa.RecordBatch, with_crc: bool, indexed: bool, lmqs: bool, host: str
) -> None:
    config = StoreConfig(
        enabled_append_prop_crc=with_crc,
        message_index_enable=indexed,
        enable_lmq=lmqs,
        store_host=host,
        clock=ManualClock(NOW),
    )
    compiled = encoded(batch, config)
    with without_kernel(compiled_rows):
        python = encoded(batch, config)
    if isinstance(compiled, str) or isinstance(python, str):
        assert compiled == python
        return
    assert [facts(one) for one in compiled] == [facts(one) for one in python]


def test_usual_rows_are_not_left_over_and_unusual_ones_are() -> None:
    config, taken = StoreConfig(enabled_append_prop_crc=False), []
    real = compiled_rows.compiled_rows

    def counting(*given: Any, **named: Any) -> Any:
        taken.append(real(*given, **named))
        return taken[-1]

    with patch("rocketflow_store.records.encoding.encode.compiled_rows", counting):
        for batch in (
            {"body": [b"a", b"b"], "keys": ["k l", None], "tags": ["键", ""], "shardingKey": ["s", "t"]},
            {"body": [b"a"], "properties": pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string()))},
            {"body": [b"a"], "delayTimeLevel": pa.array([3], pa.int32())},
            {
                "body": [b"a"],
                "properties": pa.array([[("UNIQ_KEY", f"{CRC_NAME}\x03{'0' * 10}")]], COLUMNS["properties"][1]),
            },
        ):
            encoded(pa.RecordBatch.from_pydict(batch), config)
    assert [one is not None for one in taken] == [True, True, True, False]


@given(
    st.lists(st.binary(min_size=108, max_size=200), min_size=1, max_size=5),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(0, 1 << 62),
)
def test_places_and_crcs_of_records_are_written_as_python_writes_them(
    records: list[bytes], with_crc: bool, timestamp: int, offset: int
) -> None:
    ends = np.cumsum([0, *map(len, records)])
    starts, sizes = ends[:-1], np.diff(ends)
    found = []
    for modules in ((), (relocate,)):
        octets = np.frombuffer(bytearray(b"".join(records)), np.uint8)
        with without_kernel(*modules):
            relocate.relocate(octets, starts, sizes, starts + offset, starts, timestamp, property_crc=with_crc)
        found.append(octets.tobytes())
    assert found[0] == found[1]


def test_records_that_reach_outside_of_their_bytes_are_left_over_unchanged() -> None:
    assert COMPILED is not None
    one = np.zeros(1, np.int64)
    for start, size, space in (
        (0, 87, 87),
        (-1, 100, 200),
        (101, 100, 200),
        ((1 << 63) - 1, 100, 200),
        (0, 1 << 62, 200),
    ):
        octets = np.zeros(space, np.uint8)
        assert not COMPILED.place_records(octets, one + start, one + size, one, one, -1, False)
        assert not octets.any()


@given(st.data())
def test_offsets_outside_of_their_values_are_refused(data: st.DataObject) -> None:
    assert COMPILED is not None
    count = data.draw(st.integers(0, 3))
    ints = st.lists(st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(0, 6), min_size=count + 1, max_size=count + 1)
    ends, values, bits = data.draw(ints), data.draw(st.binary(max_size=5)), data.draw(st.binary(max_size=2))
    first = data.draw(st.integers(-9, 20) | st.just((1 << 63) - 1))
    fits = ends[0] >= 0 and ends[-1] <= len(values) and all(one <= two for one, two in pairwise(ends))
    column = (b"N", np.array(ends, np.int32), values, bits, first)
    try:
        COMPILED.RowEncoder(np.zeros(count + 1, np.int32), b"", [column], [None, column, None], None, 0, True)
    except ValueError:
        assert not fits or first < 0 or first + count > len(bits) * 8
    else:
        assert fits
        assert 0 <= first <= len(bits) * 8 - count


def test_store_has_the_same_files_with_and_without_the_kernel(tmp_path: Path) -> None:
    count = 5_000
    batch = pa.RecordBatch.from_pydict(
        {
            "body": pa.array([bytes([row % 251]) * (row % 300) for row in range(count)], pa.binary()),
            "keys": [f"order-{row} more" if row % 3 else None for row in range(count)],
            "tags": [f"tag-{row % 7}" for row in range(count)],
            "topic": ["t" if row % 5 else "other" for row in range(count)],
        }
    )
    files: list[Any] = []
    for modules in ((), (compiled_rows, relocate, dispatcher, index_file)):
        path = tmp_path / str(len(files))
        config = StoreConfig(
            clock=ManualClock(NOW), mapped_file_size_commit_log=1 << 20, max_hash_slot_num=1000, max_index_num=9000
        )
        ids = patch.object(UNIQ_KEYS, "reserve", lambda count: ("7F0000011234ABCDEF01", 77))
        with without_kernel(*modules), ids, MessageStore.open(path, config) as store:
            result = store.append_batch(batch)
        kept = {"commitlog", "consumequeue", "index"}
        found = {
            str(one.relative_to(path)): one.read_bytes()
            for one in sorted(path.rglob("*"))
            if one.is_file() and one.relative_to(path).parts[0] in kept
        }
        files.append((result, found))
    assert files[0] == files[1]
    assert len(files[0][1]) > 4
