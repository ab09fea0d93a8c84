"""Settings of topics, and topics made on first use.

RocketMQ's source: broker/topic/TopicConfigManager.java, common/topic/TopicValidator.java.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from rocketflow.aio.server import RefusedError
from rocketflow.broker.topics.attributes import OF_TOPICS, AttributesError, merged_attributes
from rocketflow.broker.topics.table_changes import State, TableChanges
from rocketflow.remoting.codes import ResponseCode
from rocketflow_store import StoreError
from rocketflow_store.spi.names import (
    DLQ_PREFIX,
    PERM_INHERIT,
    PERM_READ_WRITE,
    RETRY_PREFIX,
    is_system_topic,
    validate_topic,
)
from rocketflow_store.spi.table_rows import DataVersion, TopicConfig, json_of

if TYPE_CHECKING:
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow_store.spi.broker import WritingStore

TEMPLATE_TOPIC: Final = "TBW102"
REPLY_SUFFIX: Final = "_REPLY_TOPIC"
DLQ_QUEUES: Final = 1
LIMIT: Final = 100_000

UNIT_FLAG: Final = 1


class Topics:
    """The topics of a broker; at most LIMIT are made on first use. Changes are written in a thread.

    `on_changed` is called after each change; `registered` waits until the NameServers know of it.
    """

    def __init__(
        self,
        store: WritingStore,
        settings: BrokerSettings,
        on_changed: Callable[[], None],
        registered: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._table = store.topic_table
        self._settings = settings
        self._on_changed = on_changed
        self.registered = registered
        self.on_deleted: list[Callable[[str], None]] = []
        """Calls after a topic is deleted: what others know of it is forgotten."""
        self._reported = self.changes
        self._writes = TableChanges(self._table, self.report_changes)

    def create_system_topics(self) -> None:
        """Create the topics that every broker has. Raises StoreError."""
        settings = self._settings
        wanted = [
            ("SELF_TEST_TOPIC", 1, PERM_READ_WRITE),
            ("BenchmarkTest", 1024, PERM_READ_WRITE),
            ("OFFSET_MOVED_EVENT", 1, PERM_READ_WRITE),
            ("SCHEDULE_TOPIC_XXXX", 18, PERM_READ_WRITE),
            ("RMQ_SYS_TRANS_HALF_TOPIC", 1, PERM_READ_WRITE),
            ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1, PERM_READ_WRITE),
            (f"{settings.broker_cluster_name}{REPLY_SUFFIX}", 1, PERM_READ_WRITE),
            (settings.broker_cluster_name, 16, _template_perm(settings.cluster_topic_enable)),
            (settings.broker_name, 1, _template_perm(settings.broker_topic_enable)),
        ]
        if settings.auto_create_topic_enable:
            wanted.append((TEMPLATE_TOPIC, settings.default_topic_queue_nums, PERM_READ_WRITE | PERM_INHERIT))
        if settings.trace_topic_enable:
            wanted.append((settings.msg_trace_topic_name, 1, PERM_READ_WRITE))
        known = self._table.items()
        self._table.put(
            *(TopicConfig(name, queues, queues, perm) for name, queues, perm in wanted if name not in known)
        )

    def is_system(self, topic: str) -> bool:
        """Return whether a topic is the store's or the broker's own: operators neither change nor delete it."""
        settings = self._settings
        cluster = settings.broker_cluster_name
        if topic in (settings.broker_name, cluster, f"{cluster}{REPLY_SUFFIX}"):
            return True
        return is_system_topic(topic) or (settings.trace_topic_enable and topic == settings.msg_trace_topic_name)

    def get(self, topic: str) -> TopicConfig | None:
        """Return the settings of a topic, None if there is none."""
        return self._table.get(topic)

    def known(self, topic: str) -> TopicConfig:
        """Return the settings of a topic. Raises RefusedError with 17 if there is none."""
        found = self._table.get(topic)
        if found is None:
            raise RefusedError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        return found

    def all(self) -> dict[str, TopicConfig]:
        """Return all topics."""
        return self._table.items()

    async def for_send(self, topic: str, template: str, queues: int, *, is_unit: bool = False) -> TopicConfig:
        """Return the settings of a topic that is sent to, made after `template` if there is none.

        Raises RefusedError: 29 for a name that is not allowed, 17 where the topic cannot be made.
        """
        found = self._table.get(topic)
        if found is not None:
            return found
        check_topic_name(topic)
        found = self._made_after(template, topic, queues, is_unit)
        if found is None and topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            found = TopicConfig(topic, 1, 1, PERM_READ_WRITE, topic_sys_flag=UNIT_FLAG if is_unit else 0)
        if found is None:
            raise RefusedError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!")
        return await self._created(found)

    def _made_after(self, template: str, topic: str, queues: int, is_unit: bool) -> TopicConfig | None:
        model = self._table.get(template)
        if model is None or not model.perm & PERM_INHERIT:
            return None
        if template == TEMPLATE_TOPIC and not self._settings.auto_create_topic_enable:
            return None
        count = max(0, min(queues, model.write_queue_nums))
        return TopicConfig(
            topic,
            count,
            count,
            model.perm & ~PERM_INHERIT,
            topic_filter_type=model.topic_filter_type,
            topic_sys_flag=UNIT_FLAG if is_unit else 0,
        )

    async def ensure(self, topic: str, queues: int, *, is_unit: bool = False) -> TopicConfig:
        """Return the settings of a retry or dead-letter topic, made if there is none."""
        found = self._table.get(topic)
        if found is not None:
            return found
        return await self._created(_internal(topic, queues, is_unit))

    async def ensure_retry_topics(self, groups: Mapping[str, tuple[int, bool]]) -> None:
        """Make the retry topics of groups with these numbers of queues and unit modes, if there are none."""
        wanted = {f"{RETRY_PREFIX}{group}": one for group, one in groups.items()}
        await self._make([_internal(topic, *one) for topic, one in wanted.items()])

    async def change(self, wanted: Iterable[TopicConfig]) -> bool:
        """Make or change topics; return False if they are so already. No topic changes if one of them is refused.

        Attributes that are wanted are changes, by signed names. Raises RefusedError if one is not allowed, or a topic
        cannot be kept.
        """
        given = list(wanted)
        return bool(await self._writes.apply(lambda state: by_name(changed_topics(given, state.get))))

    async def order(self, topics: Iterable[str]) -> None:
        """Mark topics as ordered: a NameServer has them in its table. Raises RefusedError if that cannot be kept."""
        named = list(topics)

        def plan(state: State[TopicConfig]) -> dict[str, TopicConfig]:
            found = [one for topic in named if (one := state.get(topic)) is not None and not one.order]
            return by_name(replace(one, order=True) for one in found)

        await self._writes.apply(plan)

    async def delete(self, topic: str) -> None:
        """Remove a topic and its queues. Raises RefusedError if the store fails."""
        await self._writes.alone(self._table.delete, topic)
        for forget in self.on_deleted:
            forget(topic)

    async def settings_changed(self) -> None:
        """Make the topics that the settings now ask for, and give the table a new version.

        A NameServer takes other permissions under a new version only. Raises RefusedError if it cannot be kept.
        """
        await self._writes.alone(self._renew)

    def _renew(self) -> None:
        self.create_system_topics()
        self._table.renew_version()

    async def _created(self, config: TopicConfig) -> TopicConfig:
        """Make a topic on its first use, unless another request has made it meanwhile."""
        await self._make([config])
        return self._table.get(config.topic_name) or config

    async def _make(self, configs: Sequence[TopicConfig]) -> None:
        """Make topics, unless other requests have made them meanwhile."""

        def plan(state: State[TopicConfig]) -> dict[str, TopicConfig]:
            missing = by_name(one for one in configs if state.get(one.topic_name) is None)
            if missing and state.count + len(missing) > LIMIT:
                raise RefusedError(ResponseCode.SYSTEM_ERROR, f"the broker has {LIMIT:,} topics: delete some")
            return missing

        await self._writes.apply(plan)

    def report_changes(self) -> None:
        """Call `on_changed` if there are changes, also those by a commit or a delivery, that it was not called for."""
        if self.changes != self._reported:
            self._reported = self.changes
            self._on_changed()

    @property
    def changes(self) -> int:
        """Return the number of changes of the table."""
        return self._table.data_version.counter

    @property
    def data_version(self) -> DataVersion:
        """Return number and time of the last change."""
        return self._table.data_version

    def wrapper(self) -> dict[str, Any]:
        """Return all topics as a broker registers them: with the broker's permission."""
        allowed = self._settings.broker_permission | PERM_INHERIT
        return {
            "dataVersion": self.data_version,
            "topicConfigTable": {name: json_of(_permitted(one, allowed)) for name, one in self._table.items().items()},
        }


