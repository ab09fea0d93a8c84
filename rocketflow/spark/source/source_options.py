"""The source's options as one frozen value; every error names the option, its value and the allowed values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from rocketflow.process.tag_hints import likely_tags
from rocketflow.process.times import SecondsError
from rocketflow.spark.shared.network_options import NETWORK_OPTIONS, Network, parse_network
from rocketflow.spark.shared.option_table import option_row
from rocketflow.spark.shared.option_values import OptionError, OptionValues, bad_value_error, time_or_none
from rocketflow.spark.shared.store_locations import StoreLocation, given_settings, parse_stores
from rocketflow_store import OnBadBody, StoreConfigError, StoreError
from rocketflow_store.spi.filters import TagFilter
from rocketflow_store.spi.names import MAX_GROUP_LENGTH, MAX_TOPIC_LENGTH, validate_group, validate_topic
from rocketflow_store.spi.setting_rows import Kind

SOURCE_OPTIONS: Final = (
    option_row(
        "path",
        "Store to read; several stores are read as one table, each under its name. All executors must see them "
        "under the same path.",
        form="directory, or NAME=DIRECTORY,NAME=DIRECTORY",
        shown_default="required, or namesrvAddr",
    ),
    option_row(
        "namesrvAddr",
        "NameServers whose brokers are read over the network instead of `path`; needs the extra `broker`.",
        form="host:port, several separated by ;",
    ),
    *NETWORK_OPTIONS,
    option_row(
        "subscribe",
        "Topics to read; `STORE/TOPIC` for one of several stores. One of `subscribe`, `subscribePattern` and "
        "`assign` is required.",
        form="TOPIC,TOPIC",
    ),
    option_row(
        "subscribePattern", "Topics whose complete names match; a stream picks up new ones.", form="regular expression"
    ),
    option_row("assign", "Queues to read, one by one.", form='{"TOPIC": [QUEUE, ...]}'),
    option_row(
        "startingOffsets",
        "Where a new query starts; -2 is earliest, -1 latest, and every queue has to be named. With several "
        "stores keys are `STORE/TOPIC`. A checkpoint wins.",
        form='earliest, latest or {"TOPIC": {"QUEUE": OFFSET}}',
        shown_default="latest (stream), earliest (batch)",
    ),
    option_row(
        "startingOffsetsByTimestamp",
        "Start of each queue: the first message stored at or after this time (ms, or ISO 8601 as a string); wins "
        "over `startingOffsets`.",
        form='{"TOPIC": {"QUEUE": TIME}}',
    ),
    option_row(
        "startingTimestamp",
        "Start of all queues as a store time (ms, or ISO 8601, UTC if it names no zone); wins over the other two.",
        form="TIME",
    ),
    option_row(
        "startingOffsetsByTimestampStrategy",
        "Start of a queue whose messages are all older than the time: an error, or its end.",
        "error",
        choices=("error", "latest"),
    ),
    option_row(
        "endingOffsets",
        "Where a read ends, exclusive; batch only.",
        form='latest or {"TOPIC": {"QUEUE": OFFSET}}',
        shown_default="latest",
    ),
    option_row(
        "endingOffsetsByTimestamp",
        "End of each queue as a store time; wins over `endingOffsets`; batch only.",
        form='{"TOPIC": {"QUEUE": TIME}}',
    ),
    option_row(
        "endingTimestamp", "End of all queues as a store time; wins over the other two; batch only.", form="TIME"
    ),
    option_row(
        "maxOffsetsPerTrigger",
        "Most messages of a micro-batch, divided in proportion to the unread messages of each queue; every queue "
        "gets its turn. Batch reads ignore it, as all limits.",
        kind=Kind.COUNT,
    ),
    option_row(
        "minOffsetsPerTrigger",
        "Fewest messages of a micro-batch; it waits for them, at most `maxTriggerDelay`. The first batch does "
        "not wait, as in Spark's Kafka source; ignored with availableNow.",
        kind=Kind.COUNT,
    ),
    option_row(
        "maxTriggerDelay",
        "Longest wait for `minOffsetsPerTrigger` since the last micro-batch.",
        15 * 60_000,
        kind=Kind.DURATION,
        shown_default="15m",
    ),
    option_row(
        "maxBytesPerTrigger",
        "Most bytes of records, as stored, of a micro-batch; one larger message passes alone.",
        kind=Kind.SIZE,
    ),
    option_row(
        "minPartitions",
        "Fewest Spark partitions of a batch; large queue ranges are divided.",
        kind=Kind.COUNT,
        shown_default="about one a core",
    ),
    option_row("maxRecordsPerPartition", "Most messages of a Spark partition.", kind=Kind.COUNT),
    option_row(
        "failOnDataLoss",
        "Whether a query fails if messages that it should read are missing or damaged. False: they are skipped "
        "and logged as RF-DATA-LOSS and RF-SKIP.",
        True,
    ),
    option_row(
        "onBadBody",
        "Messages whose body cannot be decoded (a producer called it compressed, and it is not): the query fails and "
        "names the message; raw returns the body as it is stored, and the schema has the column `bodyError` with the "
        "reason; quarantine skips the message and logs its place and the reason as RF-BAD-BODY.",
        OnBadBody.FAIL,
        choices=tuple(one.value for one in OnBadBody),
    ),
    option_row(
        "failOnMissingTopic",
        "Whether a stream fails if a topic that it names does not exist; a batch read always does. The error "
        "names the nearest topic.",
        False,
    ),
    option_row(
        "tags",
        "Reads only messages with these tags; by path their hashes are compared before the log is read.",
        form="RocketMQ tag expression (a || b)",
    ),
    option_row(
        "sql",
        "Reads only messages whose properties meet the condition, as RocketMQ's consumers filter; with `tags` "
        "both must hold.",
        form="SQL92 condition",
    ),
    option_row(
        "includeProperties", "Whether the schema has the column `properties` (costs 20 to 40 % of throughput).", False
    ),
    option_row(
        "pushDownPredicate", "Whether a WHERE on queue, offset or time narrows what is read; batch only.", False
    ),
    option_row(
        "includeSystemTopics",
        "Whether `subscribePattern` matches RocketMQ's internal topics (`rmq_sys_*`, `SCHEDULE_TOPIC_XXXX`, ...); it "
        "matches retry and dead-letter topics in any case.",
        False,
    ),
    option_row(
        "consumerGroup",
        "Group under which the progress of the query is published for lag tools, after each batch; streams only.",
        form="GROUP",
    ),
    option_row(
        "config",
        "File with settings of the store: directories, file sizes. Environment variables ROCKETFLOW_* win over it.",
        form="broker.conf",
    ),
)
EARLIEST: Final = -2
LATEST: Final = -1

_OFFSETS_FORM: Final = 'JSON such as {"topic": {"0": 23, "1": -2}} (-2 earliest, -1 latest)'
_TIMES_FORM: Final = 'JSON such as {"topic": {"0": 1700000000000, "1": "2026-01-31T12:30:00"}} (ms or ISO 8601)'
_ASSIGN_FORM: Final = 'JSON such as {"topic": [0, 1]}'

QueueNumbers = tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
"""((topic, ((queue id, number), ...)), ...): hashable and picklable."""


class PositionKind(Enum):
    """The form of a start or end."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSETS = "offsets"
    TIMESTAMP = "timestamp"
    TIMESTAMPS = "timestamps"


