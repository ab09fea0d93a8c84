"""Planning: ranges are disjoint, complete and within their limits for any input."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketflow.spark.source.stream_offset import QueueKey
from rocketflow.spark.source.task_planning import (
    ROWS_WORTH_A_TASK,
    MinimumGate,
    QueueRange,
    TaskLimits,
    cut_by_bytes,
    cut_by_rows,
    plan_tasks,
    ranges_between,
)


def key(number: int) -> QueueKey:
    return QueueKey("", f"t{number // 4}", number % 4)


@st.composite
def queue_ranges(draw: st.DrawFn, most_rows: int = 5000) -> list[QueueRange]:
    numbers = draw(st.lists(st.integers(0, 40), unique=True, max_size=12))
    ranges = []
    for number in sorted(numbers):
        start = draw(st.integers(0, 1 << 40))
        ranges.append(QueueRange(key(number), start, start + draw(st.integers(1, most_rows))))
    return sorted(ranges)


def rows_of(ranges: list[QueueRange]) -> int:
    return sum(one.rows for one in ranges)


@given(queue_ranges(), st.integers(1, 20_000))
def test_cut_by_rows_takes_exactly_the_limit_from_the_starts(ranges: list[QueueRange], limit: int) -> None:
    cut = cut_by_rows(ranges, limit)
    before = {one.key: one for one in ranges}
    assert rows_of(cut) == min(limit, rows_of(ranges))
    assert len({one.key for one in cut}) == len(cut)
    for one in cut:
        assert one.start == before[one.key].start
        assert one.start < one.end <= before[one.key].end
    if limit >= len(ranges):
        assert {one.key for one in cut} == set(before)


@given(queue_ranges(most_rows=50), st.integers(1, 60))
def test_no_queue_starves(ranges: list[QueueRange], limit: int) -> None:
    left = {one.key: one for one in ranges}
    batches = 0
    while left:
        batches += 1
        assert batches <= rows_of(ranges)
        for one in cut_by_rows(sorted(left.values()), limit):
            rest = QueueRange(one.key, one.end, left[one.key].end)
            if rest.rows:
                left[one.key] = rest
            else:
                del left[one.key]
    assert batches == -(-rows_of(ranges) // limit)


def test_cut_by_rows_shares_are_in_proportion_to_waiting_rows() -> None:
    cut = cut_by_rows([QueueRange(key(0), 0, 900), QueueRange(key(1), 0, 90), QueueRange(key(2), 0, 10)], 100)
    assert [one.rows for one in cut] == [88, 10, 2]


@given(queue_ranges(most_rows=300), st.integers(1, 50_000), st.integers(1, 997))
def test_cut_by_bytes_stays_within_the_limit_and_moves_on(ranges: list[QueueRange], limit: int, seed: int) -> None:
    def sizes(_: QueueKey, start: int, end: int) -> list[int]:
        return [91 + (offset * seed) % 400 for offset in range(start, end)]

    cut = cut_by_bytes(ranges, limit, sizes)
    taken = sum(sum(sizes(one.key, one.start, one.end)) for one in cut)
    before = {one.key: one for one in ranges}
    assert all(one.start == before[one.key].start and one.end <= before[one.key].end for one in cut)
    if ranges:
        assert cut
        assert taken <= limit or rows_of(cut) == 1
        rest = [one.end for one in cut] != [one.end for one in ranges] or len(cut) < len(ranges)
        if rest and rows_of(cut) > 1:
            nexts = [QueueRange(one.key, one.end, before[one.key].end) for one in cut if one.end < before[one.key].end]
            nexts += [one for one in ranges if one.key not in {done.key for done in cut}]
            assert all(taken + sizes(one.key, one.start, one.start + 1)[0] > limit for one in nexts)


def test_one_record_larger_than_the_byte_limit_goes_through_alone() -> None:
    cut = cut_by_bytes([QueueRange(key(0), 5, 9), QueueRange(key(1), 0, 2)], 10, lambda _, a, b: [1000] * (b - a))
    assert cut == [QueueRange(key(0), 5, 6)]


@given(
    queue_ranges(most_rows=200_000),
    st.integers(1, 16),
    st.none() | st.integers(1, 64),
    st.none() | st.integers(1000, 100_000),
    st.sampled_from([0, 300, 300_000]),
)
def test_tasks_are_disjoint_complete_and_within_limits(
    ranges: list[QueueRange], cores: int, min_partitions: int | None, most: int | None, units: int
) -> None:
    limits = TaskLimits(cores, min_partitions, most)
    tasks = plan_tasks(ranges, limits, lambda _: units)
    pieces = [piece for task in tasks for piece in task]
    assert all(piece.rows > 0 for piece in pieces)
    rebuilt: dict[QueueKey, list[QueueRange]] = {}
    for piece in pieces:
        rebuilt.setdefault(piece.key, []).append(piece)
    for one in ranges:
        mine = rebuilt.pop(one.key)
        assert [piece.start for piece in mine] == [one.start, *[piece.end for piece in mine[:-1]]]
        assert mine[-1].end == one.end
    assert not rebuilt
    assert len(tasks) == limits.task_count(rows_of(ranges))
    if most is not None:
        assert all(rows_of(task) <= most for task in tasks)


def test_a_cut_near_a_consume_queue_file_boundary_moves_onto_it() -> None:
    tasks = plan_tasks([QueueRange(key(0), 0, 620_000)], TaskLimits(2), lambda _: 300_000)
    assert [(one.start, one.end) for task in tasks for one in task] == [(0, 300_000), (300_000, 620_000)]


def test_few_rows_are_one_task() -> None:
    ranges = [QueueRange(key(number), 0, 10) for number in range(8)]
    assert plan_tasks(ranges, TaskLimits(4)) == [ranges]
    assert len(plan_tasks([QueueRange(key(0), 0, 2 * ROWS_WORTH_A_TASK)], TaskLimits(4))) == 2


def test_ranges_between_omits_queues_that_did_not_move() -> None:
    starts = {key(0): 3, key(1): 4, key(2): 9}
    ends = {key(0): 7, key(1): 4, key(2): 5}
    assert ranges_between(starts, ends) == [QueueRange(key(0), 3, 7)]


def test_minimum_gate_passes_the_first_batch_then_waits_for_rows_or_time() -> None:
    gate = MinimumGate(min_rows=100, max_delay_ms=1000)
    assert not gate.holds_back(1, now_ms=5000)
    assert gate.holds_back(99, now_ms=5999)
    assert not gate.holds_back(100, now_ms=5999)
    assert gate.holds_back(99, now_ms=6998)
    assert not gate.holds_back(1, now_ms=6999)
