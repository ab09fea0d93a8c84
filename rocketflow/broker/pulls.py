"""Pulls: messages of a queue, now or when they arrive.

RocketMQ's source: broker/processor/PullMessageProcessor.java, DefaultPullMessageResultHandler.java,
broker/longpolling/PullRequestHoldService.java.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow.aio.server import RefusedError, Request
from rocketflow.broker.held_pulls import HeldPull, HeldPulls
from rocketflow.broker.topics import PERM_READ
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rocketflow_store import GetMessageStatus, StoreError
from rocketflow_store.spi.filters import SqlFilter, TagFilter, compile_filter

if TYPE_CHECKING:
    from rocketflow.aio.channel import Channel
    from rocketflow.broker.clients import ConsumerTable
    from rocketflow.broker.groups import Groups
    from rocketflow.broker.offsets import GroupOffsets
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.broker.topics import Topics
    from rocketflow_store import GetMessageResult
    from rocketflow_store.spi.broker import Arrival, WritingStore

COMMIT_FLAG: Final = 1
SUSPEND_FLAG: Final = 2
SUBSCRIPTION_FLAG: Final = 4

_LOOK_SECONDS: Final = 0.5
_MAX_COUNT: Final = 1_024

_CODES: Final = {
    GetMessageStatus.FOUND: ResponseCode.SUCCESS,
    GetMessageStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}


class Filter(NamedTuple):
    """Filter of a group on a topic: tags, or a condition on properties."""

    tags: TagFilter
    condition: SqlFilter | None

    @property
    def tags_codes(self) -> frozenset[int] | None:
        """Return the tags codes that can match, None for all."""
        return None if self.condition is not None or self.tags.matches_all else self.tags.codes


def parse_filter(expression_type: str | None, expression: str | None) -> Filter:
    """Return the filter of a subscription. Raises StoreError if the expression is wrong."""
    if expression_type in (None, "", "TAG"):
        return Filter(TagFilter.parse(expression), None)
    return Filter(TagFilter.parse("*"), compile_filter(expression or ""))


class Pull(NamedTuple):
    """A pull that has passed all checks."""

    request: Request
    header: PullMessageRequestHeader
    filter: Filter


class Pulls:
    """Requests 11 and 361."""

    def __init__(
        self,
        store: WritingStore,
        topics: Topics,
        groups: Groups,
        consumers: ConsumerTable[Channel],
        offsets: GroupOffsets,
        settings: BrokerSettings,
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._offsets = offsets
        self._settings = settings
        self._held: HeldPulls[Pull] = HeldPulls()
        self._filters: dict[tuple[str | None, str | None], Filter] = {}

    def pull(self, request: Request) -> None:
        """Answer with messages; let the request wait if there are none and it may."""
        header = request.command.header(PullMessageRequestHeader)
        pull = Pull(request, header, self._checked(request, header))
        if header.sys_flag & COMMIT_FLAG and header.commit_offset >= 0:
            self._offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        self._answer(pull, may_wait=bool(header.sys_flag & SUSPEND_FLAG))

    def arrived(self, arrivals: Sequence[Arrival]) -> None:
        """Answer the pulls that wait for these messages."""
        for one in arrivals:
            for pull in self._held.arrived(one.topic, one.queue_id, one.next_offset, one.tags_codes):
                self._answer_held(pull)

    def channel_closed(self, channel: Channel) -> None:
        """Forget the pulls of a connection."""
        if len(self._held):
            self._held.drop(lambda pull: pull.request.channel is channel)

    async def expire(self) -> None:
        """Answer the pulls that have waited long enough, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for pull in self._held.expired(_now_ms()):
                self._answer_held(pull)

    def answer_all(self) -> None:
        """Answer every pull that waits: the broker stops."""
        for pull in self._held.all():
            self._answer_held(pull)

    # --- checks, in RocketMQ's order

    def _checked(self, request: Request, header: PullMessageRequestHeader) -> Filter:
        if not self._settings.broker_permission & PERM_READ:
            raise _refused(
                ResponseCode.NO_PERMISSION, f"the broker[{self._settings.broker_ip1}] pulling message is forbidden"
            )
        if request.command.code == RequestCode.LITE_PULL_MESSAGE and not self._settings.lite_pull_message_enable:
            raise _refused(ResponseCode.NO_PERMISSION, "lite pulls are disabled (litePullMessageEnable)")
        group = self._groups.for_use(header.consumer_group)
        if group is None:
            raise _refused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{header.consumer_group}] does not exist",
            )
        if not group.consume_enable:
            raise _refused(ResponseCode.NO_PERMISSION, f"subscription group no permission, {header.consumer_group}")
        topic = self._topics.get(header.topic)
        if topic is None:
            raise _refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist, apply first please!")
        if not topic.perm & PERM_READ:
            raise _refused(ResponseCode.NO_PERMISSION, f"the topic[{header.topic}] pulling message is forbidden")
        if not 0 <= header.queue_id < topic.read_queue_nums:
            raise _refused(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] topicConfig.readQueueNums:"
                f"[{topic.read_queue_nums}] consumer:[{request.channel.address}]",
            )
        if header.sys_flag & SUBSCRIPTION_FLAG:
            wanted = self._filter(header.expression_type, header.subscription)
        else:
            wanted = self._subscribed(header)
        if wanted.condition is not None and not self._settings.enable_property_filter:
            raise _refused(
                ResponseCode.SYSTEM_ERROR,
                "The broker does not support consumer to filter message by SQL92: set enablePropertyFilter=true",
            )
        return wanted

    def _subscribed(self, header: PullMessageRequestHeader) -> Filter:
        """Return the filter that the group's heartbeats name."""
        if self._consumers.get(header.consumer_group) is None:
            raise _refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist")
        known = self._consumers.subscription(header.consumer_group, header.topic)
        if known is None:
            raise _refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist")
        if known.sub_version < header.sub_version:
            raise _refused(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        if known.class_filter_mode:
            return self._filter(None, "*")
        return self._filter(known.expression_type, known.sub_string)

    def _filter(self, expression_type: str | None, expression: str | None) -> Filter:
        key = (expression_type, expression)
        found = self._filters.get(key)
        if found is None:
            try:
                found = parse_filter(expression_type, expression)
            except StoreError as error:
                raise _refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None
            if len(self._filters) > _MAX_COUNT:
                self._filters.clear()
            self._filters[key] = found
        return found

    # --- reading and answering

    def _answer_held(self, pull: Pull) -> None:
        try:
            self._answer(pull, may_wait=False)
        except RefusedError as error:
            pull.request.refuse(error)
        except StoreError as error:
            pull.request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))

    def _answer(self, pull: Pull, *, may_wait: bool) -> None:
        header = pull.header
        tags = "||".join(pull.filter.tags.tags) or None
        count = max(1, min(header.max_msg_nums, _MAX_COUNT))
        with self._store.get_message(header.topic, header.queue_id, header.queue_offset, count, tags) as found:
            code = _code_of(found, header.queue_offset)
            body = b""
            if code == ResponseCode.SUCCESS:
                body = _matching(found, pull.filter.condition)
                if not body:
                    code = ResponseCode.PULL_RETRY_IMMEDIATELY
            elif code == ResponseCode.PULL_NOT_FOUND and may_wait and self._hold(pull):
                return
            answer = PullMessageResponseHeader(
                suggest_which_broker_id=0,
                next_begin_offset=found.next_begin_offset,
                min_offset=found.min_offset,
                max_offset=found.max_offset,
            )
            remark = found.status.name
        pull.request.reply(code, answer, body=body, remark=remark)

    def _hold(self, pull: Pull) -> bool:
        header = pull.header
        wait_ms = header.suspend_timeout_millis
        if not self._settings.long_polling_enable:
            wait_ms = self._settings.short_polling_time_mills
        held = HeldPull(pull, header.queue_offset, pull.filter.tags_codes, _now_ms() + wait_ms)
        return self._held.hold(header.topic, header.queue_id, held)


def _matching(found: GetMessageResult, condition: SqlFilter | None) -> bytes:
    """Return the records that meet the condition, as they are stored."""
    if condition is None:
        return b"".join(found.buffers())
    pairs = zip(found.message_mapped_list, found.messages)
    return b"".join(one.byte_buffer for one, message in pairs if condition.matches(message.properties))


def _code_of(found: GetMessageResult, offset: int) -> ResponseCode:
    code = _CODES.get(found.status)
    if code is not None:
        return code
    return ResponseCode.PULL_NOT_FOUND if offset == 0 else ResponseCode.PULL_OFFSET_MOVED


def _refused(code: ResponseCode, remark: str) -> RefusedError:
    return RefusedError(code, remark)


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
