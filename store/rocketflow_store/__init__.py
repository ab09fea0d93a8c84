"""RocketMQ's store in Python: append, read, recover, without a broker and without Spark.

with MessageStore.open(path) as store:
    store.put_message(Message(topic="orders", body=b"...", tags="paid", keys=["o-1"])).raise_for_status()
reader = StoreReader(path)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketflow_store.engine.message_store import MessageStore as MessageStore
    from rocketflow_store.model.errors import StoreError as StoreError
    from rocketflow_store.model.message import Message as Message
    from rocketflow_store.model.message import MessageExt as MessageExt
    from rocketflow_store.model.results import AppendBatchResult as AppendBatchResult
    from rocketflow_store.model.results import PutMessageResult as PutMessageResult
    from rocketflow_store.model.results import StoreSnapshot as StoreSnapshot
    from rocketflow_store.model.status import FlushDiskType as FlushDiskType
    from rocketflow_store.model.status import GetMessageStatus as GetMessageStatus
    from rocketflow_store.model.status import PutMessageStatus as PutMessageStatus
    from rocketflow_store.reading.get_message_result import GetMessageResult as GetMessageResult
    from rocketflow_store.reading.store_reader import StoreReader as StoreReader
    from rocketflow_store.settings.store_config import StoreConfig as StoreConfig

__version__ = "0.1.0"

_HOMES = {
    "AppendBatchResult": "model.results",
    "FlushDiskType": "model.status",
    "GetMessageResult": "reading.get_message_result",
    "GetMessageStatus": "model.status",
    "Message": "model.message",
    "MessageExt": "model.message",
    "MessageStore": "engine.message_store",
    "PutMessageResult": "model.results",
    "PutMessageStatus": "model.status",
    "StoreConfig": "settings.store_config",
    "StoreError": "model.errors",
    "StoreReader": "reading.store_reader",
    "StoreSnapshot": "model.results",
}

__all__ = [
    "AppendBatchResult",
    "FlushDiskType",
    "GetMessageResult",
    "GetMessageStatus",
    "Message",
    "MessageExt",
    "MessageStore",
    "PutMessageResult",
    "PutMessageStatus",
    "StoreConfig",
    "StoreError",
    "StoreReader",
    "StoreSnapshot",
]


def __getattr__(name: str) -> Any:
    """Load a public name at its first use: `import rocketflow_store` stays cheap."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
