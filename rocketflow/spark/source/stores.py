"""The stores of a read as the planner and the tasks use them: directories, or brokers over the network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from rocketflow.spark.source.store_access import QueueBounds, SourceStores
from rocketflow.spark.source.stream_offset import QueueKey, QueuePosition, StreamOffset

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from rocketflow.spark.source.queue_choice import QueueChooser
    from rocketflow.spark.source.source_options import SourceOptions
    from rocketflow.spark.source.task_planning import QueueRange
    from rocketflow_store import ReadFaults
    from rocketflow_store.spi.reads import Condition


class Stores(Protocol):
    """Queues of stores under one kind of key; `SourceStores` and `NetworkStores` describe the methods."""

    exact_units: int
    last_pause_s: float

    # -- stores

    def check(self) -> None: ...
    def names(self) -> Iterable[str]: ...
    def knows(self, store: str) -> bool: ...
    def generation(self, store: str) -> int: ...
    def adopted(self, offset: StreamOffset) -> StreamOffset: ...

    # -- queues

    def topics(self) -> set[str]: ...
    def listed_topics(self) -> set[str]: ...
    def configured(self, chooser: QueueChooser) -> list[QueueKey]: ...
    def snapshot(self, chooser: QueueChooser) -> dict[QueueKey, QueueBounds]: ...
    def expect(self, keys: Iterable[QueueKey]) -> None: ...
    def publish(self, store: str, group: str, offsets: Mapping[QueueKey, int]) -> None: ...
    def may_lag(self, key: QueueKey) -> bool: ...
    def units_per_file(self, key: QueueKey) -> int: ...

    # -- messages

    def position(self, key: QueueKey, next_offset: int, low: int) -> QueuePosition: ...
    def is_unchanged(self, key: QueueKey, position: QueuePosition, low: int) -> bool: ...
    def record_sizes(self, key: QueueKey, start: int, end: int) -> npt.NDArray[np.int64]: ...
    def offset_by_time(self, key: QueueKey, timestamp_ms: int) -> int: ...
    def start_by_time(self, key: QueueKey, timestamp_ms: int) -> int: ...
    def store_timestamp_ms(self, key: QueueKey, offset: int) -> int | None: ...
    def narrowed_by_keys(self, ranges: Sequence[QueueRange], keys: set[str]) -> list[QueueRange]: ...
    def batches(
        self,
        one: QueueRange,
        columns: Sequence[str],
        tags: str | None,
        condition: Condition | None,
        *,
        faults: ReadFaults,
        max_batch_bytes: int,
    ) -> Iterator[pa.RecordBatch]: ...


def open_stores(options: SourceOptions) -> Stores:
    """Return the stores that the options of a read name.

    Raises UsageError if this environment cannot speak to brokers.
    """
    if options.network is None:
        return SourceStores(options.stores)
    try:
        from rocketflow.spark.source.network.stores import NetworkStores
    except ImportError as error:
        from rocketflow.errors import UsageError

        raise UsageError(
            f"option namesrvAddr needs the extra broker: pip install 'rocketflow[broker]' ({error})"
        ) from None
    return NetworkStores(options.network)
