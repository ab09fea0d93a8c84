"""Clients with plain methods: the names of `rocketflow.client`, without `await`.

| module | content |
|---|---|
| `pull_consumer` | the lite pull consumer |
| `bridge` | the event loop in a thread that runs all of them, and their base class |
| `listener_threads` | threads for the listeners of push consumers |
| `push_consumer` | push consumers, whose listeners run in threads |
| `producer` | producers |

The names of `__all__` are imported from their modules when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rocketflow.client.sync.producer import Producer, TransactionProducer
    from rocketflow.client.sync.pull_consumer import PullConsumer
    from rocketflow.client.sync.push_consumer import PushConsumer

__all__ = ["Producer", "PullConsumer", "PushConsumer", "TransactionProducer"]

_MODULES: Final = {
    "Producer": "rocketflow.client.sync.producer",
    "TransactionProducer": "rocketflow.client.sync.producer",
    "PullConsumer": "rocketflow.client.sync.pull_consumer",
    "PushConsumer": "rocketflow.client.sync.push_consumer",
}


def __getattr__(name: str) -> Any:
    """Import a name of `__all__`."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
