"""Subscriptions have the tags and hashes that RocketMQ computes."""

from __future__ import annotations

import pytest

from rocketflow.client.consume.subscriptions import SQL92, SubscriptionError, matches, subscription
from rocketflow_store.spi.ids import string_hash
from rocketflow_store.spi.messages import ReceivedMessage


def tagged(tag: str | None) -> ReceivedMessage:
    return ReceivedMessage("T", 0, 0, b"", {} if tag is None else {"TAGS": tag})


@pytest.mark.parametrize("expression", ["", "*"])
def test_all_messages_match_a_star_and_an_empty_expression(expression: str) -> None:
    found = subscription("T", expression, version=7)
    assert (found.sub_string, found.tags_set, found.code_set, found.sub_version) == ("*", [], [], 7)
    assert matches(found, tagged(None))


def test_tags_are_trimmed_and_compared_as_texts() -> None:
    found = subscription("T", " Aa ||b||", version=1)
    assert (found.tags_set, found.code_set) == (["Aa", "b"], [98, 2112])
    assert string_hash("BB") == string_hash("Aa")
    assert [matches(found, tagged(tag)) for tag in ("Aa", "BB", "b", None)] == [True, False, True, False]


def test_java_hash_counts_utf16_units_and_wraps() -> None:
    assert string_hash("\U0001f680") == 1773027
    assert string_hash("polygenelubricants") == -(2**31)


def test_sql_is_passed_on_to_the_broker() -> None:
    found = subscription("T", "a > 3", version=1, expression_type=SQL92)
    assert (found.expression_type, found.sub_string, found.tags_set) == (SQL92, "a > 3", [])
    assert matches(found, tagged("any"))


@pytest.mark.parametrize(("expression", "kind"), [("||", "TAG"), (" ", "SQL92"), ("a", "XPATH")])
def test_expression_without_a_meaning_is_refused(expression: str, kind: str) -> None:
    with pytest.raises(SubscriptionError, match="topic 'T'"):
        subscription("T", expression, version=1, expression_type=kind)
