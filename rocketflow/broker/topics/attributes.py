"""Attributes of topics and groups: which there are, and what a request that changes them leaves.

RocketMQ's source: common/attribute/AttributeUtil.java, common/attribute/AttributeParser.java,
common/TopicAttributes.java, common/SubscriptionGroupAttributes.java (5.3.3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rocketflow.errors import RocketFlowError

if TYPE_CHECKING:
    from rocketflow_store.spi.table_rows import TopicConfig

CLEANUP_POLICY: Final = "cleanup.policy"
COMPACTION: Final = "COMPACTION"

_MAX_LONG: Final = (1 << 63) - 1
_LONG: Final = re.compile(r"[+-]?[0-9]{1,19}")


class AttributesError(RocketFlowError, ValueError):
    """A change of attributes is refused; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute and its values, without `values` numbers from -1; one that is `fixed` is set at creation only.

    `unsupported` are values that RocketMQ has and RocketFlow refuses, and why.
    """

    values: tuple[str, ...] = ()
    fixed: bool = False
    unsupported: Mapping[str, str] = field(default_factory=dict)

    def check(self, name: str, value: str) -> None:
        """Raise AttributesError for a value that is not allowed."""
        if value in self.unsupported:
            raise AttributesError(self.refusal(name, value))
        if self.values:
            if value not in self.values:
                raise AttributesError(f"attribute {name}={value}: the value must be one of {', '.join(self.values)}")
        elif not (_LONG.fullmatch(value) and -1 <= int(value) <= _MAX_LONG):
            raise AttributesError(f"attribute {name}={value}: the value must be a number from -1 to {_MAX_LONG}")

    def refusal(self, name: str, value: str) -> str:
        """Return why a value is unsupported."""
        return f"attribute {name}={value} is not supported: {self.unsupported[value]}"


OF_TOPICS: Final[Mapping[str, Attribute]] = {
    CLEANUP_POLICY: Attribute(
        ("DELETE",), fixed=True, unsupported={COMPACTION: "RocketFlow deletes old messages and does not compact topics"}
    ),
    "message.type": Attribute(
        ("DELAY", "FIFO", "MIXED", "NORMAL", "TRANSACTION", "UNSPECIFIED"),
        unsupported={
            "LITE": "RocketFlow has no lite topics",
            "PRIORITY": "RocketFlow does not choose queues by priority",
        },
    ),
    "queue.type": Attribute(("BatchCQ", "SimpleCQ"), fixed=True),
    "reserve.time": Attribute(),
}
"""The attributes of topics. `TopicAdmin` refuses MIXED, which needs a setting of Apache's broker, off by default."""

OF_GROUPS: Final[Mapping[str, Attribute]] = {}
"""The attributes of groups: 5.3.3 has none."""


def is_compacted(topic: TopicConfig) -> bool:
    """Return whether RocketMQ keeps only the last message of each key of a topic: one of a store that it wrote."""
    return topic.attributes.get(CLEANUP_POLICY) == COMPACTION


def unsupported(topic: TopicConfig) -> list[str]:
    """Return why values of a topic's attributes are unsupported: RocketMQ wrote the topic of this store."""
    known = [(name, value, OF_TOPICS[name]) for name, value in topic.attributes.items() if name in OF_TOPICS]
    return [one.refusal(name, value) for name, value, one in known if value in one.unsupported]


def parse_changes(text: str) -> dict[str, str]:
    """Return the changes that a header's text `+name=value,-name` gives, values by signed names.

    Raises AttributesError for a text of another form.
    """
    changes: dict[str, str] = {}
    text = text.rstrip(",")
    for part in text.split(",") if text else ():
        key, mark, value = part.partition("=")
        if key.startswith("+") != bool(mark):
            raise _wrong_form(part)
        if key in changes:
            raise AttributesError(f"attribute {key[1:]} is given twice")
        changes[key] = value
    return changes


def merged_attributes(
    known: Mapping[str, str] | None, changes: Mapping[str, str], allowed: Mapping[str, Attribute]
) -> dict[str, str]:
    """Return attributes after changes: `+name` with a value sets one, `-name` removes it, the others stay.

    `known` is None for a topic or a group that is being made. Raises AttributesError for an attribute that is not
    `allowed` or is fixed, a value that it cannot have, the removal of one that is not set, and a name given twice.
    """
    found = dict(known or {})
    names: set[str] = set()
    for key, value in changes.items():
        sign, name = key[:1], key[1:]
        if sign not in ("+", "-") or not name or "+" in name or "-" in name:
            raise _wrong_form(key)
        if name in names:
            raise AttributesError(f"attribute {name} is given twice")
        names.add(name)
        if sign == "-" and name not in found:
            raise AttributesError(f"attribute {name} is not set and cannot be removed")
        if name not in allowed:
            known_names = ", ".join(sorted(allowed)) or "none"
            raise AttributesError(f"attribute {name} is unknown; known attributes: {known_names}")
        if allowed[name].fixed and known is not None:
            raise AttributesError(f"attribute {name} is set when the topic is made and cannot change")
        if sign == "+":
            allowed[name].check(name, value)
            found[name] = value
        else:
            del found[name]
    return found


def _wrong_form(text: str) -> AttributesError:
    return AttributesError(f"attributes: {text!r} is neither +name=value, which sets one, nor -name, which removes it")
