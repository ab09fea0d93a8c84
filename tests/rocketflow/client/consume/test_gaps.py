"""Offsets without a message: gaps, or explained by a filter, retention or a compacted topic."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import pytest

from rocketflow.aio.loop import run
from rocketflow.client.cluster import Cluster
from rocketflow.client.consume.gaps import (
    UNEXPLAINED,
    SkipReports,
    missing,
    unannounced,
)
from rocketflow.client.consume.pulls import Puller, PullRequest, PullResult
from rocketflow.client.consume.subscriptions import SQL92, subscription
from rocketflow.client.errors import UnreachableError
from rocketflow.client.pull_status import PullStatus
from rocketflow.client.skipped import SkippedMessages, SkippedSpan, skipped_spans
from rocketflow.remoting.bodies import MessageQueue, encode_body
from rocketflow.remoting.command import Command
from rocketflow_store.spi.messages import ReceivedMessage
from rocketflow_store.spi.table_rows import TopicConfig
from tests.support.record_bytes import record

QUEUE = MessageQueue("T", "b", 0)


def result(
    start: int,
    end: int,
    offsets: Iterable[int] = (),
    *,
    queue: MessageQueue = QUEUE,
    expression: str = "*",
    **more: Any,
) -> PullResult:
    """Return an answer to a pull from `start` with messages at `offsets`."""
    kind = more.pop("kind", "TAG")
    asked = subscription(queue.topic, expression, version=1, expression_type=kind)
    records = b"".join(record("T", one, b"x") for one in offsets)
    values = {"status": PullStatus.FOUND, "min_offset": 0, "max_offset": 100, "records": records, "address": "a:1"}
    return PullResult(PullRequest(queue=queue, offset=start, subscription=asked), next_offset=end, **{**values, **more})


def gap(start: int, end: int, *, certain: bool = False, why: str = UNEXPLAINED) -> SkippedMessages:
    return SkippedMessages(QUEUE, start, end, why, certain)


def spans(found: Sequence[SkippedMessages]) -> list[tuple[int, int]]:
    return [(one.start, one.end) for one in found]


def test_missing_offsets_are_those_between_the_messages() -> None:
    source = random.Random(5)
    for _ in range(200):
        start, count = source.randrange(50), source.randrange(1, 30)
        present = [one for one in range(start, start + count) if source.random() < 0.7]
        found = missing(start, start + count, present)
        assert [one for first, last in found for one in range(first, last)] == sorted(
            set(range(start, start + count)) - set(present)
        )
        assert all(first < last for first, last in found)
        assert all(left[1] < right[0] for left, right in pairwise(found))


@pytest.mark.parametrize(
    ("one", "offsets", "found"),
    [
        (result(0, 4), [0, 1, 2, 3], []),
        (result(0, 4), [0, 3], [(1, 3)]),
        (result(2, 9, status=PullStatus.NO_MATCHED_MSG), [], [(2, 9)]),
        (result(2, 9, status=PullStatus.NO_NEW_MSG), [], [(2, 9)]),
        (result(5, 5, status=PullStatus.NO_NEW_MSG), [], []),
        (result(0, 40, status=PullStatus.OFFSET_ILLEGAL), [], []),
        (result(0, 9, expression="a"), [3], []),
        (result(0, 9, expression="n > 1", kind=SQL92), [3], []),
        (result(0, 9, min_offset=7, status=PullStatus.NO_MATCHED_MSG), [], [(7, 9)]),
        (result(0, 9, min_offset=9, status=PullStatus.NO_MATCHED_MSG), [], []),
        (result(0, 9, skipped=(SkippedSpan(2, 4, "w"), SkippedSpan(8, 9, "w"))), [0, 1, 4, 5], [(6, 8)]),
        (result(0, 9, offset_delta=0), [3], []),
        (result(0, 9, queue=MessageQueue("%LMQ%T", "b", 0)), [3], []),
    ],
)  # fmt: skip
def test_offsets_without_a_message_are_gaps_unless_something_explains_them(
    one: PullResult, offsets: list[int], found: list[tuple[int, int]]
) -> None:
    messages = [ReceivedMessage("T", 0, offset, b"", {}) for offset in offsets]
    assert spans(unannounced(one, messages)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, ()),
        ("", ()),
        ("5 CRC differs", (SkippedSpan(5, 6, "CRC differs"),)),
        ("5,9-12 a b\n7 c", (SkippedSpan(5, 6, "a b"), SkippedSpan(7, 8, "c"), SkippedSpan(9, 13, "a b"))),
        ("x\n-3 y\n" + "9" * 40 + " z", ()),
    ],
)
def test_field_of_an_answer_names_offsets_and_reasons(text: str | None, found: tuple[SkippedSpan, ...]) -> None:
    assert skipped_spans(text) == found


class Answers:
    """A broker whose second answers the test gives: to a pull, and to a question for a topic's settings."""

    def __init__(self, pulled: PullResult | None = None, attributes: dict[str, str] | None = None) -> None:
        self._pulled, self._attributes = pulled, attributes
        self.pulls: list[PullRequest] = []
        self.asked = 0

    async def pull(self, asked: PullRequest) -> PullResult:
        self.pulls.append(asked)
        if self._pulled is None:
            raise UnreachableError("a:1", "no answer", sent=False)
        return self._pulled

    def broker_address(self, name: str, *, or_any: bool) -> str:
        return "a:1"

    async def request(self, address: str, code: int, header: Any) -> Command:
        self.asked += 1
        if self._attributes is None:
            raise UnreachableError(address, "no answer", sent=False)
        return Command(code=0, body=encode_body(TopicConfig(topic_name="T", attributes=self._attributes)))


