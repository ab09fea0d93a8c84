"""A producer of batches: it chooses no queue and repeats nothing, its caller does.

RocketMQ's source: client/impl/MQClientAPIImpl.java, client/impl/producer/DefaultMQProducerImpl.java.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rocketflow.aio.peers import Peers
from rocketflow.client.errors import RequestRefusedError
from rocketflow.client.messages import OutgoingMessage, batch_body
from rocketflow.remoting.bodies import BrokerData, TopicRouteData, decode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.admin import CreateTopicRequestHeader
from rocketflow.remoting.headers.offset import GetMaxOffsetRequestHeader, GetMaxOffsetResponseHeader
from rocketflow.remoting.headers.route import GetRouteInfoRequestHeader
from rocketflow.remoting.headers.send import SendMessageRequestHeaderV2, SendMessageResponseHeader

if TYPE_CHECKING:
    from rocketflow.aio.tls import Tls
    from rocketflow.remoting.command import Command
    from rocketflow.remoting.headers.header import Header
    from rocketflow.remoting.signature import Credentials

TEMPLATE_TOPIC: Final = "TBW102"
MASTER_ID: Final = "0"
DEFAULT_QUEUES: Final = 4
"""The number of queues that clients ask for where a send creates its topic."""


class Producer:
    """Sends batches to the queues of a broker.

    Calls raise RequestRefusedError, OSError and ChannelClosedError where a server cannot be reached or its connection
    ends, and TimeoutError where it does not answer within `timeout_s` seconds: then it may still handle the request.
    `tls` is that of connections to NameServer and brokers; `credentials` sign the requests to both.
    """

    def __init__(
        self,
        name_server: str,
        *,
        group: str = "rocketflow",
        timeout_s: float = 3.0,
        tls: Tls | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self._name_server = name_server
        self._group = group
        self._timeout_s = timeout_s
        self._peers = Peers(tls=tls, credentials=credentials)

    async def close(self) -> None:
        """End all connections."""
        await self._peers.close()

    async def route(self, topic: str) -> TopicRouteData:
        """Return where the queues of a topic are."""
        header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        answer = await self._request(self._name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        return decode_body(answer.body, TopicRouteData)

    async def create_topic(self, broker: str, topic: str, queues: int) -> None:
        """Create a topic at a broker's address, or change the number of its queues."""
        header = CreateTopicRequestHeader(
            topic=topic,
            default_topic=TEMPLATE_TOPIC,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            order=False,
        )
        await self._request(broker, RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def send_batch(self, broker: str, topic: str, queue_id: int, messages: Sequence[OutgoingMessage]) -> int:
        """Send messages as one batch and return the queue offset of the first."""
        header = SendMessageRequestHeaderV2(
            producer_group=self._group,
            topic=topic,
            default_topic=TEMPLATE_TOPIC,
            default_topic_queue_nums=DEFAULT_QUEUES,
            queue_id=queue_id,
            sys_flag=0,
            born_timestamp=int(time.time() * 1000),
            flag=0,
            properties="",
            reconsume_times=0,
            unit_mode=False,
            batch=True,
        )
        answer = await self._request(broker, RequestCode.SEND_BATCH_MESSAGE, header, batch_body(messages))
        return answer.header(SendMessageResponseHeader).queue_offset

    async def queue_end(self, broker: str, topic: str, queue_id: int) -> int:
        """Return the offset that the next message of a queue gets."""
        header = GetMaxOffsetRequestHeader(topic=topic, queue_id=queue_id)
        answer = await self._request(broker, RequestCode.GET_MAX_OFFSET, header)
        return answer.header(GetMaxOffsetResponseHeader).offset

    async def _request(self, address: str, code: int, header: Header, body: bytes = b"") -> Command:
        answer = await self._peers.request(address, code, header, body=body, timeout_s=self._timeout_s)
        if answer.code != ResponseCode.SUCCESS:
            raise RequestRefusedError(address, code, answer.code, answer.remark)
        return answer


def master_of(route: TopicRouteData) -> str | None:
    """Return the address of the first broker of a route that has a master."""
    brokers: list[BrokerData] = sorted(route.broker_datas, key=lambda one: one.broker_name)
    return next((one.broker_addrs[MASTER_ID] for one in brokers if MASTER_ID in one.broker_addrs), None)
