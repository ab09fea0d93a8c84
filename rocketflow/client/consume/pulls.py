"""One pull request for a queue, sent to the broker that the last answer suggested.

RocketMQ's source: client/impl/consumer/PullAPIWrapper.java, common/sysflag/PullSysFlag.java,
remoting/protocol/header/PullMessageRequestHeader.java.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow.client.consume.subscriptions import matches
from rocketflow.client.errors import ClientError, NoBrokerAddressError, RequestRefusedError
from rocketflow.client.pull_status import PullStatus
from rocketflow.client.routes import MASTER_ID, address_of
from rocketflow.client.skipped import SkippedSpan, skipped_spans
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.errors import RemotingError
from rocketflow.remoting.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rocketflow_store.spi.messages import ReceivedMessage, received_messages

if TYPE_CHECKING:
    from rocketflow.client.cluster import Cluster
    from rocketflow.remoting.bodies import MessageQueue, SubscriptionData

COMMIT_OFFSET: Final = 1
SUSPEND: Final = 2
SUBSCRIPTION: Final = 4
CLASS_FILTER: Final = 8
"""Bits of a pull's sysFlag."""

MAX_BYTES: Final = 262_144
"""What clients of 5.x ask for in one pull; brokers answer at least one message."""

SUSPEND_S: Final = 15.0
"""How long a pull of RocketMQ's clients waits at its broker."""

_MORE_THAN_SUSPENDED_S: Final = 10.0
_RESET: Final = "OFFSET_RESET"
"""The remark of brokers of 5.x that send a consumer to the offset that an operator has set."""


@dataclass(frozen=True, kw_only=True)
class PullRequest:
    """A pull of a queue from `offset` on.

    The broker waits `suspend_s` seconds for a message if there is none. `commit_offset` is committed by the master with
    the pull, None for no commit. Without `with_subscription` the broker filters by the subscription of the group's
    heartbeats, of which it must know at least this version.
    """

    queue: MessageQueue
    offset: int
    subscription: SubscriptionData
    max_messages: int = 32
    max_bytes: int = MAX_BYTES
    suspend_s: float = SUSPEND_S
    commit_offset: int | None = None
    with_subscription: bool = False


class PullResult(NamedTuple):
    """The answer to a pull; offsets of the queue are [min_offset, max_offset), `next_offset` is to be pulled next.

    `records` are the bytes of the messages as they are stored, `address` is the broker that answered. `offset_delta` is
    None but for a static topic. `skipped` are messages that the broker says it skipped, and why. `is_reset`: an
    operator's reset is the reason of OFFSET_ILLEGAL.
    """

    request: PullRequest
    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    records: bytes
    address: str
    offset_delta: int | None = None
    skipped: tuple[SkippedSpan, ...] = ()
    is_reset: bool = False

    def messages(self) -> list[ReceivedMessage]:
        """Decode the messages, those of inner batches each, without those that only share the hash of a tag.

        A batch that begins before the offset asked for has no message before it here. Raises DamagedRecordError.
        """
        found = []
        for one in received_messages(self.records, self.request.queue.broker_name):
            one.queue_offset += self.offset_delta or 0
            if one.queue_offset >= self.request.offset and matches(self.request.subscription, one):
                one.properties["MIN_OFFSET"] = str(self.min_offset)
                one.properties["MAX_OFFSET"] = str(self.max_offset)
                found.append(one)
        return found


class Puller:
    """Sends the pulls of a group; remembers for each queue which broker shall answer the next one.

    All pulls are requests of code 11: brokers of 4.9 do not know 361, which 5.x uses for lite pull consumers.
    """

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self._group = group
        self._suggested: dict[MessageQueue, int] = {}

    async def pull(self, pull: PullRequest) -> PullResult:
        """Send a pull and return its result, whose status is one of four.

        Raises RequestRefusedError for other answers, UnreachableError, NoRouteError, NoBrokerAddressError.
        """
        address, is_master = await self._address(pull.queue)
        header = request_header(self._group, pull, at_master=is_master)
        timeout_s = pull.suspend_s + _MORE_THAN_SUSPENDED_S
        reply = await self._cluster.ask(address, RequestCode.PULL_MESSAGE, header, timeout_s=timeout_s)
        try:
            status = PullStatus(reply.code)
        except ValueError:
            raise RequestRefusedError(address, RequestCode.PULL_MESSAGE, reply.code, reply.remark) from None
        try:
            found = reply.header(PullMessageResponseHeader)
        except RemotingError as error:
            raise ClientError(f"{address}: the answer to a pull of {pull.queue} cannot be read: {error}") from None
        self._suggested[pull.queue] = found.suggest_which_broker_id
        return PullResult(
            request=pull,
            status=status,
            next_offset=found.next_begin_offset,
            min_offset=found.min_offset,
            max_offset=found.max_offset,
            records=reply.body if status is PullStatus.FOUND else b"",
            address=address,
            offset_delta=found.offset_delta,
            skipped=skipped_spans(found.skipped_messages),
            is_reset=status is PullStatus.OFFSET_ILLEGAL and reply.remark == _RESET,
        )

    async def _address(self, queue: MessageQueue) -> tuple[str, bool]:
        """Return the broker to pull from, and whether it is the master."""
        await self._cluster.route(queue.topic)
        suggested = self._suggested.get(queue, 0)
        try:
            address = self._cluster.broker_address(queue.broker_name, broker_id=suggested, or_any=True)
        except NoBrokerAddressError:
            await self._cluster.ask_route(queue.topic)
            address = self._cluster.broker_address(queue.broker_name, broker_id=suggested, or_any=True)
        master = address_of(self._cluster.brokers().values(), queue.broker_name, broker_id=int(MASTER_ID))
        return address, address == master


def request_header(group: str, pull: PullRequest, *, at_master: bool) -> PullMessageRequestHeader:
    """Return the header of a pull; only masters are asked to commit an offset."""
    commits = at_master and pull.commit_offset is not None
    return PullMessageRequestHeader(
        consumer_group=group,
        topic=pull.queue.topic,
        queue_id=pull.queue.queue_id,
        queue_offset=pull.offset,
        max_msg_nums=pull.max_messages,
        sys_flag=(
            (COMMIT_OFFSET if commits else 0)
            | (SUSPEND if pull.suspend_s else 0)
            | (SUBSCRIPTION if pull.with_subscription else 0)
            | (CLASS_FILTER if pull.subscription.class_filter_mode else 0)
        ),
        commit_offset=pull.commit_offset or 0,
        suspend_timeout_millis=int(pull.suspend_s * 1000),
        subscription=pull.subscription.sub_string if pull.with_subscription else None,
        sub_version=pull.subscription.sub_version,
        expression_type=pull.subscription.expression_type,
        max_msg_bytes=pull.max_bytes,
    )
