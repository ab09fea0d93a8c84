"""A message or a batch as the values of a send request, without I/O.

RocketMQ's source: client/impl/producer/DefaultMQProducerImpl.java (sendKernelImpl, tryToCompressMessage),
remoting/protocol/header/SendMessageRequestHeaderV2.java.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow.client.produce.checks import check_batch, check_topic
from rocketflow.client.produce.errors import BadMessageError
from rocketflow.client.produce.options import TEMPLATE_TOPIC
from rocketflow.client.produce.trace import Traced, TraceType
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.headers.header import Header
from rocketflow.remoting.headers.send import SendMessageRequestHeaderV2
from rocketflow.remoting.prepared_frame import PreparedFrame, number_value, text_value
from rocketflow_store.spi.messages import (
    MAX_PROPERTIES_SIZE,
    TRANSACTION_PREPARED,
    Message,
    batch_body,
    compress_body,
    message_property_text,
    usual_batch,
)
from rocketflow_store.spi.names import RETRY_PREFIX

if TYPE_CHECKING:
    from rocketflow.client.produce.options import ProducerOptions
    from rocketflow.remoting.bodies import MessageQueue
    from rocketflow_store.spi.ids import UniqKeyGenerator

_CHANGING: Final = ("e", "f", "g", "h", "i", "n")


class Outgoing(NamedTuple):
    """One send: the request's code, its values that no attempt changes, and the messages that it has."""

    code: RequestCode
    topic: str
    message_id: str
    properties: str
    body: bytes
    messages: Sequence[Message]
    sys_flag: int = 0
    flag: int = 0

    def traced(self) -> tuple[Traced, TraceType]:
        """Return the parts that a row of trace has; a batch has neither tags nor keys."""
        if len(self.messages) > 1:
            return Traced(self.topic, self.message_id, "", ""), TraceType.NORMAL
        message = self.messages[0]
        kind = TraceType.DELAY if message.is_delayed else TraceType.NORMAL
        kind = TraceType.TRANSACTION_HALF if self.sys_flag & TRANSACTION_PREPARED else kind
        return Traced.of(message, self.message_id), kind

    def fixed_fields(self, group: str, queues: int) -> dict[str, str]:
        """Return the fields that all sends of a code to a topic have."""
        return {
            "a": group,
            "b": self.topic,
            "c": TEMPLATE_TOPIC,
            "d": str(queues),
            "j": "0",
            "k": "false",
            "m": "true" if self.code == RequestCode.SEND_BATCH_MESSAGE else "false",
        }

    def prepared(self, group: str, queues: int) -> PreparedFrame:
        """Return the request of which `values` fills in the rest."""
        return PreparedFrame(self.code, self.fixed_fields(group, queues), _CHANGING)

    def values(self, queue: MessageQueue, now_ms: int) -> tuple[bytes, ...]:
        """Return the changing values of an attempt to a queue."""
        return (
            number_value(queue.queue_id),
            number_value(self.sys_flag),
            number_value(now_ms),
            number_value(self.flag),
            text_value(self.properties),
            text_value(queue.broker_name),
        )

    def header(self, group: str, queues: int, queue: MessageQueue, now_ms: int) -> Header:
        """Return the header of an attempt that is signed, sent one-way or sent to a retry topic."""
        retried = self.messages[0].properties if self.topic.startswith(RETRY_PREFIX) else {}
        most = retried.get("MAX_RECONSUME_TIMES")
        return SendMessageRequestHeaderV2(
            producer_group=group,
            topic=self.topic,
            default_topic=TEMPLATE_TOPIC,
            default_topic_queue_nums=queues,
            queue_id=queue.queue_id,
            sys_flag=self.sys_flag,
            born_timestamp=now_ms,
            flag=self.flag,
            properties=self.properties,
            reconsume_times=int(retried.get("RECONSUME_TIME", "0")),
            unit_mode=False,
            max_reconsume_times=None if most is None else int(most),
            batch=self.code == RequestCode.SEND_BATCH_MESSAGE,
            bname=queue.broker_name,
        )


def single(message: Message, keys: UniqKeyGenerator, options: ProducerOptions) -> Outgoing:
    """Return a checked message as a send; its unique key is set unless it has one.

    Raises BadMessageError for properties that cannot be encoded.
    """
    properties = message.properties
    if not message.uniq_key:
        message.uniq_key = properties.get("UNIQ_KEY") or keys.next()
    body, sys_flag = message.body, 0
    if len(body) >= options.compress_above:
        body = compress_body(body, options.compression, options.compression_level)
        sys_flag = options.compression.sys_flag
    if properties.get("TRAN_MSG") == "true":
        sys_flag |= TRANSACTION_PREPARED
    code = RequestCode.SEND_REPLY_MESSAGE_V2 if properties.get("MSG_TYPE") == "reply" else RequestCode.SEND_MESSAGE_V2
    try:
        text = message_property_text(message)
        if len(text) * 4 > MAX_PROPERTIES_SIZE and (size := len(text.encode())) > MAX_PROPERTIES_SIZE:
            raise ValueError(f"properties have {size} bytes, at most {MAX_PROPERTIES_SIZE} are allowed")
    except ValueError as error:
        raise BadMessageError(f"topic {message.topic!r}: {error}") from None
    return Outgoing(code, message.topic, message.uniq_key, text, body, (message,), sys_flag, message.flag)


def batch(messages: Sequence[Message], keys: UniqKeyGenerator, options: ProducerOptions) -> Outgoing:
    """Check messages, and return them as one send, which is not compressed. Raises BadMessageError."""
    topic = messages[0].topic if messages else ""
    prefix, first = keys.reserve(len(messages))
    if messages:
        check_topic(topic)
        if not topic.startswith(RETRY_PREFIX):
            usual = usual_batch(messages, topic, options.max_message_size, (prefix, first))
            if usual is not None:
                return Outgoing(RequestCode.SEND_BATCH_MESSAGE, topic, usual[1], "", usual[0], messages)
    check_batch(messages, options.max_message_size)
    for tick, one in enumerate(messages, first):
        if not one.uniq_key:
            one.uniq_key = one.properties.get("UNIQ_KEY") or f"{prefix}{tick:012X}"
    try:
        body = batch_body(messages)
    except ValueError as error:
        raise BadMessageError(f"topic {topic!r}: {error}") from None
    if len(body) > options.max_message_size:
        raise BadMessageError(
            f"topic {topic!r}: a batch of {len(messages):,} messages has {len(body):,} bytes, at most "
            f"{options.max_message_size:,} are allowed: send fewer at once"
        )
    message_id = ",".join([one.uniq_key for one in messages])
    return Outgoing(RequestCode.SEND_BATCH_MESSAGE, topic, message_id, "", body, messages)
