"""Producers: messages sent to the brokers of a cluster.

| module | content |
|---|---|
| `producer` | the producer: single messages, batches, one-way, recalls |
| `options`, `errors`, `results` | its options, what it raises, what it returns |
| `checks` | messages and groups that a broker would refuse, without I/O |
| `outgoing` | a message or a batch as a request's values, without I/O |
| `topic_queues`, `faults`, `selectors` | the choice of a queue, without I/O |
| `sender` | attempts of one send |
| `in_flight` | limits on what waits for answers |
| `replies` | requests that wait for replies of consumers, and the replies |
| `auto_batches` | messages that are sent one by one, collected into batches |
| `trace` | rows about what was sent, for RocketMQ's tools |
| `transactions` | the producer of transactions |
"""

from rocketflow.client.produce.options import ProducerOptions
from rocketflow.client.produce.producer import Producer
from rocketflow.client.produce.replies import reply_to
from rocketflow.client.produce.results import SendResult, SendStatus
from rocketflow.client.produce.selectors import at_random, by_sharding_key
from rocketflow.client.produce.transactions import TransactionProducer, TransactionResult, TransactionState
from rocketflow_store.spi.messages import Message

__all__ = [
    "Message",
    "Producer",
    "ProducerOptions",
    "SendResult",
    "SendStatus",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "at_random",
    "by_sharding_key",
    "reply_to",
]
