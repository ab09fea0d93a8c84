"""Topic names on both sides: `.` in Kafka is `|` in the store; all other characters are the same.

Kafka allows letters, digits, `.`, `_` and `-`; RocketMQ letters, digits, `%`, `|`, `_` and `-`. Neither `.` nor `|` is
legal on the other side, so the mapping is one to one. Names with `%` (retry and dead letter topics) have no default
Kafka name: `--map` gives them one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rocketflow.errors import UsageError
from rocketflow.kafka.errors import TopicNameError
from rocketflow_store import StoreConfigError
from rocketflow_store.spi.names import is_send_refused, is_system_topic, validate_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_KAFKA_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_SYNTAX: Final = re.compile(r"[][\\^$*+?{}()]")


def to_store_name(kafka_topic: str) -> str:
    """Return the store's name of a Kafka topic. Raise TopicNameError if RocketMQ does not allow it."""
    if not _KAFKA_NAME.fullmatch(kafka_topic) or kafka_topic in (".", ".."):
        raise TopicNameError(
            f"topic {kafka_topic[:80]!r}: not a valid Kafka topic name (1 to 249 letters, digits, . _ or -)"
        )
    return check_store_name(kafka_topic.replace(".", "|"), kafka_topic)


def check_store_name(store_topic: str, kafka_topic: str) -> str:
    """Return `store_topic`. Raise TopicNameError if a bridge may not write to it."""
    try:
        validate_topic(store_topic)
    except StoreConfigError as error:
        raise TopicNameError(f"topic {kafka_topic!r}: {error.why}; give --map {kafka_topic}=NAME") from error
    if is_send_refused(store_topic) or is_system_topic(store_topic):
        raise TopicNameError(
            f"topic {kafka_topic!r}: {store_topic!r} is a system topic of the store; give --map {kafka_topic}=NAME"
        )
    return store_topic


def to_kafka_name(store_topic: str) -> str:
    """Return the Kafka name of a store's topic. Raise TopicNameError if Kafka does not allow it."""
    return check_kafka_name(store_topic.replace("|", "."), store_topic)


def check_kafka_name(kafka_topic: str, store_topic: str) -> str:
    """Return `kafka_topic`. Raise TopicNameError if Kafka does not allow it."""
    if not _KAFKA_NAME.fullmatch(kafka_topic) or kafka_topic in (".", ".."):
        raise TopicNameError(
            f"topic {store_topic!r}: {kafka_topic[:80]!r} is not a valid Kafka topic name; "
            f"give --map NAME={store_topic}"
        )
    return kafka_topic


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """The topics to copy, by their names on the side that is read, and their names on the other side.

    `pairs` maps Kafka's names to the store's. A pattern must match a complete name.
    """

    names: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    pairs: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, topics: str | None, pattern: str | None, maps: Sequence[str]) -> TopicChoice:
        """Parse `--topics a,b`, `--topics-pattern REGEX` and `--map kafka=store`; raise UsageError for invalid ones."""
        names = tuple(one.strip() for one in (topics or "").split(",") if one.strip())
        for name in names:
            if _SYNTAX.search(name):
                raise UsageError(f"--topics {name!r}: not a topic name; give a pattern with --topics-pattern")
        pairs: dict[str, str] = {}
        for one in maps:
            kafka, equals, store = one.partition("=")
            if not equals or not kafka or not store:
                raise UsageError(f"--map {one!r}: give it as kafka.topic=store_topic")
            if kafka in pairs and pairs[kafka] != store:
                raise UsageError(f"--map {kafka}: given twice, as {pairs[kafka]} and {store}")
            pairs[kafka] = check_store_name(store, kafka)
            check_kafka_name(kafka, store)
        if not names and pattern is None:
            raise UsageError("no topics: give --topics a,b or --topics-pattern REGEX")
        try:
            compiled = None if pattern is None else re.compile(pattern)
        except re.error as error:
            raise UsageError(f"--topics-pattern {pattern!r}: {error}") from error
        return cls(names, compiled, pairs)

    def of_kafka(self, known: Iterable[str]) -> tuple[dict[str, str], list[str]]:
        """Return ({Kafka topic: store topic}, missing named topics) for the topics `known` to Kafka.

        Raises: TopicNameError with all names that the store does not allow.
        """
        existing = set(known)
        chosen = [name for name in self.names if name in existing]
        if self.pattern is not None:
            matching = (one for one in existing - set(chosen) if self.pattern.fullmatch(one))
            chosen += sorted(one for one in matching if not one.startswith("__"))
        return _mapped(chosen, self._store_name), [name for name in self.names if name not in existing]

    def of_store(self, known: Iterable[str], made: Iterable[str] = ()) -> tuple[dict[str, str], list[str]]:
        """Return ({store topic: Kafka topic}, missing named topics).

        A topic may be given by its store name or its Kafka name. A topic that was created (`made`) but has no messages
        exists only by name: a pattern matches it once it has messages, because topics.json also lists a broker's own
        topics.
        """
        known, made = set(known), set(made)
        existing = known | made
        back = {store: kafka for kafka, store in self.pairs.items()}
        wanted = [self.pairs.get(name, name) for name in self.names]
        wanted = [one if one in existing else one.replace(".", "|") for one in wanted]
        chosen = [name for name in wanted if name in existing]
        if self.pattern is not None:
            matching = (one for one in known - set(chosen) if self.pattern.fullmatch(one))
            chosen += sorted(one for one in matching if not is_system_topic(one))
        found = _mapped(chosen, lambda name: back.get(name) or to_kafka_name(name))
        if len(set(found.values())) < len(found):
            raise TopicNameError(f"--map: several topics have the same Kafka topic: {found}")
        return found, [name for name in wanted if name not in existing]

    def _store_name(self, kafka_topic: str) -> str:
        return self.pairs.get(kafka_topic) or to_store_name(kafka_topic)


def _mapped(names: Iterable[str], translate: Callable[[str], str]) -> dict[str, str]:
    found, wrong = {}, []
    for name in names:
        try:
            found[name] = translate(name)
        except TopicNameError as error:
            wrong.append(str(error))
    if wrong:
        raise TopicNameError("; ".join(wrong))
    return found
