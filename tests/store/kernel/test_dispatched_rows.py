"""Rows get the same units, and index files the same entries, with the compiled kernel and without it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rocketflow_store.kernel import COMPILED
from rocketflow_store.records.arrow.unit_types import INDEX_ROW_DTYPE
from rocketflow_store.records.decoding.dispatch_rows import DispatchRows
from rocketflow_store.records.decoding.index_entries import IndexEntries
from rocketflow_store.views.dispatch import dispatcher
from rocketflow_store.views.dispatch.dispatcher import Dispatcher
from rocketflow_store.views.index import index_build, index_file
from rocketflow_store.views.index.index_file import IndexFile
from rocketflow_store.views.index.index_table import IndexHeader
from rocketflow_store.views.queues import rows_by_queue
from tests.support.kernel_switch import without_kernel

pytestmark = pytest.mark.skipif(COMPILED is None, reason="this machine has no compiled kernel")

SLOTS: Final = 5
ENTRIES: Final = 40
LONGS: Final = st.integers(-(1 << 63), (1 << 63) - 1)
INTS: Final = st.integers(-(1 << 31), (1 << 31) - 1)
NUMBERS: Final = st.integers(-1, ENTRIES) | INTS
NO_ROWS: Final = DispatchRows(
    *(np.arange(5) for _ in range(5)), [("t", 0), ("t", 1)], np.zeros(5, np.int32), IndexEntries.none()
)
TIMES: Final = st.integers(-5_000, 5_000) | st.integers(0, 1 << 42) | LONGS


class RecordedQueues:
    """Keeps the units that a dispatcher writes."""

    def __init__(self) -> None:
        self.written: list[tuple[str, int, int, bytes]] = []

    def add(self, topic: str, queue_id: int) -> Any:
        class Queue:
            @staticmethod
            def put_bytes(first: int, octets: memoryview) -> None:
                self.written.append((topic, queue_id, first, bytes(octets)))

        return Queue


@st.composite
def dispatched(draw: st.DrawFn) -> DispatchRows:
    queues = draw(st.sampled_from([[("t", 0)], [("t", 1), ("t", 7)], [("a", 0), ("a", 3), ("t", 1)], [("t", 1 << 20)]]))
    count = draw(st.integers(0, 12))

    def column(values: st.SearchStrategy[int], kind: type[Any] = np.int64) -> Any:
        return np.array(draw(st.lists(values, min_size=count, max_size=count)), kind)

    return DispatchRows(
        phy_offsets=column(LONGS),
        sizes=column(INTS),
        tags_codes=column(LONGS),
        store_timestamps=column(LONGS),
        queue_offsets=column(st.integers(0, 3)) + np.arange(count) // 2,
        queues=queues,
        queue_of=column(st.integers(-1, len(queues) - 1), np.int32),
        entries=IndexEntries.none(),
    )


@given(st.lists(dispatched(), min_size=1, max_size=3))
def test_units_are_written_in_the_same_runs_by_kernel_and_python(parts: list[DispatchRows]) -> None:
    found = []
    for modules in ((), (dispatcher,)):
        queues = RecordedQueues()
        with without_kernel(*modules):
            Dispatcher(queues, None).dispatch_all(parts)  # type: ignore[arg-type]
        found.append(queues.written)
    assert found[0] == found[1]


def rows_of(size: int) -> st.SearchStrategy[Any]:
    return st.tuples(*(st.lists(one, min_size=size, max_size=size) for one in (INTS, LONGS, TIMES)))


@given(dispatched())
@example(replace(NO_ROWS, queue_of=np.array([-1, 0, 1, 0, 1], np.int32), queue_offsets=np.array([7, 3, 3, 4, 9])))
def test_rows_come_together_by_queue_as_without_the_kernel(rows: DispatchRows) -> None:
    made = rows_by_queue.rows_by_queue(rows)
    with without_kernel(rows_by_queue):
        expected = rows_by_queue.rows_by_queue(rows)
    assert [one.tolist() for one in made] == [one.tolist() for one in expected]
    assert made.runs_of(len(rows.queues)) == expected.runs_of(len(rows.queues))


def test_row_of_an_unknown_queue_is_refused() -> None:
    assert COMPILED is not None
    columns = np.zeros(2, np.int64), np.zeros(2, np.int64)
    for queue in (-2, 1):
        with pytest.raises(ValueError, match="no queue"):
            COMPILED.rows_by_queue(
                np.array([0, queue], np.int32), *columns, 1, np.empty(2, np.int64), np.empty((2, 6), np.int64)
            )


@settings(max_examples=60)
@given(
    st.none() | st.builds(IndexHeader, end_timestamp=st.sampled_from([0, 1_000, 1 << 41])),
    st.lists(st.integers(0, 14).flatmap(rows_of), max_size=4),
)
def test_index_file_is_built_alike_by_kernel_and_python(
    tmp_path_factory: pytest.TempPathFactory, before: IndexHeader | None, runs: list[Any]
) -> None:
    path, found = tmp_path_factory.mktemp("built") / "index", []
    some = []
    for hashes, offsets, times in runs:
        some.append(np.empty(len(hashes), INDEX_ROW_DTYPE))
        some[-1]["key_hash"], some[-1]["phy_offset"] = hashes, offsets
        some[-1]["store_timestamp"] = np.clip(np.array(times, np.int64), -(1 << 60), 1 << 60)
    for modules in ((), (index_build,)):
        with without_kernel(*modules):
            header = index_build.build_index_file(path, SLOTS, ENTRIES + 20, before, some)
        found.append((path.read_bytes(), header))
        path.unlink()
    assert found[0] == found[1]


def written_index(path: Path, header: IndexHeader, damage: list[tuple[int, int]], puts: list[Any]) -> tuple[bytes, Any]:
    """Return the bytes of a file after `puts` of (hashes, physical offsets, store times), and what they returned."""
    file = IndexFile.create(path, SLOTS, ENTRIES, header)
    try:
        for slot, value in damage:
            file.slots()[slot] = value
        results = []
        for number, (hashes, offsets, times) in enumerate(puts):
            if number % 2:
                results.append(file.put_run(hashes, offsets, times[0]) if hashes and file.room else 0)
            else:
                columns = np.array(hashes, np.int32), np.array(offsets, np.int64), np.array(times, np.int64)
                results.append(file.put(*columns))
        return path.read_bytes(), (results, file.header)
    finally:
        file.close()
        path.unlink()


@settings(max_examples=60)
@given(
    st.builds(IndexHeader, begin_timestamp=st.integers(0, 1 << 42), end_timestamp=st.sampled_from([0, 1_000, 1 << 41])),
    st.lists(st.tuples(st.integers(0, SLOTS - 1), NUMBERS), max_size=4),
    st.lists(st.integers(0, 14).flatmap(rows_of), max_size=4),
)
@example(IndexHeader(), [(1, 3)], [([0, 0, 0, 0, 1], [9] * 5, [9] * 5)])
@example(IndexHeader(), [], [([0], [0], [(1 << 63) - 1]), ([0], [0], [-2])])
def test_entries_slots_and_header_of_an_index_file_are_the_same_by_kernel_and_python(
    tmp_path_factory: pytest.TempPathFactory, header: IndexHeader, damage: list[tuple[int, int]], puts: list[Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "20261128120000000"
    compiled = written_index(path, header, damage, puts)
    with without_kernel(index_file):
        python = written_index(path, header, damage, puts)
    assert compiled == python


@given(
    st.binary(max_size=400),
    *(LONGS | st.integers(-2, 20) for _ in range(2)),
    st.integers(0, 5),
)
def test_entries_are_refused_where_a_file_has_no_space_for_them(
    octets: bytes, slots: int, first: int, count: int
) -> None:
    assert COMPILED is not None
    fits = slots > 0 and first > 0 and 40 + 4 * slots + 20 * (first + count) <= len(octets)
    ones = np.ones(count, np.int64)

    def put_columns(file: bytearray) -> int:
        assert COMPILED is not None
        put: int = COMPILED.put_index_entries(file, slots, first, 0, ones.astype(np.int32), ones, ones)
        return put

    def put_lists(file: bytearray) -> int:
        assert COMPILED is not None
        put: int = COMPILED.put_index_run(file, slots, first, 0, [1] * 5, [1] * 5, count, 1)
        return put

    for put in (put_columns, put_lists):
        file = bytearray(octets)
        if fits:
            assert put(file) <= count
            continue
        with pytest.raises(ValueError, match="index file"):
            put(file)
        assert file == octets


def test_rows_of_an_unknown_queue_are_refused() -> None:
    assert COMPILED is not None
    one, space = np.zeros(1, np.int64), np.zeros((1, 3), np.int64)
    for queue in (-2, 1, (1 << 63) - 1):
        with pytest.raises(ValueError, match="no queue"):
            COMPILED.units_by_queue(one + queue, one, one, one, one, space, space.copy(), np.zeros(20, np.uint8))
    with pytest.raises(ValueError, match="another number"):
        COMPILED.units_by_queue(one, one, one, one, one, space, space.copy(), np.zeros(19, np.uint8))
