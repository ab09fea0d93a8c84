"""Options of push consumers, outcomes of listeners, and the figures that operators see."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from rocketflow.aio.loop import run
from rocketflow.client.errors import ClientError
from rocketflow.client.push import ConsumeContext, ConsumeStatus, PushOptions, QueueLimits
from rocketflow.client.push.figures import ConsumeFigures
from rocketflow.client.push.listeners import call, succeeded
from rocketflow.remoting.bodies import MessageQueue
from rocketflow_store.spi.messages import ReceivedMessage

QUEUE = MessageQueue("t", "b", 0)
MESSAGES = [ReceivedMessage("t", 0, one, b"", {"UNIQ_KEY": f"k{one}"}) for one in range(4)]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"group": ""}, "group"),
        ({"group": "a b"}, "group 'a b'"),
        ({"group": "DEFAULT_CONSUMER"}, "DEFAULT_CONSUMER"),
        ({"concurrency": 0}, "concurrency=0"),
        ({"batch": 1025}, "batch=1025"),
        ({"pull_batch": 0}, "pull_batch=0"),
        ({"consume_timeout_s": 0}, "consume_timeout_s=0"),
        ({"limits": QueueLimits(messages=0)}, "limits="),
        ({"max_reconsume": -2}, "max_reconsume=-2"),
    ],
)
def test_wrong_options_are_named(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(ClientError, match=named):
        PushOptions(**{"group": "g", **wrong})


def test_retries_before_dead_letters_depend_on_the_kind_of_listener() -> None:
    assert PushOptions(group="g").trials == 16
    assert PushOptions(group="g", orderly=True).trials == 2**31 - 1
    assert PushOptions(group="g", orderly=True, max_reconsume=0).trials == 0


def test_span_limits_concurrent_listeners_only() -> None:
    assert PushOptions(group="g").queue_limits.span == 2000
    assert PushOptions(group="g", orderly=True).queue_limits.span is None


@pytest.mark.parametrize(("ack_index", "count"), [(None, 4), (3, 4), (9, 4), (1, 2), (0, 1), (-1, 0)])
def test_ack_index_divides_a_batch(ack_index: int | None, count: int) -> None:
    context = ConsumeContext(QUEUE, ack_index=ack_index)
    assert succeeded(MESSAGES, context, ConsumeStatus.SUCCESS) == count
    assert succeeded(MESSAGES, context, ConsumeStatus.RECONSUME_LATER) == 0


@pytest.mark.parametrize(
    ("outcome", "status", "logged"),
    [
        (None, ConsumeStatus.SUCCESS, ""),
        (ConsumeStatus.SUCCESS, ConsumeStatus.SUCCESS, ""),
        (ConsumeStatus.RECONSUME_LATER, ConsumeStatus.RECONSUME_LATER, ""),
        (
            True,
            ConsumeStatus.RECONSUME_LATER,
            "returned a wrong value for 4 messages of t, b queue 0 (k0, k1, k2, ...)",
        ),
        (ValueError("no"), ConsumeStatus.RECONSUME_LATER, "raised for 4 messages of t, b queue 0 (k0, k1, k2, ...)"),
    ],
)
def test_outcomes_of_a_listener(
    caplog: pytest.LogCaptureFixture, outcome: Any, status: ConsumeStatus, logged: str
) -> None:
    async def listener(messages: list[ReceivedMessage], context: ConsumeContext) -> Any:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    with caplog.at_level(logging.WARNING, "rocketflow.client"):
        found = run(call(listener, MESSAGES, ConsumeContext(QUEUE)))
    assert found.status is status
    assert logged in caplog.text
    assert bool(caplog.text) == bool(logged)


def test_figures_are_those_of_the_last_minute() -> None:
    figures = ConsumeFigures()
    counts = figures.of("t")
    counts.count_pull(1000, 50)
    counts.count_call(900, 100, 10)
    figures.sample(0.0)
    assert figures.status_table(0.0)["t"]["consumeOKTPS"] == 0
    for second in range(5, 125, 5):
        counts.count_pull(10, 4)
        counts.count_call(9, 1, 2)
        figures.sample(float(second))
    found = figures.status_table(120.0)["t"]
    assert found == {
        "pullRT": 4.0,
        "pullTPS": 2.0,
        "consumeRT": 2.0,
        "consumeOKTPS": pytest.approx(1.8),
        "consumeFailedTPS": pytest.approx(0.2),
        "consumeFailedMsgs": 12,
    }