@dataclass(frozen=True, slots=True)
class PositionChoice:
    """A start or end; `option` is the option that set it (for messages), `numbers` are offsets or times by queue."""

    kind: PositionKind
    option: str
    numbers: QueueNumbers = ()
    timestamp_ms: int = 0
    latest_if_unmatched: bool = False

    def by_topic(self) -> dict[str, dict[int, int]]:
        """Return the numbers as {topic: {queue id: number}}."""
        return {topic: dict(queues) for topic, queues in self.numbers}


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """The queues to read: by topic names, by a pattern over topic names, or one by one."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    queues: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def describe(self) -> str:
        """Return the choice in the user's words."""
        if self.pattern is not None:
            return f"subscribePattern {self.pattern}"
        if self.queues:
            return "assign " + ", ".join(f"{topic} {list(queues)}" for topic, queues in self.queues)
        return "subscribe " + ",".join(self.topics)

    @property
    def named(self) -> tuple[str, ...]:
        """Topics named one by one; empty for a pattern."""
        return self.topics or tuple(topic for topic, _ in self.queues)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All options of a read, stream or batch, checked."""

    stores: tuple[StoreLocation, ...]
    """Empty for a read through brokers."""
    network: Network | None
    topics: TopicChoice
    starting: PositionChoice
    ending: PositionChoice
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    max_bytes_per_trigger: int | None
    min_partitions: int | None
    max_records_per_partition: int | None
    fail_on_data_loss: bool
    on_bad_body: OnBadBody
    fail_on_missing_topic: bool
    tags: str | None
    sql: str | None
    include_properties: bool
    include_system_topics: bool
    push_down_predicate: bool
    consumer_group: str | None

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
        """Check and convert Spark's option strings; raise OptionError, or InvalidFilterError for `tags` and `sql`."""
        values = OptionValues(options, SOURCE_OPTIONS)
        values.check_known()
        network = parse_network(values)
        stores = () if network is not None else _stores(values)
        names = None if network is not None else {store.name for store in stores}
        min_offsets = values.value("minOffsetsPerTrigger")
        max_offsets = values.value("maxOffsetsPerTrigger")
        if min_offsets is not None and max_offsets is not None and min_offsets > max_offsets:
            raise bad_value_error(
                "minOffsetsPerTrigger", str(min_offsets), f"at most maxOffsetsPerTrigger={max_offsets}"
            )
        return cls(
            stores=stores,
            network=network,
            topics=_topics(values, names),
            starting=_starting(values, names, streaming=streaming),
            ending=_ending(values, names, streaming=streaming),
            max_offsets_per_trigger=max_offsets,
            min_offsets_per_trigger=min_offsets,
            max_trigger_delay_ms=values.value("maxTriggerDelay"),
            max_bytes_per_trigger=values.value("maxBytesPerTrigger"),
            min_partitions=values.value("minPartitions"),
            max_records_per_partition=values.value("maxRecordsPerPartition"),
            fail_on_data_loss=values.value("failOnDataLoss"),
            on_bad_body=values.value("onBadBody"),
            fail_on_missing_topic=values.value("failOnMissingTopic"),
            tags=_tags(values),
            sql=_sql(values),
            include_properties=values.value("includeProperties"),
            include_system_topics=values.value("includeSystemTopics"),
            push_down_predicate=values.value("pushDownPredicate"),
            consumer_group=_consumer_group(values, streaming=streaming),
        )


