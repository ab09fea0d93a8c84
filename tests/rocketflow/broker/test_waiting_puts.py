"""Messages that wait for the store, with the time as an argument."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketflow.broker.puts.waiting_puts import WaitingPuts


class One(NamedTuple):
    number: int
    arrived: float
    size: int
    messages: int = 1


class Waiting(RuleBasedStateMachine):
    """Messages come, some together, go in runs and get late, also while a commit holds the lock; a list has them."""

    def __init__(self) -> None:
        super().__init__()
        self.puts: WaitingPuts[One] = WaitingPuts()
        self.waiting: list[One] = []
        self.counted_from: dict[int, float] = {}
        """When the wait of each message began, or the commit that it waited for ended."""
        self.now = 100.0
        self.count = 0

    def one(self, size: int, messages: int = 1) -> One:
        self.count += 1
        self.counted_from[self.count] = self.now
        self.waiting.append(One(self.count, self.now, size, messages))
        return self.waiting[-1]

    @rule(sizes=st.lists(st.integers(0, 5), max_size=4), messages=st.sampled_from([1, 1, 2, 5]))
    def add(self, sizes: list[int], messages: int) -> None:
        for size in sizes[:1]:
            self.puts.add(self.one(size, messages))
        for size in sizes[1:]:
            self.puts.add(self.one(size))

    @rule(passed=st.integers(0, 4))
    def wait(self, passed: int) -> None:
        self.now += passed

    @rule(before=st.integers(0, 4))
    def lock_was_held(self, before: int) -> None:
        until = self.now - before
        self.puts.lock_was_held(until)
        for one in self.waiting:
            self.counted_from[one.number] = max(self.counted_from[one.number], until)

    @rule(limit=st.none() | st.integers(0, 5))
    def take_late(self, limit: int | None) -> None:
        late = [one for one in self.waiting if limit is not None and self.now - self.counted_from[one.number] > limit]
        assert self.puts.take_late(self.now, limit) == late
        self.waiting = [one for one in self.waiting if one not in late]

    @rule()
    def take_all(self) -> None:
        assert self.puts.take_all() == self.waiting
        self.waiting = []

    @rule(most=st.integers(1, 4), most_bytes=st.none() | st.integers(1, 8))
    def take_run(self, most: int, most_bytes: int | None) -> None:
        expected: list[One] = []
        for one in self.waiting:
            if expected and sum(each.messages for each in expected) + one.messages > most:
                break
            expected.append(one)
            if most_bytes is not None and sum(one.size for one in expected) >= most_bytes:
                break
        assert self.puts.take_run(most, most_bytes) == expected
        del self.waiting[: len(expected)]

    @invariant()
    def nothing_is_lost(self) -> None:
        assert len(self.puts) == sum(one.messages for one in self.waiting)
        assert self.puts.waited_s(self.now) == (self.now - self.waiting[0].arrived if self.waiting else 0.0)


Waiting.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestWaiting = Waiting.TestCase
