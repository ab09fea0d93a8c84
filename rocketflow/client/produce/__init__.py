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
"""

from rocketflow.client.messages import Message
from rocketflow.client.produce.options import ProducerOptions
from rocketflow.client.produce.producer import Producer
from rocketflow.client.produce.results import SendResult, SendStatus
from rocketflow.client.produce.selectors import at_random, by_sharding_key

__all__ = ["Message", "Producer", "ProducerOptions", "SendResult", "SendStatus", "at_random", "by_sharding_key"]