def _stores(values: OptionValues) -> tuple[StoreLocation, ...]:
    text = values.text("path")
    if text is None:
        raise OptionError("path", "option path is missing: a store directory, or name=dir,name=dir; or namesrvAddr")
    settings = given_settings(values)
    return tuple(replace(one, settings=settings) for one in parse_stores(text))


def _topics(values: OptionValues, stores: set[str] | None) -> TopicChoice:
    given = [name for name in ("subscribe", "subscribePattern", "assign") if name in values]
    if len(given) != 1:
        problem = "none is given" if not given else f"{' and '.join(given)} are given"
        raise OptionError(given[1] if given else "subscribe", f"one of subscribe, subscribePattern, assign: {problem}")
    option = given[0]
    text = values.text(option)
    assert text is not None
    if option == "subscribe":
        topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
        if not topics:
            raise bad_value_error(option, text, "topic names separated by commas")
        for topic in topics:
            _check_topic(option, text, topic, stores, qualified_only=False)
        return TopicChoice(topics=topics)
    if option == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise bad_value_error(
                option, text, f"a regular expression over the complete topic name ({error})"
            ) from error
        return TopicChoice(pattern=text)
    chosen = values.json_object(option, _ASSIGN_FORM) or {}
    for topic, queues in chosen.items():
        _check_topic(option, text, topic, stores, qualified_only=False)
        if not isinstance(queues, list) or not queues or not all(type(one) is int and one >= 0 for one in queues):
            raise bad_value_error(option, text, _ASSIGN_FORM)
    if not chosen:
        raise bad_value_error(option, text, _ASSIGN_FORM)
    return TopicChoice(queues=tuple((topic, tuple(sorted(set(queues)))) for topic, queues in sorted(chosen.items())))