def confirmed(broker: Answers, *found: SkippedMessages) -> list[SkippedMessages]:
    reports = SkipReports(cast(Cluster, broker), cast(Puller, broker), "g")
    return run(reports.confirmed(found))


@pytest.mark.parametrize(
    ("pulled", "left"),
    [
        (result(3, 6, status=PullStatus.NO_MATCHED_MSG), [(3, 6)]),
        (result(3, 6, [4, 5]), []),
        (result(3, 9, [6, 7, 8]), [(3, 6)]),
        (result(3, 8, min_offset=8, status=PullStatus.OFFSET_ILLEGAL), []),
        (result(3, 5, min_offset=5, status=PullStatus.OFFSET_ILLEGAL), [(5, 6)]),
        (None, [(3, 6)]),
    ],
)
def test_gap_is_certain_if_a_second_pull_without_a_filter_has_it_too(
    pulled: PullResult | None, left: list[tuple[int, int]]
) -> None:
    """The group's subscription had selected other messages, retention has removed them, or they are missing."""
    broker = Answers(pulled)
    found = confirmed(broker, gap(3, 6))
    assert spans(found) == left
    assert all(one.is_certain for one in found)
    (asked,) = broker.pulls
    assert (asked.offset, asked.max_messages, asked.with_subscription, asked.suspend_s) == (3, 3, True, 0)
    assert asked.subscription.sub_string == "*"


def test_announced_gap_is_not_asked_for_again() -> None:
    broker = Answers()
    assert confirmed(broker, gap(3, 6, certain=True)) == [gap(3, 6, certain=True)]
    assert (broker.pulls, broker.asked) == ([], 0)


def test_compacted_topic_has_no_gaps_and_is_asked_about_once() -> None:
    empty = result(3, 6, status=PullStatus.NO_MATCHED_MSG)
    broker = Answers(empty, {"cleanup.policy": "COMPACTION"})
    assert confirmed(broker, gap(3, 6), gap(8, 9)) == []
    assert broker.asked == 1
    assert spans(confirmed(Answers(empty, {"cleanup.policy": "DELETE"}), gap(3, 6))) == [(3, 6)]


def test_reports_are_counted_logged_and_given_to_the_listener(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[SkippedMessages] = []

    def listener(one: SkippedMessages) -> None:
        heard.append(one)
        raise ValueError("a listener that fails")

    reports = SkipReports(cast(Cluster, None), cast(Puller, None), "g", listener)
    one = gap(3, 6, certain=True, why="CRC differs")
    with caplog.at_level("WARNING", "rocketflow.client"):
        reports.report([one, replace(one, start=8, end=9)])
    assert (reports.count, [some.start for some in heard]) == (4, [3, 8])
    assert caplog.messages[0] == "RF-SKIP broker b offset 3 count 3: skipped in topic T, queue 0: CRC differs"
