"""The kernel's comparisons for verify are those of Python's code."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow_store.fsck import verify_index
from rocketflow_store.fsck.log_report import Compared, QueueReport
from rocketflow_store.fsck.verify_units import compare_neighbours
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC
from rocketflow_store.records.arrow.unit_types import ENTRY_DTYPE, UNIT_DTYPE
from rocketflow_store.records.decoding.index_entries import IndexEntries
from tests.support.kernel_switch import pure_python

pytestmark = pytest.mark.skipif(COMPILED is None, reason="this machine has no compiled kernel")
LARGE: Final = (1 << 62, -1, -(1 << 63), (1 << 63) - 1)


def _chosen(draw: st.DrawFn, count: int, kind: st.SearchStrategy[int]) -> list[int]:
    return draw(st.lists(kind, min_size=count, max_size=count))


@st.composite
def entries(draw: st.DrawFn) -> npt.NDArray[np.void]:
    """Entries of which many have the place, the hash and the predecessor that they should have."""
    count = draw(st.integers(1, 30))
    found = np.zeros(count, ENTRY_DTYPE)
    places = np.cumsum(_chosen(draw, count, st.sampled_from([0, 0, 1, 2, 3]))) + 1000
    found["phy_offset"] = places if draw(st.booleans()) else _chosen(draw, count, st.sampled_from([1003, 1001, *LARGE]))
    found["key_hash"] = _chosen(draw, count, st.sampled_from([0, 1, 5, 7, (1 << 31) - 1, -1, -(1 << 31)]))
    found["time_diff"] = _chosen(draw, count, st.sampled_from([0, 0, 1, 0x7FFFFFFF]))
    heads: dict[int, int] = {}
    for at, key_hash in enumerate(found["key_hash"].tolist()):
        found["prev_index"][at] = heads.get(key_hash % 5, 0)
        heads[key_hash % 5] = at + 1
    if draw(st.booleans()):
        found["prev_index"][draw(st.integers(0, count - 1))] ^= 1
    return found


@given(entries(), st.integers(1, 20))
def test_chains_are_followed_as_without_the_kernel(table: npt.NDArray[np.void], cut: int) -> None:
    def followed() -> list[Any]:
        heads, found = np.zeros(5, np.int32), list[Any]()
        for first in range(0, len(table), cut):
            wrong, low, high = verify_index.follow_chains(table[first : first + cut], first + 1, heads)
            found += [wrong.tolist(), low, high, heads.tolist()]
        return found

    made = followed()
    with pure_python():
        assert made == followed()


@given(entries(), st.data())
def test_entries_are_matched_as_without_the_kernel(table: npt.NDArray[np.void], data: st.DataObject) -> None:
    start, stop = 1000, data.draw(st.sampled_from([1004, 1100, 1000]))
    begin, first = data.draw(st.sampled_from([0, -5, 10_000])), data.draw(st.sampled_from([1, 2]))
    inside = table[(table["phy_offset"] >= start) & (table["phy_offset"] < stop)]
    pairs = ((inside["phy_offset"].astype(np.int64) - start) << 32) | (inside["key_hash"].astype(np.int64) & 0xFFFFFFFF)
    kept = np.unique(pairs)[data.draw(st.integers(0, 2)) :]
    times = np.array(_chosen(data.draw, len(kept), st.sampled_from([10_000, 10_999, 11_000, 9_001, *LARGE])), np.int64)
    if begin > 0 and len(times) and abs(int(times.min())) > 1 << 60:
        times = np.clip(times, -(1 << 60), 1 << 60)  # numbers that are exact in both
    expected = verify_index.ExpectedEntries(kept, times, np.ones(len(kept), bool))

    def matched() -> tuple[list[int], list[bool]]:
        stretch = verify_index.Stretch(start, stop, expected, np.zeros(len(kept), bool), None)  # type: ignore[arg-type]
        return verify_index.wrong_entries(table, first, begin, stretch).tolist(), stretch.seen.tolist()

    made = matched()
    with pure_python():
        assert made == matched()


@st.composite
def indexed(draw: st.DrawFn) -> tuple[IndexEntries, list[int], list[int], list[bool], npt.NDArray[np.void]]:
    """Entries that records may have, the records' positions, times and marks, and a table that often has them all."""
    count = draw(st.integers(1, 6))
    positions = np.cumsum(_chosen(draw, count, st.sampled_from([1, 100]))).tolist()
    times = _chosen(draw, count, st.sampled_from([10_000, 10_999, 11_000]))
    with_tags = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    of_row = sorted(draw(st.lists(st.integers(0, count - 1), max_size=10)))
    hashes = _chosen(draw, len(of_row), st.sampled_from([0, 7, 9, (1 << 31) - 1]))
    of_tag = draw(st.lists(st.booleans(), min_size=len(of_row), max_size=len(of_row)))
    table = np.zeros(len(of_row), ENTRY_DTYPE)
    table["phy_offset"] = [1000 + positions[row] for row in of_row]
    table["time_diff"] = [(times[row] - 10_000) // 1000 for row in of_row]
    table["key_hash"] = hashes
    kept = [not (tag and not with_tags[row] and draw(st.booleans())) for tag, row in zip(of_tag, of_row, strict=True)]
    table = np.concatenate([np.zeros(draw(st.integers(0, 1)), ENTRY_DTYPE), table[np.array(kept, bool)]])
    change = draw(st.sampled_from(["", "", "", "phy_offset", "key_hash", "time_diff", "lost", "twice", "turned"]))
    at = draw(st.integers(0, max(len(table) - 1, 0)))
    if change == "lost":
        table = np.delete(table, slice(at, at + 1))
    elif change == "twice":
        table = np.concatenate([table[: at + 1], table[at:]])
    elif change == "turned":
        table = table[::-1].copy()
    elif change and len(table):
        table[change][at] ^= 1
    entries = IndexEntries(np.array(hashes, np.int32), np.array(of_row, np.intp), np.array(of_tag, bool))
    return entries, positions, times, with_tags, table.astype(ENTRY_DTYPE)  # joined parts lose their byte order


@given(indexed(), st.sampled_from([0, 10_000]), st.sampled_from([1 << 20, 150]))
def test_index_is_compared_with_records_as_without_the_kernel(found: Any, begin: int, length: int) -> None:
    entries, positions, times, with_tags, table = found
    file = SimpleNamespace(
        header=SimpleNamespace(begin_timestamp=begin),
        entry_table=lambda count: np.concatenate([np.zeros(1, ENTRY_DTYPE), table]).astype(ENTRY_DTYPE)[: count + 1],
    )
    highest = table["phy_offset"].astype(np.int64)

    def compared() -> tuple[Compared, bool]:
        check = object.__new__(verify_index.IndexCheck)
        check.floor = 0
        check.known = {}
        if len(table):
            bounds = np.array([highest.min()]), np.array([highest.max()])
            check.known = {0: verify_index.CheckedFile(file, len(table), *bounds)}  # type: ignore[arg-type]
        gathered = verify_index.GatheredEntries()
        columns = np.array(positions, np.int64), np.array(times, np.int64), np.array(with_tags, bool)
        keyed = gathered.add(entries, *columns)
        out = Compared()
        check.compare(1000, 1000 + length, gathered.take(length), out)
        return out, keyed

    made = compared()
    with pure_python():
        assert made == compared()


@pytest.mark.parametrize("changed", ["", "phy_offset", "key_hash", "time_diff", "lost", "optional"])
def test_index_in_the_order_of_dispatch_has_exactly_its_entries(changed: str) -> None:
    assert COMPILED is not None
    table = np.zeros(4, ENTRY_DTYPE)
    table["phy_offset"], table["key_hash"], table["time_diff"] = [1000, 1000, 1100, 1200], [7, 3, 7, 7], [0, 0, 1, 2]
    pairs = np.array([7, 3, 100 << 32 | 7, 200 << 32 | 7])
    must = np.array([True, True, changed != "optional", True])
    if changed in ("lost", "optional"):
        table = np.delete(table, 2)
    elif changed:
        table[changed][2] += 1
    columns = pairs, np.array([5000, 5000, 6000, 7999]), must.view(np.uint8)
    at = COMPILED.match_in_order(table.view(np.uint8), True, (1000, 1300), columns, 5000, 0)
    assert at == (4 if changed in ("", "optional") else -1)


@given(st.data(), st.sampled_from(["t", SCHEDULE_TOPIC, "%LMQ%a"]))
def test_units_are_compared_as_without_the_kernel(data: st.DataObject, topic: str) -> None:
    count, first_unit = data.draw(st.integers(1, 12)), data.draw(st.integers(0, 3))
    units = np.zeros(12, UNIT_DTYPE)
    units["phy_offset"], units["msg_size"], units["tags_code"] = (
        np.arange(12) * 100,
        91 + np.arange(12),
        np.arange(12) - 3,
    )
    rows = SimpleNamespace(
        queue_offsets=np.sort(np.array(_chosen(data.draw, count, st.integers(0, 11)), np.int64))
        if data.draw(st.booleans())
        else np.arange(count) % 12,
    )
    rows.phy_offsets = units["phy_offset"][rows.queue_offsets].astype(np.int64)
    rows.sizes = units["msg_size"][rows.queue_offsets].astype(np.int64)
    rows.tags_codes = units["tags_code"][rows.queue_offsets].astype(np.int64)
    changed = data.draw(st.sampled_from(["", "", "phy_offset", "msg_size", "tags_code"]))
    if changed:
        units[changed][data.draw(st.integers(0, 11))] = data.draw(st.sampled_from([0, 1, -1, 97]))
    part = lambda start, stop: units[start:stop]  # noqa: E731
    queue = SimpleNamespace(topic=topic, first_unit=first_unit, units=part, units_or_zeros=part)

    def compared() -> QueueReport:
        report = QueueReport()
        compare_neighbours(queue, rows, np.arange(count), report)  # type: ignore[arg-type]
        return report

    made = compared()
    with pure_python():
        expected = compared()
    assert _of(made) == _of(expected)


def _of(report: QueueReport) -> list[Any]:
    return [report.matched, *(one.ranges for one in (report.units.missing, report.units.wrong, report.right))]


@pytest.mark.parametrize("changed", ["", "phy_offset", "msg_size", "tags_code"])
def test_unit_that_differs_is_not_the_records(changed: str) -> None:
    assert COMPILED is not None
    units = np.zeros(3, UNIT_DTYPE)
    units["phy_offset"], units["msg_size"], units["tags_code"] = [0, 100, 200], 100, [5, 6, 7]
    columns = np.array([10, 11, 12]), np.array([0, 100, 200]), np.full(3, 100), np.array([5, 6, 7])
    if changed:
        units[changed][1] += 1
    for tags in (False, True):
        same = COMPILED.same_units(units.view(np.uint8), 10, np.arange(3), columns, tags)
        assert same == (not changed or (changed == "tags_code" and not tags))


@pytest.mark.parametrize("changed", ["", "phy_offset", "key_hash", "time_diff"])
def test_entry_that_differs_is_wrong(changed: str) -> None:
    table = np.zeros(4, ENTRY_DTYPE)
    table["phy_offset"], table["key_hash"], table["time_diff"] = [1000, 1000, 1100, 1200], [7, 3, 7, 7], [0, 0, 1, 2]
    pairs = np.array([3, 7, 100 << 32 | 7, 200 << 32 | 7])
    expected = verify_index.ExpectedEntries(pairs, np.array([5000, 5000, 6000, 7999]), np.ones(4, bool))
    if changed:
        table[changed][2] += 1
    stretch = verify_index.Stretch(1000, 1300, expected, np.zeros(4, bool), None)  # type: ignore[arg-type]
    assert verify_index.wrong_entries(table, 1, 5000, stretch).tolist() == ([2] if changed else [])
    assert stretch.seen.tolist() == [True, True, changed in ("", "time_diff"), True]


def test_negative_hashes_have_slots_as_in_python() -> None:
    table = np.zeros(6, ENTRY_DTYPE)
    table["key_hash"], table["prev_index"] = [-1, -6, 4, -(1 << 31), 3, -2], [0, 1, 2, 0, 0, 5]
    wrong, _, _ = verify_index.follow_chains(table, 1, np.zeros(5, np.int32))
    with pure_python():
        expected, _, _ = verify_index.follow_chains(table, 1, np.zeros(5, np.int32))
    assert wrong.tolist() == expected.tolist()