def _check_topic(option: str, value: str, name: str, stores: set[str] | None, *, qualified_only: bool) -> None:
    """Check a topic, or store/topic; with several stores JSON positions must name the store.

    `stores` is None for a read through brokers, which may have any name.
    """
    store, slash, topic = name.rpartition("/")
    if stores is None:  # brokers come and go
        slash, qualified_only, stores = "", False, {store}
    if slash and store not in stores and stores != {""}:
        known = ", ".join(sorted(stores))
        raise OptionError(option, f"option {option}={value!r}: {name!r} names store {store!r}; known: {known}")
    if qualified_only and not slash and len(stores) > 1:
        raise bad_value_error(option, value, f"store/topic instead of {name!r}, because there are several stores")
    rule = f"1 to {MAX_TOPIC_LENGTH} of letters, digits, _ - % |"
    try:
        validate_topic(topic)
    except StoreConfigError as error:
        why = f"option {option}={value!r}: {name!r} is no topic name; allowed is {rule}"
        raise OptionError(option, why) from error
    if slash and stores == {""}:
        raise OptionError(option, f"option {option}={value!r}: {name!r} is no topic name; allowed is {rule}")


def _starting(values: OptionValues, stores: set[str] | None, *, streaming: bool) -> PositionChoice:
    latest = values.value("startingOffsetsByTimestampStrategy") == "latest"
    found = _by_time(values, stores, "startingTimestamp", "startingOffsetsByTimestamp", latest)
    default = PositionKind.LATEST if streaming else PositionKind.EARLIEST
    offsets = _by_offset(values, stores, "startingOffsets", default)
    if found is not None:
        return found
    if not streaming and offsets.kind is PositionKind.LATEST:
        raise bad_value_error("startingOffsets", values["startingOffsets"], "earliest or JSON in a batch read")
    if not streaming and _has_number(offsets, LATEST):
        raise bad_value_error("startingOffsets", values["startingOffsets"], "no -1 (latest) in a batch read")
    return offsets


def _ending(values: OptionValues, stores: set[str] | None, *, streaming: bool) -> PositionChoice:
    for option in ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets"):
        if streaming and option in values:
            raise OptionError(option, f"option {option}={values[option]!r}: a stream has no end; use it in batch reads")
    found = _by_time(values, stores, "endingTimestamp", "endingOffsetsByTimestamp", True)
    offsets = _by_offset(values, stores, "endingOffsets", PositionKind.LATEST)
    if found is not None:
        return found
    if offsets.kind is PositionKind.EARLIEST:
        raise bad_value_error("endingOffsets", values["endingOffsets"], "latest or JSON")
    if _has_number(offsets, EARLIEST):
        raise bad_value_error("endingOffsets", values["endingOffsets"], "no -2 (earliest) at an end")
    return offsets


def _has_number(choice: PositionChoice, number: int) -> bool:
    return any(number == value for _, queues in choice.numbers for _, value in queues)


