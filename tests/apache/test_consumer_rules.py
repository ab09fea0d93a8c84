"""RocketMQ's own classes divide queues, read subscriptions and offset files as RocketFlow's clients do."""

from __future__ import annotations

import json

import msgspec
import pytest

from rocketflow.client.consume.offset_stores import encode_offsets
from rocketflow.client.consume.subscriptions import SubscriptionError, subscription
from rocketflow.remoting.bodies import MessageQueue, SubscriptionData
from tests.support.consumer_rules import allocations, answer, java_answers, kept, sortings
from tests.support.maven import JarsNotFetchedError
from tests.support.trials import FULL, SEED

EXPRESSIONS = ("*", "", "a", "a||b", " Aa || b ||", "||", "|| ||", "a|b", "\U0001f680||\u00fc", "a  b")


def answers(version: str, lines: list[str]) -> list[str]:
    try:
        return java_answers(version, lines)
    except JarsNotFetchedError as error:
        pytest.skip(str(error))


@pytest.mark.apache
@pytest.mark.parametrize("version", ["5.3.3", "5.5.0"])
def test_rocketmq_divides_and_sorts_queues_as_we_do(version: str) -> None:
    print(f"seed {SEED}")
    lines = [*(line for line, _ in kept()), *allocations(5000 if FULL else 500, SEED), *sortings(50, SEED)]
    found = answers(version, lines)
    assert found[: len(kept())] == [expected for _, expected in kept()]
    assert [(line, answer(line)) for line in lines] == list(zip(lines, found))


@pytest.mark.apache
def test_rocketmq_reads_expressions_as_we_do() -> None:
    def own(expression: str) -> SubscriptionData | None:
        try:
            return subscription("T", expression, version=1)
        except SubscriptionError:
            return None

    def of_rocketmq(text: str) -> SubscriptionData | None:
        if text == "error":
            return None
        found = msgspec.json.decode(text, type=SubscriptionData)
        return msgspec.structs.replace(found, tags_set=sorted(found.tags_set), code_set=sorted(found.code_set))

    found = answers("5.3.3", [f"subscribe\t{one}" for one in EXPRESSIONS])
    assert found[-5] == "error"
    compared = [one for one in EXPRESSIONS if one != "|| ||"]  # RocketMQ accepts it, and no message matches it
    by_rocketmq = {one: of_rocketmq(text) for one, text in zip(EXPRESSIONS, found)}
    assert {one: own(one) for one in compared} == {one: by_rocketmq[one] for one in compared}


@pytest.mark.apache
def test_rocketmq_reads_and_writes_the_file_of_local_offsets() -> None:
    offsets = {MessageQueue("T\u00fc", 'b"\\', k): 10 * k for k in range(3)}
    text = encode_offsets(offsets)
    (found,) = answers("5.3.3", [f"offsets\t{json.dumps(text)}"])
    assert json.loads(found) == text