def changed_topics(wanted: Iterable[TopicConfig], known: Callable[[str], TopicConfig | None]) -> list[TopicConfig]:
    """Return the topics that a request makes or changes, as they are afterwards; those that stay are not among them.

    The attributes of a topic are merged with those that it has. Raises RefusedError for a change that is not allowed.
    """
    planned: dict[str, TopicConfig] = {}
    for one in wanted:
        name = one.topic_name
        now = planned.get(name) or known(name)
        try:
            merged = merged_attributes(now.attributes if now else None, one.attributes, OF_TOPICS)
        except AttributesError as error:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"topic {name}: {error}") from None
        planned[name] = one.changing(now, merged)
    return [one for name, one in planned.items() if known(name) != one]


def by_name(configs: Iterable[TopicConfig]) -> dict[str, TopicConfig]:
    """Return the settings of topics by their names."""
    return {one.topic_name: one for one in configs}


def _internal(topic: str, queues: int, is_unit: bool) -> TopicConfig:
    """Return the settings of a new retry or dead-letter topic."""
    return TopicConfig(topic, queues, queues, PERM_READ_WRITE, topic_sys_flag=UNIT_FLAG if is_unit else 0)


def check_topic_name(topic: str) -> None:
    """Raise RefusedError for a name that no topic may have."""
    try:
        validate_topic(topic)
    except StoreError as error:
        raise RefusedError(ResponseCode.INVALID_PARAMETER, str(error)) from None


def _permitted(config: TopicConfig, allowed: int) -> TopicConfig:
    """Return a topic with those of its permissions that are allowed."""
    return config if config.perm & allowed == config.perm else replace(config, perm=config.perm & allowed)


def _template_perm(is_open: bool) -> int:
    return PERM_INHERIT | PERM_READ_WRITE if is_open else PERM_INHERIT