def _by_time(
    values: OptionValues, stores: set[str] | None, one_for_all: str, by_queue: str, latest_if_unmatched: bool
) -> PositionChoice | None:
    timestamp_ms = values.time_ms(one_for_all)
    numbers = _queue_numbers(values, stores, by_queue, _TIMES_FORM, time_or_none)
    if timestamp_ms is not None:
        return PositionChoice(
            PositionKind.TIMESTAMP, one_for_all, (), timestamp_ms, latest_if_unmatched=latest_if_unmatched
        )
    if numbers is not None:
        return PositionChoice(PositionKind.TIMESTAMPS, by_queue, numbers, latest_if_unmatched=latest_if_unmatched)
    return None


def _by_offset(values: OptionValues, stores: set[str] | None, option: str, default: PositionKind) -> PositionChoice:
    text = values.text(option)
    if text is None:
        return PositionChoice(default, option)
    if text.lower() in ("earliest", "latest"):
        return PositionChoice(PositionKind(text.lower()), option)
    numbers = _queue_numbers(values, stores, option, f"earliest, latest, or {_OFFSETS_FORM}", _offset_or_none)
    assert numbers is not None
    return PositionChoice(PositionKind.OFFSETS, option, numbers)


def _queue_numbers(
    values: OptionValues, stores: set[str] | None, option: str, form: str, number_of: Callable[[object], int | None]
) -> QueueNumbers | None:
    parsed = values.json_object(option, form)
    if parsed is None:
        return None
    found: list[tuple[str, tuple[tuple[int, int], ...]]] = []
    for topic, queues in sorted(parsed.items()):
        _check_topic(option, values[option], topic, stores, qualified_only=True)
        try:
            numbers = (
                {one: number_of(value) for one, value in queues.items()} if isinstance(queues, dict) else {"": None}
            )
        except SecondsError as error:
            raise OptionError(option, f"option {option}, topic {topic}: {error}") from error
        entries = [(int(one), value) for one, value in numbers.items() if value is not None and _is_queue_id(one)]
        if len(entries) < len(numbers):
            raise bad_value_error(option, values[option], form)
        found.append((topic, tuple(sorted(entries))))
    if not found:
        raise bad_value_error(option, values[option], form)
    return tuple(found)


def _is_queue_id(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _offset_or_none(given: object) -> int | None:
    return given if type(given) is int and EARLIEST <= given < 1 << 63 else None


def _tags(values: OptionValues) -> str | None:
    text = values.text("tags")
    if text is not None:
        try:
            names_none = TagFilter.parse(text).matches_none
        except StoreError as error:
            raise bad_value_error("tags", text, f"a tag expression such as 'a || b' ({error})") from error
        if (meant := likely_tags(text)) is not None:
            why = (
                f"option tags={text!r} names one tag; did you mean {meant!r}? A tag with such characters is chosen by "
            )
            raise OptionError("tags", f"{why}the option sql: \"TAGS = '...'\"")
        if names_none:
            raise bad_value_error("tags", text, "a tag expression such as 'a || b'; blanks match no message")
    return text


def _sql(values: OptionValues) -> str | None:
    text = values.text("sql")
    if text is not None:
        from rocketflow_store.spi.filters import compile_filter

        try:
            compile_filter(text)
        except StoreError as error:
            form = f"an SQL92 expression such as 'n > 3 AND TAGS IS NOT NULL' ({error})"
            raise bad_value_error("sql", text, form) from error
    return text


def _consumer_group(values: OptionValues, *, streaming: bool) -> str | None:
    group = values.text("consumerGroup")
    if group is not None and not streaming:
        why = (
            "a batch read neither starts at a group's progress nor publishes any; a stream does, ended by availableNow"
        )
        raise OptionError("consumerGroup", f"option consumerGroup={group!r}: {why}")
    try:
        return None if group is None else validate_group(group)
    except StoreConfigError as error:
        rule = f"1 to {MAX_GROUP_LENGTH} of letters, digits, _ - % |"
        raise bad_value_error("consumerGroup", group, rule) from error
