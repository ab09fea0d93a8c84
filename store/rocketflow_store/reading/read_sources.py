"""The opened parts of a store that its reads use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocketflow_store.reading.get_message import MessageGetter
from rocketflow_store.reading.message_lookup import MessageLookup
from rocketflow_store.reading.tag_codes import TagCodes
from rocketflow_store.reading.time_search import TimeSearch

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.reading.queue_table import QueueTable
    from rocketflow_store.settings.store_config import StoreConfig
    from rocketflow_store.views.index.index_service import IndexService


@dataclass(frozen=True, slots=True)
class ReadSources:
    """One open of a store: its parts, and the objects that answer gets, look-ups and searches by time from them."""

    config: StoreConfig
    files: MappedFileQueue
    log: CommitLogView
    queues: QueueTable
    index: IndexService
    getter: MessageGetter
    lookup: MessageLookup
    times: TimeSearch
    tag_codes: TagCodes

    @classmethod
    def of(
        cls,
        config: StoreConfig,
        files: MappedFileQueue,
        log: CommitLogView,
        queues: QueueTable,
        index: IndexService,
        log_end: Callable[[], int],
    ) -> Self:
        """Return the reads of these parts; `log_end()` is the physical offset after the last record."""
        codes = TagCodes()
        getter = MessageGetter(log, queues, config, codes, log_end)
        lookup = MessageLookup(log, queues, index, config, log_end)
        return cls(config, files, log, queues, index, getter, lookup, TimeSearch(log, queues, config), codes)
