"""Clients of NameServers and brokers, on asyncio; of the store they use the facts that need no other package.

| module | content |
|---|---|
| `cluster` | one client's routes, requests to NameServers and brokers, heartbeats |
| `options`, `errors` | what every client is given, and what it raises |
| `routes`, `ids` | queues of a route, ids of clients and messages, without I/O |
| `pull_status`, `skipped` | outcomes of a pull, what was not received, without I/O |
| `produce` | producers |
| `admin` | operators' requests |
| `consume` | parts of consumers: strategies, subscriptions, pulls, offsets |
| `pull` | the lite pull consumer |
| `push` | push consumers: a listener is called with messages |
| `sync` | the clients with plain methods, for callers without an event loop |
| `store_client` | commits and deliveries of jobs, by the broker that serves their store |

The names of `__all__` are imported from their modules when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rocketflow.client.consume.corrections import CorrectionReason, OffsetCorrection
    from rocketflow.client.consume.idempotent import Idempotent, MemoryKeys, SqliteKeys
    from rocketflow.client.consume.start_positions import ConsumeFrom
    from rocketflow.client.options import ClientOptions
    from rocketflow.client.produce import (
        Producer,
        ProducerOptions,
        SendResult,
        SendStatus,
        TransactionProducer,
        TransactionState,
        by_sharding_key,
        reply_to,
    )
    from rocketflow.client.pull.consumer import PullConsumer
    from rocketflow.client.pull.options import PullListener, PullOptions
    from rocketflow.client.push import ConsumeContext, ConsumeStatus, PushConsumer, PushOptions
    from rocketflow.client.skipped import SkippedMessages
    from rocketflow.remoting.rpc_hook import RpcHook
    from rocketflow_store.spi.messages import Compression, Message, ReceivedMessage

__all__ = [
    "ClientOptions",
    "Compression",
    "ConsumeContext",
    "ConsumeFrom",
    "ConsumeStatus",
    "CorrectionReason",
    "Idempotent",
    "MemoryKeys",
    "Message",
    "OffsetCorrection",
    "Producer",
    "ProducerOptions",
    "PullConsumer",
    "PullListener",
    "PullOptions",
    "PushConsumer",
    "PushOptions",
    "ReceivedMessage",
    "RpcHook",
    "SendResult",
    "SendStatus",
    "SkippedMessages",
    "SqliteKeys",
    "TransactionProducer",
    "TransactionState",
    "by_sharding_key",
    "reply_to",
]

_MODULES: Final = {
    "ClientOptions": "rocketflow.client.options",
    "Compression": "rocketflow_store.spi.messages",
    "ConsumeContext": "rocketflow.client.push",
    "ConsumeFrom": "rocketflow.client.consume.start_positions",
    "ConsumeStatus": "rocketflow.client.push",
    "CorrectionReason": "rocketflow.client.consume.corrections",
    "Message": "rocketflow_store.spi.messages",
    "Idempotent": "rocketflow.client.consume.idempotent",
    "MemoryKeys": "rocketflow.client.consume.idempotent",
    "OffsetCorrection": "rocketflow.client.consume.corrections",
    "Producer": "rocketflow.client.produce",
    "ProducerOptions": "rocketflow.client.produce",
    "PullConsumer": "rocketflow.client.pull.consumer",
    "PullListener": "rocketflow.client.pull.options",
    "PullOptions": "rocketflow.client.pull.options",
    "PushConsumer": "rocketflow.client.push",
    "PushOptions": "rocketflow.client.push",
    "ReceivedMessage": "rocketflow_store.spi.messages",
    "RpcHook": "rocketflow.remoting.rpc_hook",
    "SendResult": "rocketflow.client.produce",
    "SendStatus": "rocketflow.client.produce",
    "SkippedMessages": "rocketflow.client.skipped",
    "SqliteKeys": "rocketflow.client.consume.idempotent",
    "TransactionProducer": "rocketflow.client.produce",
    "TransactionState": "rocketflow.client.produce",
    "by_sharding_key": "rocketflow.client.produce",
    "reply_to": "rocketflow.client.produce",
}


def __getattr__(name: str) -> Any:
    """Import a name of `__all__`."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
