"""Filters of subscriptions: tags, or a condition on properties.

RocketMQ's source: broker/filter/ConsumerFilterManager.java, ExpressionMessageFilter.java.
"""

from __future__ import annotations

from typing import NamedTuple

from rocketflow_store import StoreError
from rocketflow_store.spi.broker import Match, decode_properties
from rocketflow_store.spi.filters import TagFilter, compile_filter


class Filter(NamedTuple):
    """Filter of a group on a topic; `match` is None if it reads all messages."""

    match: Match | None
    is_condition: bool

    @property
    def tags_codes(self) -> frozenset[int] | None:
        """Return the tags codes that can match, None for all."""
        return None if self.match is None else self.match.tags_codes


def is_tags(expression_type: str | None) -> bool:
    """Return whether an expression names tags; others are conditions."""
    return expression_type in (None, "", "TAG")


def is_condition(expression_type: str | None, expression: str | None) -> bool:
    """Return whether an expression is a condition without a mistake."""
    if is_tags(expression_type):
        return False
    try:
        parse_filter(expression_type, expression)
    except StoreError:
        return False
    return True


def parse_filter(expression_type: str | None, expression: str | None) -> Filter:
    """Return the filter of a subscription. Raises StoreError if the expression is wrong."""
    if is_tags(expression_type):
        tags = TagFilter.parse(expression)
        return Filter(None if tags.matches_all else Match(tags.codes), is_condition=False)
    condition = compile_filter(expression or "")
    matches = condition.matches
    return Filter(Match(properties=lambda raw: matches(decode_properties(bytes(raw)))), is_condition=True)
