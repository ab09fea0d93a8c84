"""The versions of a client's subscriptions."""

from __future__ import annotations

from rocketflow.client.consume.membership import CLUSTERING, PUSH, GroupMembership
from rocketflow.client.consume.subscriptions import subscription


def made() -> GroupMembership:
    return GroupMembership("g", consume_type=PUSH, message_model=CLUSTERING, consume_from_where="")


def test_version_is_above_those_that_were_seen_whatever_the_clock_says() -> None:
    membership, ahead = made(), 9_000_000_000_000
    assert membership.subscribe(subscription("t", "a", version=5)).sub_version == 5
    membership.renew("t")
    before = membership.subscriptions()["t"].sub_version
    assert 1_700_000_000_000 < before < ahead
    membership.note_version("t", ahead)
    membership.note_version("t", 7)
    assert membership.subscriptions()["t"].sub_version == before
    membership.renew("t")
    assert membership.subscriptions()["t"].sub_version == ahead + 1
    membership.renew("t")
    assert membership.subscriptions()["t"].sub_version == ahead + 2


def test_subscription_that_replaces_another_is_newer_though_the_clock_has_stepped_back() -> None:
    membership = made()
    membership.subscribe(subscription("t", "a", version=500))
    assert membership.subscribe(subscription("t", "b", version=400)).sub_version == 501
    membership.unsubscribe("t")
    assert membership.subscribe(subscription("t", "c", version=400)).sub_version == 502
    (data,) = membership.consumers()
    assert [(one.sub_string, one.sub_version) for one in data.subscription_data_set] == [("c", 502)]
