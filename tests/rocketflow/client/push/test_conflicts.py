"""Differences between the subscriptions of a client and those of its group."""

from __future__ import annotations

from rocketflow.client.push.conflicts import differences
from rocketflow.remoting.bodies import SubscriptionData


def one(topic: str, text: str = "*", kind: str = "TAG", version: int = 1) -> dict[str, SubscriptionData]:
    return {topic: SubscriptionData(topic=topic, sub_string=text, expression_type=kind, sub_version=version)}


def test_equal_subscriptions_of_other_versions_do_not_differ() -> None:
    assert differences({**one("a"), **one("b", "x")}, {**one("a", version=9), **one("b", "x")}) == []


def test_each_topic_that_differs_is_named() -> None:
    found = differences(
        {**one("a"), **one("c", "x"), **one("d", "x > 1", "SQL92"), **one("e")},
        {**one("b"), **one("c", "y"), **one("d", "x > 1"), **one("e")},
    )
    assert found == [
        "this client reads topic a, others do not: its messages are not delivered",
        "other clients read topic b, this one does not",
        "topic c: this client subscribes to 'x' (TAG), another one to 'y' (TAG), which the broker selects by",
        "topic d: this client subscribes to 'x > 1' (SQL92), another one to 'x > 1' (TAG), which the broker selects by",
    ]
