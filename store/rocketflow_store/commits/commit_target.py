"""The part of a store that commits use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from rocketflow_store.format.record import RecordFields
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.model.message import ReceivedMessage
    from rocketflow_store.model.results import AppendBatchResult
    from rocketflow_store.records.encoding.encode import EncodedChunk
    from rocketflow_store.settings.store_config import StoreConfig


class CommitLogReads(Protocol):
    """The part of a store or a reader that lookups use."""

    @property
    def paths(self) -> StorePaths: ...

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]: ...

    def read_units(self, topic: str, queue_id: int, start: int, end: int) -> npt.NDArray[np.void]: ...

    def look_message_by_offset(self, phy_offset: int) -> ReceivedMessage | None: ...


class CommitTarget(CommitLogReads, Protocol):
    """A store that is open for writing."""

    path: Path
    commit_lock: threading.RLock

    @property
    def config(self) -> StoreConfig: ...

    @property
    def max_phy_offset(self) -> int: ...

    def dispatch_pending(self) -> None: ...

    def one_topic_write(self) -> AbstractContextManager[None]: ...

    def ensure_topic(self, topic: str, queues: int | None = None) -> None: ...

    def create_topic(self, topic: str, queues: int = 8) -> None: ...

    def append_commit(
        self,
        envelope: Callable[[int, int], RecordFields],
        chunks: Iterable[EncodedChunk],
        check: Callable[[], None] | None = None,
    ) -> AppendBatchResult: ...
