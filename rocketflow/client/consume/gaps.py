"""Messages of a queue that an answer to a pull lacks, though no filter and no retention explains it.

RocketFlow's brokers name the messages that they skip because their records are damaged or missing (`skippedMessages`
of an answer). Apache's brokers pass over such messages in silence: an answer without a filter that has fewer messages
than offsets shows it. A second pull confirms that, because a broker filters by the newest subscription of a group, and
retention removes messages between two requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rocketflow.client.consume.subscriptions import ALL, TAG, subscription
from rocketflow.client.errors import ClientError
from rocketflow.client.pull_status import PullStatus
from rocketflow.client.skipped import SkippedMessages
from rocketflow.remoting.bodies import decode_body
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.errors import RemotingError
from rocketflow.remoting.headers.admin import GetTopicConfigRequestHeader
from rocketflow_store.spi.names import LMQ_PREFIX
from rocketflow_store.spi.table_rows import TopicConfig

if TYPE_CHECKING:
    from rocketflow.client.cluster import Cluster
    from rocketflow.client.consume.pulls import Puller, PullResult
    from rocketflow.remoting.bodies import MessageQueue, SubscriptionData
    from rocketflow_store.spi.messages import ReceivedMessage

LOG: Final = logging.getLogger("rocketflow.client")

UNEXPLAINED: Final = "the broker's answer lacks the message, and does not say why"
_COMPACTED: Final = "COMPACTION"
_POLICY: Final = "cleanup.policy"
_AT_ONCE: Final = 32

Span = tuple[int, int]
"""Queue offsets [start, end)."""


def selects_all(wanted: SubscriptionData) -> bool:
    """Return whether a subscription selects every message."""
    return wanted.sub_string == ALL and wanted.expression_type == TAG and not wanted.class_filter_mode


def announced(result: PullResult) -> list[SkippedMessages]:
    """Return what the broker says it has skipped."""
    return [SkippedMessages(result.request.queue, *one) for one in result.skipped]


def unannounced(result: PullResult, messages: Sequence[ReceivedMessage]) -> list[SkippedMessages]:
    """Return what an answer with these messages lacks besides."""
    start, end = result.request.offset, result.next_offset
    if len(messages) >= end - start or not is_complete(result):
        return []
    spans = missing(start, end, [one.queue_offset for one in messages])
    return besides(result.request.queue, spans, [result])


def is_complete(result: PullResult) -> bool:
    """Return whether an answer must have every message that its broker looked at.

    An LMQ has other offsets than its records, and the offsets of a static topic have gaps between brokers.
    """
    is_plain = result.offset_delta is None and not result.request.queue.topic.startswith(LMQ_PREFIX)
    return is_plain and result.status is not PullStatus.OFFSET_ILLEGAL and selects_all(result.request.subscription)


def besides(queue: MessageQueue, spans: Iterable[Span], results: Sequence[PullResult]) -> list[SkippedMessages]:
    """Return missing messages except those that retention removed or the brokers of `results` announced."""
    low = max(one.min_offset for one in results)
    left = [(max(start, low), end) for start, end in spans if end > low]
    for one in results:
        for start, end, _ in one.skipped:
            left = [part for span in left for part in _without(span, (start, end))]
    return [SkippedMessages(queue, *span, UNEXPLAINED, is_certain=False) for span in left]


def missing(start: int, end: int, offsets: Iterable[int]) -> list[Span]:
    """Return the spans of [start, end) without any of `offsets`, which are in order."""
    found, following = [], start
    for offset in offsets:
        if offset > following:
            found.append((following, min(offset, end)))
        following = max(following, offset + 1)
    if following < end:
        found.append((following, end))
    return found


def _without(span: Span, taken: Span) -> list[Span]:
    parts = [(span[0], min(span[1], taken[0])), (max(span[0], taken[1]), span[1])]
    return [(start, end) for start, end in parts if start < end]


class SkipReports:
    """Confirms, logs and counts the messages that a consumer does not get."""

    def __init__(
        self, cluster: Cluster, puller: Puller, group: str, listener: Callable[[SkippedMessages], None] | None = None
    ) -> None:
        self._cluster, self._puller, self._group, self._listener = cluster, puller, group, listener
        self._compacted: dict[tuple[str, str], bool] = {}
        self.count = 0
        """Messages that were reported."""

    async def confirmed(self, found: Sequence[SkippedMessages]) -> list[SkippedMessages]:
        """Return those of `found` that are certain, or that a second pull does not return either."""
        return [sure for one in found if (sure := one if one.is_certain else await self._confirm(one)) is not None]

    def report(self, found: Iterable[SkippedMessages]) -> None:
        """Log and count messages that the consumer has passed, and call the listener."""
        for one in found:
            self.count += one.count
            one.log()
            if self._listener is not None:
                try:
                    self._listener(one)
                except Exception:
                    LOG.exception("the listener of group %s failed", self._group)

    async def _confirm(self, one: SkippedMessages) -> SkippedMessages | None:
        from rocketflow.client.consume.pulls import PullRequest

        everything = subscription(one.queue.topic, version=0)
        most = min(one.count, _AT_ONCE)
        asked = PullRequest(
            queue=one.queue, offset=one.start, subscription=everything, max_messages=most, suspend_s=0,
            with_subscription=True,
        )  # fmt: skip
        start, why = one.start, one.why
        try:
            result = await self._puller.pull(asked)
            if any(message.queue_offset < one.end for message in result.messages()):
                return None
            start = max(start, result.min_offset)
            why = result.skipped[0].why if result.skipped else why
        except ClientError as error:
            LOG.debug("a gap of %s was not confirmed: %s", one.queue, error)
        if start >= one.end or await self._is_compacted(one.queue):
            return None
        return replace(one, start=start, why=why, is_certain=True)

    async def _is_compacted(self, queue: MessageQueue) -> bool:
        """Return whether the broker keeps only the newest message of each key; False if it does not say."""
        key = queue.broker_name, queue.topic
        if key not in self._compacted:
            self._compacted[key] = False
            try:
                address = self._cluster.broker_address(queue.broker_name, or_any=True)
                header = GetTopicConfigRequestHeader(topic=queue.topic)
                reply = await self._cluster.request(address, RequestCode.GET_TOPIC_CONFIG, header)
                attributes = decode_body(reply.body, TopicConfig).attributes
                self._compacted[key] = attributes.get(_POLICY) == _COMPACTED
            except (ClientError, RemotingError) as error:
                LOG.debug("the settings of topic %s were not answered: %s", queue.topic, error)
        return self._compacted[key]
