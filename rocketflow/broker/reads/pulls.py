"""Pulls: messages of a queue, now or when they arrive.

RocketMQ's source: broker/processor/PullMessageProcessor.java, DefaultPullMessageResultHandler.java,
broker/longpolling/PullRequestHoldService.java.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rocketflow.access.permissions import SUBSCRIBE, Action, client_row, group_of, topic_of
from rocketflow.access.served import serves
from rocketflow.aio.channel import LARGE
from rocketflow.aio.loop import monotonic_ms
from rocketflow.aio.server import OVERLOAD, RefusedError, Request
from rocketflow.broker.groups import Filter, is_tags, least_offset, parse_filter
from rocketflow.broker.reads.held_pulls import HeldPull, HeldPulls
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import RESPONSE_FLAG
from rocketflow.remoting.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rocketflow.remoting.prepared_frame import PreparedFrame, number_value
from rocketflow_store import GetMessageStatus, StoreError, WouldBlockError
from rocketflow_store.spi.names import PERM_READ

if TYPE_CHECKING:
    from rocketflow.aio.channel import Channel
    from rocketflow.broker.figures import MessageCounts
    from rocketflow.broker.groups import Tables
    from rocketflow.broker.operators import Access
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow_store.spi.broker import Arrival, ReadResult, WritingStore
    from rocketflow_store.spi.reads import SkippedMessages

COMMIT_FLAG: Final = 1
SUSPEND_FLAG: Final = 2
SUBSCRIPTION_FLAG: Final = 4

_PULL: Final = client_row(topic_of(Action.SUB), group_of(Action.SUB), record=SUBSCRIBE, may_wait=True)

_KEPT_EXPRESSION: Final = 4_096
"""Characters of the longest expression whose filter is kept for the next pull."""

_PATHS: Final = re.compile(r"^/.* at -?\d+: |/\S*/")
"""Where a damage is, at the begin of its reason, and directories anywhere."""

_MAX_WAIT_MS: Final = 300_000
"""How long a pull may wait, whatever it asks for."""

_LOOK_SECONDS: Final = 0.5
_TURN_SECONDS: Final = 0.01
MAX_COUNT: Final = 1_024
MAX_BYTES: Final = 8 * 1024 * 1024
"""Most bytes of an answer; the store's own transfer limits are lower."""
READERS: Final = 4
MAX_COLD: Final = 1_000
"""Pulls that may wait for the disk."""

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


_FOUND: Final = PreparedFrame(
    ResponseCode.SUCCESS,
    {"suggestWhichBrokerId": "0"},
    ("nextBeginOffset", "minOffset", "maxOffset", "topicSysFlag", "groupSysFlag"),
    flag=RESPONSE_FLAG,
    remark=GetMessageStatus.FOUND.name,
)


class Pull(NamedTuple):
    """A pull that has passed all checks."""

    request: Request
    header: PullMessageRequestHeader
    filter: Filter


class PullChecks:
    """The checks of every request that reads messages for a group: of broker, group, topic and queue."""

    def __init__(self, settings: BrokerSettings, tables: Tables) -> None:
        self._topics, self._groups = tables.topics, tables.groups
        self._settings = settings

    def check(self, group_name: str, topic_name: str, queue_id: int, address: str) -> None:
        """Raise RefusedError if a group may not read a queue; `address` is the client's. In RocketMQ's order."""
        if not self._settings.broker_permission & PERM_READ:
            raise RefusedError(
                ResponseCode.NO_PERMISSION, f"the broker[{self._settings.broker_ip1}] pulling message is forbidden"
            )
        group = self._groups.get(group_name)
        if group is None:
            raise RefusedError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{group_name}] does not exist"
            )
        if not group.consume_enable:
            raise RefusedError(ResponseCode.NO_PERMISSION, f"subscription group no permission, {group_name}")
        topic = self._topics.get(topic_name)
        if topic is None:
            raise RefusedError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic_name}] not exist, apply first please!")
        if self._groups.is_forbidden(group_name, topic_name):
            raise RefusedError(
                ResponseCode.NO_PERMISSION, f"the consumer group[{group_name}] is forbidden for topic[{topic_name}]"
            )
        if not topic.perm & PERM_READ:
            raise RefusedError(ResponseCode.NO_PERMISSION, f"the topic[{topic_name}] pulling message is forbidden")
        if not 0 <= queue_id < topic.read_queue_nums:
            raise RefusedError(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{queue_id}] is illegal, topic:[{topic_name}] topicConfig.readQueueNums:"
                f"[{topic.read_queue_nums}] consumer:[{address}]",
            )


