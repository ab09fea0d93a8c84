"""Requests and responses of a store that a broker writes through: the wire's bytes in, positions in the log out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rocketflow_store.model.kernel_objects import SentRecords
    from rocketflow_store.model.results import PutMessageResult


class RawMessage(NamedTuple):
    """A message, or a client's batch, as the wire gives it; the property string stays bytes.

    `born_host` has 8 (IPv4) or 20 bytes (IPv6), address and port. A batch (`is_batch`) has the body of
    `format.batch_body`; `properties` are those of the batch and are added to each of its messages. `is_internal` allows
    the topics that only a broker writes to. With `needs` the message is refused unless that many requests directly
    before it are stored in the same run.
    """

    topic: str
    queue_id: int
    body: bytes
    properties: bytes
    flag: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    reconsume_times: int = 0
    prepared_offset: int = 0
    is_batch: bool = False
    is_internal: bool = False
    needs: int = 0

    @property
    def body_size(self) -> int:
        return len(self.body)

    @property
    def message_count(self) -> int:
        return 1


class SentRun(NamedTuple):
    """Messages of one read of a connection, which the kernel has encoded; they are stored, or refused, together."""

    records: SentRecords
    topic: str = ""
    is_batch: bool = False

    @property
    def body_size(self) -> int:
        return self.records.body_size

    @property
    def message_count(self) -> int:
        return self.records.count


class StoredMessage(NamedTuple):
    """A message of the log: what was put, without the record's CRC, and its place."""

    message: RawMessage
    queue_offset: int
    phy_offset: int
    store_ms: int
    store_host: bytes


class AppendedRun(NamedTuple):
    """Results of requests in their order, and the end (exclusive) of the log after them, 0 if none was tried."""

    results: list[PutMessageResult]
    end: int


class PutState(NamedTuple):
    """Reasons for which a put would be refused now; `why` has the text of the first, or is empty."""

    fenced: bool
    full: bool
    closed: bool
    busy_ms: int
    """Time (ms) for which the put that is being appended has held the put lock; 0 if there is none."""
    page_cache_busy: bool
    """True if that is more than osPageCacheBusyTimeOutMills."""
    why: str

    @property
    def refuses(self) -> bool:
        return bool(self.why)


class Arrival(NamedTuple):
    """New messages of one queue that readers see now.

    `tags_codes` holds the tags codes of their units; None if there are too many to list, so that any may be among them.
    """

    topic: str
    queue_id: int
    next_offset: int
    tags_codes: frozenset[int] | None
    newest_store_ms: int
