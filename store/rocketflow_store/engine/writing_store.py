"""The store of a broker: a `MessageStore` with calls that take and give the wire's bytes."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rocketflow_store.append.record_run import MAX_RUN_BYTES, MAX_RUN_MESSAGES
from rocketflow_store.engine.broker_tables import BrokerGroups, BrokerOffsets, BrokerTopics
from rocketflow_store.engine.message_store import MessageStore
from rocketflow_store.files import os_files
from rocketflow_store.metadata.config_files.plain_json_file import PlainJsonFile
from rocketflow_store.metadata.native.broker_file import BrokerFile, write_broker_file
from rocketflow_store.model.errors import StoreConfigError, StoreError
from rocketflow_store.model.message_id import encode_host
from rocketflow_store.reading.checked_read import ANY_MESSAGE, CheckedReader
from rocketflow_store.reading.queue_figures import stored_at
from rocketflow_store.reading.raw_ranges import read_raw_range
from rocketflow_store.reading.raw_records import query_records, read_record
from rocketflow_store.records.arrow.unit_types import UNIT_DTYPE
from rocketflow_store.records.encoding.sent_frames import send_frames
from rocketflow_store.telemetry import events
from rocketflow_store.views.dispatch.arrivals import arrivals_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rocketflow_store.model.broker_requests import AppendedRun, Arrival, PutState, RawMessage, SentRun
    from rocketflow_store.model.kernel_objects import SendFrames
    from rocketflow_store.reading.checked_read import Match, ReadResult
    from rocketflow_store.reading.raw_ranges import RawRange
    from rocketflow_store.reading.raw_records import QueryResult
    from rocketflow_store.settings.store_config import StoreConfig
    from rocketflow_store.views.dispatch.confirmed_dispatch import Dispatched

    OnArrival = Callable[[Callable[[], Sequence[Arrival]]], None]
    """Called after a dispatch; what it gets returns the queues that have new messages."""


class WritingStore(MessageStore):
    """A store open for writing, for a broker: append, sync and publish are three calls.

    All methods may be called from any thread. Calls that may wait for the disk or for another thread say so.
    """

    def __init__(self, path: Path, config: StoreConfig) -> None:
        self._serving = False
        super().__init__(path, config)
        reads, log_end = self._reads, lambda: self.max_phy_offset
        self._checked = CheckedReader(reads.log, reads.queues, reads.config, reads.tag_codes, log_end)
        files = self.config_files
        try:
            self.offset_table = BrokerOffsets(
                files.lmq_consumer_offsets if config.enable_lmq else files.consumer_offsets, reads.queues.bounds
            )
        except BaseException:
            self.close()
            raise
        self.topic_table = BrokerTopics(files.topics, self._admin, lambda: self._writing.puts.lock, self.delete_topic)
        self.group_table = BrokerGroups(files.subscription_groups)

    def serve_at(self, address: str, *, tls: bool = False, secret: str = "") -> None:
        """Let jobs that find the store locked know that a broker serves it at `address` ("host:port"). Blocks.

        With `tls` it takes connections with TLS only. Jobs sign their requests with `secret`, which only the broker's
        user can read.
        """
        broker = BrokerFile(address, os.getpid(), self.meta.store_id, tls, secret)
        write_broker_file(self.paths.broker_file, broker)
        self._serving = True

    def close(self) -> None:
        """Close as `MessageStore.close`; the store is no longer served."""
        if self._serving:
            self._serving = False
            with contextlib.suppress(StoreError):  # a file that remains is recognised: no broker answers
                os_files.remove_file(self.paths.broker_file)
        super().close()

    def json_file(self, name: str) -> PlainJsonFile:
        """Return a file of `config/` that the store keeps for the broker, such as consumerFilter.json.

        Raises:
            StoreConfigError: The store keeps no file of that name.
        """
        return PlainJsonFile(self.paths.config, name, self.config.clock)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic as `MessageStore.delete_topic` does, and the offsets of its groups. Blocks."""
        super().delete_topic(topic)
        self.offset_table.delete_topic(topic)

    def notify_arrivals(self, on_arrival: OnArrival | None) -> None:
        """Call `on_arrival` after each dispatched run, whichever writer put it; None ends the calls.

        Its argument returns the queues of the run: to find them takes longer than the call.
        It runs in the thread that dispatched: the caller of `publish`, a thread that syncs, a sink's commit, a
        delivery. It must return fast and call no method of the store that writes. Calls of different threads may come
        in another order than the messages of a queue: the highest `next_offset` counts. An error that it raises is
        reported as an event.
        """
        if on_arrival is None:
            self._dispatch.on_dispatched = None
            return
        path, failing = self.path, False

        def notify(rows: Sequence[Dispatched]) -> None:
            nonlocal failing
            try:
                on_arrival(partial(arrivals_of, rows))
                failing = False
            except Exception as error:
                events.report(events.SERVICE_HELD, path, "arrivals", repr(error), quietly=failing)
                failing = True

        self._dispatch.on_dispatched = notify

    # -- putting

    def send_frames(
        self,
        added: bytes,
        answers: tuple[tuple[bytes, ...], tuple[bytes, ...]],
        max_frame: int,
        max_ends: tuple[int, int],
    ) -> SendFrames | None:
        """Return what takes the frames of usual sends and ends of transactions, None without the kernel.

        `added` ends the properties of each message; `answers` are the parts of an answer's header between its values,
        in JSON and in ROCKETMQ's own form. At most `max_ends` (half messages, bytes of the bodies that are committed)
        are ended at once.
        """
        return send_frames(self.config, added, answers, max_frame, (MAX_RUN_MESSAGES, MAX_RUN_BYTES), max_ends)

    def try_append(self, requests: Sequence[RawMessage | SentRun]) -> AppendedRun | None:
        """Append requests in order, as runs with one write each; return None if the put lock is taken.

        A refused request has a result with the status of the refusal, and the others are stored. A batch becomes
        consecutive records in one queue, with one result. Delay levels and timer properties change topic and queue as
        in `put_message`. Nothing is visible to readers before `publish`, and nothing is durable before `flush_to`.
        Does not wait for other threads; the write into the page cache takes time if the kernel throttles it.

        Raises:
            StoreClosedError: The store is closed.
        """
        self.check_open()
        return self._writing.raw.try_append(requests)

    def append(self, requests: Sequence[RawMessage | SentRun]) -> AppendedRun:
        """Append requests as `try_append` does, after waiting for the put lock (held during a sink's commit).

        All are refused with OS_PAGE_CACHE_BUSY if a put has held it for longer than osPageCacheBusyTimeOutMills.
        """
        self.check_open()
        return self._writing.raw.append(requests)

    def flush_to(self, end: int, timeout_s: float) -> bool:
        """Sync the log up to the offset `end`; return False after `timeout_s`. Blocks; callers share a sync.

        With SYNC_FLUSH the records are also visible to readers when this returns True.

        Raises:
            StoreFencedError: The sync failed; no later one is attempted.
            StoreError: The records are durable, but their dispatch failed (see `publish`).
        """
        self.check_open()
        return self._writing.raw.flush_to(end, timeout_s)

    def publish(self, end: int) -> None:
        """Write the queue units and index entries of appended records before `end`, and let readers see them.

        With SYNC_FLUSH this covers records that `flush_to` has synced. Waits if another thread is dispatching.

        Raises:
            StoreError: The dispatch failed (a full disk, say); the records stay pending, and the next call retries.
        """
        self.check_open()
        self._writing.raw.publish(end)

    def put_state(self) -> PutState:
        """Return whether a put would be refused now, and why; does not block."""
        return self._writing.raw.state()

    # -- reading

    def read_messages(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        *,
        match: Match | None = None,
        nowait: bool = False,
    ) -> ReadResult:
        """Read up to `max_count` messages and `max_bytes` of a queue from `offset`, as a private copy of their records.

        RocketMQ's statuses and transfer limits apply; the first message is returned whatever its size. Each record is
        checked in the copy (its lengths, that it is the message of its unit, its CRC); one that is damaged is skipped,
        named in the result, and reported as an event. `match` selects by tags code and by the property string.
        Waits for the disk, unless `nowait` is set.

        Raises:
            WouldBlockError: With `nowait`, the first record is not in the page cache.
        """
        self.check_open()
        began_ns = time.perf_counter_ns()
        wanted = ANY_MESSAGE if match is None else match
        result = self._checked.read(topic, queue_id, offset, max_count, max_bytes, wanted, nowait=nowait)
        self._statistics.got(result.count, time.perf_counter_ns() - began_ns)
        return result

    def read_range(self, topic: str, queue_id: int, start: int, end: int, max_bytes: int) -> RawRange:
        """Read the records of the first queue offsets of [start, end), many at once; their CRC is not checked.

        See `read_raw_range`. Waits for the disk.
        """
        self.check_open()
        reads = self._reads
        return read_raw_range(reads.log, reads.queues, reads.config, (topic, queue_id), (start, end), max_bytes)

    def read_record(self, phy_offset: int, *, nowait: bool = False) -> bytes | None:
        """Return the record that begins at `phy_offset`, checked, or None if no record of the log does.

        Bytes in the body of another record are no record, whatever they look like: a unit or the log before them has to
        prove where they begin, which may wait for the disk even with `nowait`.

        Raises:
            WouldBlockError: With `nowait`, the record is not in the page cache.
        """
        self.check_open()
        return read_record(self._reads, phy_offset, nowait=nowait)

    def query_records(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, max_bytes: int
    ) -> QueryResult:
        """Return records of `topic` with `key` among KEYS or as UNIQ_KEY, stored within [begin_ms, end_ms].

        As in RocketMQ's answers, some stored within the second after `end_ms` may be among them: the index has whole
        seconds. At most `max_count` and `max_bytes`, the first whatever its size. Waits for the disk.
        """
        self.check_open()
        return query_records(self._reads, topic, key, max_count, (begin_ms, end_ms), max_bytes)

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return the (min, max) queue offsets that readers see; (0, 0) for a queue that does not exist."""
        self.check_open()
        return self._reads.queues.bounds(topic, queue_id)

    def ends(self, topic: str, queues: int) -> list[int]:
        """Return the max queue offsets of the queues `[0, queues)` that readers see; 0 for one that does not exist."""
        self.check_open()
        views, confirmed = self._parts.views, self._dispatch.confirm_offset
        if views.batch_queues.find(topic, 0) is not None:
            return [self.bounds(topic, one)[1] for one in range(queues)]
        end = views.queues.end
        return [end(topic, one, confirmed) for one in range(queues)]

    def stored_times(self, topic: str, offsets: Mapping[int, int]) -> dict[int, int]:
        """Return the store time (ms) of one message of each queue; `offsets` are queue offsets by queue id.

        Queues whose message cannot be read are omitted. Waits for the disk.
        """
        self.check_open()
        found, rows, units = {}, [], []
        for queue_id, offset in offsets.items():
            queue = self._reads.queues.find(topic, queue_id)
            if queue is None:  # of a BatchCQ topic, or none
                time_ms = stored_at(self, topic, queue_id, offset)
                if time_ms is not None:
                    found[queue_id] = time_ms
            elif offset >= queue.first_unit:
                with contextlib.suppress(StoreError):
                    unit = queue.units(offset, offset + 1).tobytes()
                    if unit:
                        rows.append(queue_id)
                        units.append(unit)
        if units:
            times = self._reads.log.store_timestamps(np.frombuffer(b"".join(units), UNIT_DTYPE)).tolist()
            found.update((queue_id, time_ms) for queue_id, time_ms in zip(rows, times) if time_ms >= 0)
        return found

    def earliest_store_ms(self) -> int | None:
        """Return when the first record of the log was stored (ms), None without one. Waits for the disk."""
        self.check_open()
        first = self.min_phy_offset
        return self._reads.log.store_timestamp_at(first) if first < self.max_phy_offset else None

    def appended_end(self, topic: str, queue_id: int) -> int:
        """Return the offset that the queue's next message gets; appended messages count before they are visible."""
        self.check_open()
        return self._parts.offsets.next(topic, queue_id)


def open_store(
    path: str | os.PathLike[str], config: StoreConfig, *, store_host: str, on_arrival: OnArrival | None = None
) -> WritingStore:
    """Open the store at `path` for a broker whose clients reach it at `store_host` ("ip:port"); blocks.

    Message ids carry `store_host`. `on_arrival` is called from now on: see `WritingStore.notify_arrivals`.

    Raises:
        StoreConfigError: `store_host` is not an IP address with a port.
        StoreLockedError: Another process writes to the store.
    """
    try:
        encode_host(store_host)
    except ValueError as error:
        raise StoreConfigError(
            "storeHost", store_host, "must be ip:port, the address at which clients reach it"
        ) from error
    store = WritingStore(Path(path).absolute(), replace(config, store_host=store_host))
    store.notify_arrivals(on_arrival)
    return store