class Pulls:
    """Requests 11 and 361."""

    def __init__(
        self, store: WritingStore, settings: BrokerSettings, tables: Tables, counts: MessageCounts, access: Access
    ) -> None:
        self.checks = PullChecks(settings, tables)
        self._access = access
        self._counts = counts
        self._store = store
        self._topics, self._groups = tables.topics, tables.groups
        self._consumers, self._offsets = tables.consumers, tables.offsets
        self._settings = settings
        self._held: HeldPulls[Channel, Pull] = HeldPulls()
        self._filters: dict[tuple[str | None, str | None], Filter] = {}
        self._readers = ThreadPoolExecutor(READERS, "reader")
        self._cold: set[asyncio.Task[None]] = set()
        self._ready: deque[Pull] = deque()
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        tables.topics.on_deleted.append(self.topic_deleted)

    @serves(RequestCode.PULL_MESSAGE, _PULL)
    @serves(RequestCode.LITE_PULL_MESSAGE, _PULL)
    def pull(self, request: Request) -> Coroutine[Any, Any, None] | None:
        """Answer with messages; let the request wait if there are none and it may."""
        header = request.command.header(PullMessageRequestHeader)
        return self._groups.once_known(header.consumer_group, self._pull, request, header)

    def _pull(self, request: Request, header: PullMessageRequestHeader) -> None:
        pull = Pull(request, header, self._checked(request, header))
        if header.sys_flag & COMMIT_FLAG and header.commit_offset >= 0:
            queue = header.consumer_group, header.topic, header.queue_id
            if not self._offsets.is_reset(*queue):
                self._offsets.commit(*queue, header.commit_offset)
        self._answer(pull, may_wait=bool(header.sys_flag & SUSPEND_FLAG))

    def stored(self, arrivals: Callable[[], Sequence[Arrival]]) -> None:
        """Let the pulls that wait for new messages be answered; called by the thread that stored them."""
        if threading.get_ident() != self._thread:  # a pull may be about to wait
            self._loop.call_soon_threadsafe(self._arrived, arrivals())
        elif self._held:
            self._loop.call_soon(self._arrived, arrivals())

    def _arrived(self, arrivals: Sequence[Arrival]) -> None:
        for one in arrivals:
            self._answer_soon(self._held.arrived(one.topic, one.queue_id, one.next_offset, one.tags_codes))

    def _answer_soon(self, pulls: Sequence[Pull]) -> None:
        """Answer pulls whose wait is over; let other requests come in between if there are many."""
        is_under_way = bool(self._ready)
        self._ready.extend(pulls)
        if not is_under_way:
            self._answer_ready()

    def _answer_ready(self) -> None:
        end = time.monotonic() + _TURN_SECONDS
        try:
            while self._ready and time.monotonic() < end:
                self._answer_now(self._ready.popleft())
        finally:
            if self._ready:
                self._loop.call_soon(self._answer_ready)

    def _answer_now(self, pull: Pull) -> None:
        """Answer a pull that has waited by the rights and the subscription of now: they may have changed meanwhile."""
        try:
            self._access.guard.check_again(pull.request)
            if not pull.header.sys_flag & SUBSCRIPTION_FLAG:
                pull = pull._replace(filter=self._subscribed(pull.header))
        except RefusedError as error:
            pull.request.reply(error.code, remark=error.remark)
        else:
            self._answer(pull, may_wait=False)

    def topic_deleted(self, topic: str) -> None:
        """Refuse the pulls that wait for messages of a topic, as the next ones are: consumers learn of it at once."""
        for pull in self._held.of_topic(topic):
            header, request = pull.header, pull.request
            try:
                self.checks.check(header.consumer_group, topic, header.queue_id, request.channel.address)
            except RefusedError as error:
                request.refuse(error)
            else:
                self._answer(pull, may_wait=False)

    def channel_closed(self, channel: Channel) -> None:
        """Forget the pulls of a connection."""
        self._held.channel_closed(channel)

    async def expire(self) -> None:
        """Answer the pulls that have waited long enough, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self._answer_soon(self._held.expired(monotonic_ms()))

    @property
    def held_count(self) -> int:
        """Return the number of pulls that wait for messages."""
        return len(self._held)

    @property
    def cold_count(self) -> int:
        """Return the number of pulls that wait for the disk."""
        return len(self._cold)

    def answer_all(self) -> None:
        """Answer every pull that waits: the broker stops."""
        for pull in self._held.all():
            self._answer(pull, may_wait=False)
        self._readers.shutdown(wait=False)

    # --- checks, in RocketMQ's order

    def _checked(self, request: Request, header: PullMessageRequestHeader) -> Filter:
        if request.command.code == RequestCode.LITE_PULL_MESSAGE and not self._settings.lite_pull_message_enable:
            raise RefusedError(ResponseCode.NO_PERMISSION, "lite pulls are disabled (litePullMessageEnable)")
        self.checks.check(header.consumer_group, header.topic, header.queue_id, request.channel.address)
        if header.sys_flag & SUBSCRIPTION_FLAG:
            wanted = self._filter(header.expression_type, header.subscription)
            self._consumers.pulled(header.consumer_group, header.topic, monotonic_ms())
        else:
            wanted = self._subscribed(header)
        if wanted.is_condition and not self._settings.enable_property_filter:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "The broker does not support consumer to filter message by SQL92: set enablePropertyFilter=true",
            )
        return wanted

    def _subscribed(self, header: PullMessageRequestHeader) -> Filter:
        """Return the filter that the group's heartbeats name."""
        group = self._consumers.get(header.consumer_group)
        if group is None:
            raise RefusedError(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist")
        config = self._groups.get(header.consumer_group)
        if group.is_broadcasting and config is not None and not config.consume_broadcast_enable:
            raise RefusedError(
                ResponseCode.NO_PERMISSION,
                f"the consumer group[{header.consumer_group}] can not consume by broadcast way: consumeBroadcastEnable "
                "is false",
            )
        known = group.subscriptions.get(header.topic)
        if known is None:
            raise RefusedError(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist")
        if known.sub_version < header.sub_version:
            raise RefusedError(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        if known.class_filter_mode:
            return self._filter(None, "*")
        if is_tags(known.expression_type):
            return self._filter(known.expression_type, known.sub_string)
        condition = group.conditions.get(header.topic)
        if condition is None:
            raise RefusedError(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                f"The broker's consumer filter data is not exist! The condition is wrong: {known.sub_string}",
            )
        if condition.sub_version < header.sub_version:
            raise RefusedError(
                ResponseCode.FILTER_DATA_NOT_LATEST,
                "the consumer's consumer filter data not latest: the newest condition is empty",
            )
        return self._filter(condition.expression_type, condition.sub_string)

    def _filter(self, expression_type: str | None, expression: str | None) -> Filter:
        key = (expression_type, expression)
        found = self._filters.get(key)
        if found is None:
            try:
                found = parse_filter(expression_type, expression)
            except StoreError as error:
                raise RefusedError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None
            if len(self._filters) > MAX_COUNT:
                self._filters.clear()
            if len(expression or "") <= _KEPT_EXPRESSION and len(expression_type or "") <= _KEPT_EXPRESSION:
                self._filters[key] = found
        return found

    # --- reading and answering

    def _answer(self, pull: Pull, *, may_wait: bool) -> None:
        """Answer with what the page cache holds; read from the disk in a helper thread."""
        header = pull.header
        reset = self._offsets.take_reset(header.consumer_group, header.topic, header.queue_id)
        if reset is not None:
            self._answer_reset(pull, reset)
            return
        if pull.request.channel.is_congested:
            pull.request.reply(ResponseCode.SYSTEM_BUSY, remark=OVERLOAD)
            return
        try:
            found = self._read(pull, nowait=True)
        except WouldBlockError:
            if len(self._cold) >= MAX_COLD:
                pull.request.reply(ResponseCode.SYSTEM_BUSY, remark=OVERLOAD)
                return
            task = asyncio.ensure_future(self._answer_cold(pull, may_wait=may_wait))
            self._cold.add(task)
            task.add_done_callback(self._cold.discard)
        except StoreError as error:
            pull.request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        else:
            self._send(pull, found, may_wait=may_wait)

    async def _answer_cold(self, pull: Pull, *, may_wait: bool) -> None:
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._readers, self._read, pull)
        except StoreError as error:
            pull.request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        else:
            self._send(pull, found, may_wait=may_wait)
            if may_wait and found.status != GetMessageStatus.FOUND:
                await self._look_again(pull.header.topic, pull.header.queue_id)

    async def _look_again(self, topic: str, queue_id: int) -> None:
        """Answer the pulls of messages that arrived after the end of a cold read and before its pull waited."""
        try:
            _, end = await asyncio.to_thread(self._store.bounds, topic, queue_id)
        except StoreError:  # they say so when their time has come
            return
        self._answer_soon(self._held.arrived(topic, queue_id, end, None))

    def _read(self, pull: Pull, *, nowait: bool = False) -> ReadResult:
        header = pull.header
        count = max(1, min(header.max_msg_nums, MAX_COUNT))
        return self._store.read_messages(
            *(header.topic, header.queue_id, header.queue_offset, count, MAX_BYTES),
            match=pull.filter.match,
            nowait=nowait,
        )

    def _send(self, pull: Pull, found: ReadResult, *, may_wait: bool) -> None:
        header = pull.header
        try:
            self._access.check_pulled(pull.request, header.topic, found.data)
        except RefusedError as error:
            pull.request.refuse(error)
            return
        self._offsets.pulled(header.consumer_group, header.topic, header.queue_id, found.next_offset)
        code = _code_of(found.status, header.queue_offset)
        if code == ResponseCode.PULL_NOT_FOUND and may_wait and self._hold(pull):
            return
        topic = self._topics.get(header.topic)
        group = self._groups.get(header.consumer_group)
        topic_flag = 0 if topic is None else topic.topic_sys_flag
        group_flag = 0 if group is None else group.group_sys_flag
        request, size = pull.request, len(found.data)
        if code == ResponseCode.SUCCESS:
            self._counts.pulled(header.topic, header.consumer_group, found.count, size)
            if (
                not found.skipped
                and not request.command.header_type
                and not request.command.is_one_way
                and size < LARGE
            ):
                numbers = found.next_offset, found.min_offset, found.max_offset, topic_flag, group_flag
                frame = _FOUND.frame(request.command.opaque, tuple(map(number_value, numbers)), found.data)
                request.send_frame(code, frame, body_size=size)
                return
        answer = PullMessageResponseHeader(
            suggest_which_broker_id=0,
            next_begin_offset=found.next_offset,
            min_offset=least_offset(topic, found.min_offset, found.max_offset),
            max_offset=found.max_offset,
            topic_sys_flag=topic_flag,
            group_sys_flag=group_flag,
            skipped_messages=_skipped_text(found.skipped) if found.skipped else None,
        )
        body = bytes(found.data) if code == ResponseCode.SUCCESS else b""
        request.reply(code, answer, body=body, remark=found.status.name)

    def _answer_reset(self, pull: Pull, offset: int) -> None:
        """Send the client to an offset that an operator has set."""
        header = pull.header
        self._offsets.pulled(header.consumer_group, header.topic, header.queue_id, offset)
        begin, end = self._store.bounds(header.topic, header.queue_id)
        answer = PullMessageResponseHeader(
            suggest_which_broker_id=0, next_begin_offset=offset, min_offset=begin, max_offset=end
        )
        pull.request.reply(ResponseCode.PULL_OFFSET_MOVED, answer, remark=GetMessageStatus.OFFSET_RESET.name)

    def _hold(self, pull: Pull) -> bool:
        header = pull.header
        wait_ms = header.suspend_timeout_millis
        if not self._settings.long_polling_enable:
            wait_ms = self._settings.short_polling_time_mills
        wait_ms = min(wait_ms, _MAX_WAIT_MS)
        pull = pull._replace(request=pull.request.held())
        deadline_ms = monotonic_ms() + wait_ms
        held = HeldPull(pull.request.channel, pull, header.queue_offset, pull.filter.tags_codes, deadline_ms)
        return self._held.hold(header.topic, header.queue_id, held)


def _code_of(status: GetMessageStatus, offset: int) -> ResponseCode:
    code = _CODES.get(status)
    if code is not None:
        return code
    return ResponseCode.PULL_NOT_FOUND if offset == 0 else ResponseCode.PULL_OFFSET_MOVED


def _skipped_text(skipped: Sequence[SkippedMessages]) -> str:
    """Return a line for each reason, after the offsets that it is about: `5,9-12 REASON`.

    Clients do not get paths of the broker's files: its own event has them.
    """
    lines: dict[str, list[list[int]]] = {}
    for one in skipped:
        spans = lines.setdefault(" ".join(_PATHS.sub("", one.why).split()), [])
        if spans and spans[-1][1] == one.queue_offset:
            spans[-1][1] += one.count
        else:
            spans.append([one.queue_offset, one.queue_offset + one.count])
    return "\n".join(
        ",".join(str(start) if end == start + 1 else f"{start}-{end - 1}" for start, end in spans) + f" {why}"
        for why, spans in lines.items()
    )
