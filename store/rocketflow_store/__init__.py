"""RocketMQ's store in Python: append, read, recover, without a broker and without Spark.

This is the users' door: stores, messages, settings, and every error that a user can catch. Code that builds on the
store also uses `rocketflow_store.spi`. All other modules may change from one release to the next.

    with MessageStore.open(path) as store:
        store.put_message(Message(topic="orders", body=b"...", tags="paid", keys=["o-1"])).raise_for_status()
    reader = StoreReader(path)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketflow_store.engine.message_store import MessageStore as MessageStore
    from rocketflow_store.model.errors import BackupTargetError as BackupTargetError
    from rocketflow_store.model.errors import BadBodyError as BadBodyError
    from rocketflow_store.model.errors import BatchSchemaError as BatchSchemaError
    from rocketflow_store.model.errors import CorruptRecordError as CorruptRecordError
    from rocketflow_store.model.errors import DamagedBodyError as DamagedBodyError
    from rocketflow_store.model.errors import DescriptorLimitError as DescriptorLimitError
    from rocketflow_store.model.errors import FileAllocationTimeoutError as FileAllocationTimeoutError
    from rocketflow_store.model.errors import FileExistsInTargetError as FileExistsInTargetError
    from rocketflow_store.model.errors import FlushDiskTimeoutError as FlushDiskTimeoutError
    from rocketflow_store.model.errors import InvalidFilterError as InvalidFilterError
    from rocketflow_store.model.errors import InvalidMessageIdError as InvalidMessageIdError
    from rocketflow_store.model.errors import MessageNotFoundError as MessageNotFoundError
    from rocketflow_store.model.errors import MessageRejectedError as MessageRejectedError
    from rocketflow_store.model.errors import MissingStorePathError as MissingStorePathError
    from rocketflow_store.model.errors import NotAStoreError as NotAStoreError
    from rocketflow_store.model.errors import OffsetOutOfRangeError as OffsetOutOfRangeError
    from rocketflow_store.model.errors import OtherEngineError as OtherEngineError
    from rocketflow_store.model.errors import PutStatusError as PutStatusError
    from rocketflow_store.model.errors import RebuildFailedError as RebuildFailedError
    from rocketflow_store.model.errors import RemoteStoreError as RemoteStoreError
    from rocketflow_store.model.errors import ResultReleasedError as ResultReleasedError
    from rocketflow_store.model.errors import RocketFlowError as RocketFlowError
    from rocketflow_store.model.errors import StagedPartError as StagedPartError
    from rocketflow_store.model.errors import StoreAccessError as StoreAccessError
    from rocketflow_store.model.errors import StoreClosedError as StoreClosedError
    from rocketflow_store.model.errors import StoreConfigError as StoreConfigError
    from rocketflow_store.model.errors import StoreError as StoreError
    from rocketflow_store.model.errors import StoreFencedError as StoreFencedError
    from rocketflow_store.model.errors import StoreFullError as StoreFullError
    from rocketflow_store.model.errors import StoreLockedError as StoreLockedError
    from rocketflow_store.model.errors import StoreMovedError as StoreMovedError
    from rocketflow_store.model.errors import StorePoolDeficientError as StorePoolDeficientError
    from rocketflow_store.model.errors import StoreReplacedError as StoreReplacedError
    from rocketflow_store.model.errors import StoreVersionError as StoreVersionError
    from rocketflow_store.model.errors import TruncatedRecordError as TruncatedRecordError
    from rocketflow_store.model.errors import UncleanStoreError as UncleanStoreError
    from rocketflow_store.model.errors import UnknownColumnError as UnknownColumnError
    from rocketflow_store.model.errors import UnknownTopicError as UnknownTopicError
    from rocketflow_store.model.errors import UnreadableError as UnreadableError
    from rocketflow_store.model.errors import UnsupportedRecordError as UnsupportedRecordError
    from rocketflow_store.model.errors import WouldBlockError as WouldBlockError
    from rocketflow_store.model.message import Message as Message
    from rocketflow_store.model.message import MessageExt as MessageExt
    from rocketflow_store.model.message import ReceivedMessage as ReceivedMessage
    from rocketflow_store.model.on_bad_body import OnBadBody as OnBadBody
    from rocketflow_store.model.results import AppendBatchResult as AppendBatchResult
    from rocketflow_store.model.results import PutMessageResult as PutMessageResult
    from rocketflow_store.model.results import StoreSnapshot as StoreSnapshot
    from rocketflow_store.model.status import FlushDiskType as FlushDiskType
    from rocketflow_store.model.status import GetMessageStatus as GetMessageStatus
    from rocketflow_store.model.status import PutMessageStatus as PutMessageStatus
    from rocketflow_store.reading.faults import RaiseFaults as RaiseFaults
    from rocketflow_store.reading.faults import ReadFaults as ReadFaults
    from rocketflow_store.reading.faults import SkipFaults as SkipFaults
    from rocketflow_store.reading.get_message_result import GetMessageResult as GetMessageResult
    from rocketflow_store.reading.store_reader import StoreReader as StoreReader
    from rocketflow_store.settings.store_config import StoreConfig as StoreConfig

__version__ = "0.2.0"

_ERRORS = (
    "BadBodyError",
    "BackupTargetError",
    "DamagedBodyError",
    "BatchSchemaError",
    "CorruptRecordError",
    "DescriptorLimitError",
    "FileAllocationTimeoutError",
    "FileExistsInTargetError",
    "FlushDiskTimeoutError",
    "InvalidFilterError",
    "InvalidMessageIdError",
    "MessageNotFoundError",
    "MessageRejectedError",
    "MissingStorePathError",
    "NotAStoreError",
    "OffsetOutOfRangeError",
    "OtherEngineError",
    "PutStatusError",
    "RebuildFailedError",
    "RemoteStoreError",
    "ResultReleasedError",
    "RocketFlowError",
    "StagedPartError",
    "StoreAccessError",
    "StoreClosedError",
    "StoreConfigError",
    "StoreError",
    "StoreFencedError",
    "StoreFullError",
    "StoreLockedError",
    "StoreMovedError",
    "StorePoolDeficientError",
    "StoreReplacedError",
    "StoreVersionError",
    "TruncatedRecordError",
    "UncleanStoreError",
    "UnknownColumnError",
    "UnknownTopicError",
    "UnreadableError",
    "UnsupportedRecordError",
    "WouldBlockError",
)
_HOMES = {
    "AppendBatchResult": "model.results",
    "FlushDiskType": "model.status",
    "GetMessageResult": "reading.get_message_result",
    "GetMessageStatus": "model.status",
    "Message": "model.message",
    "MessageExt": "model.message",
    "ReceivedMessage": "model.message",
    "MessageStore": "engine.message_store",
    "OnBadBody": "model.on_bad_body",
    "PutMessageResult": "model.results",
    "PutMessageStatus": "model.status",
    "RaiseFaults": "reading.faults",
    "ReadFaults": "reading.faults",
    "SkipFaults": "reading.faults",
    "StoreConfig": "settings.store_config",
    "StoreReader": "reading.store_reader",
    "StoreSnapshot": "model.results",
    **dict.fromkeys(_ERRORS, "model.errors"),
}

__all__ = [
    "AppendBatchResult",
    "BackupTargetError",
    "BadBodyError",
    "BatchSchemaError",
    "CorruptRecordError",
    "DamagedBodyError",
    "DescriptorLimitError",
    "FileAllocationTimeoutError",
    "FileExistsInTargetError",
    "FlushDiskTimeoutError",
    "FlushDiskType",
    "GetMessageResult",
    "GetMessageStatus",
    "InvalidFilterError",
    "InvalidMessageIdError",
    "Message",
    "MessageExt",
    "MessageNotFoundError",
    "MessageRejectedError",
    "MessageStore",
    "MissingStorePathError",
    "NotAStoreError",
    "OffsetOutOfRangeError",
    "OnBadBody",
    "OtherEngineError",
    "PutMessageResult",
    "PutMessageStatus",
    "PutStatusError",
    "RaiseFaults",
    "ReadFaults",
    "RebuildFailedError",
    "ReceivedMessage",
    "RemoteStoreError",
    "ResultReleasedError",
    "RocketFlowError",
    "SkipFaults",
    "StagedPartError",
    "StoreAccessError",
    "StoreClosedError",
    "StoreConfig",
    "StoreConfigError",
    "StoreError",
    "StoreFencedError",
    "StoreFullError",
    "StoreLockedError",
    "StoreMovedError",
    "StorePoolDeficientError",
    "StoreReader",
    "StoreReplacedError",
    "StoreSnapshot",
    "StoreVersionError",
    "TruncatedRecordError",
    "UncleanStoreError",
    "UnknownColumnError",
    "UnknownTopicError",
    "UnreadableError",
    "UnsupportedRecordError",
    "WouldBlockError",
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
