"""Push consumers: a listener is called with the messages of a group's topics.

| module | content |
|---|---|
| `push_consumer`, `options`, `listeners` | `PushConsumer`; what it is given |
| `process_queue` | the unfinished messages of a queue, without I/O |
| `held_queue` | a queue that the client holds, and those who wait for its messages |
| `holdings`, `queue_locks` | queues gained and lost; locks of orderly ones |
| `pulling` | pulls, one after the other for each queue |
| `concurrent`, `orderly`, `traced_calls` | calls of the listener, with rows of trace |
| `send_backs` | messages that are retried |
| `broker_requests`, `report`, `figures` | what brokers and operators ask for |
"""

from rocketflow.client.consume.start_positions import ConsumeFrom
from rocketflow.client.push.listeners import ConsumeContext, ConsumeStatus, Listener
from rocketflow.client.push.options import PushOptions
from rocketflow.client.push.process_queue import QueueLimits
from rocketflow.client.push.push_consumer import PushConsumer

__all__ = ["ConsumeContext", "ConsumeFrom", "ConsumeStatus", "Listener", "PushConsumer", "PushOptions", "QueueLimits"]
