"""One append to the store for the messages that arrive together.

The append runs in the event loop if the put lock is free and the disk is fast, else in a thread; then messages that
arrive meanwhile wait for it, so that the order stays, and are refused if that takes too long.
RocketMQ's source: broker/latency/BrokerFastFailure.java, broker/processor/SendMessageProcessor.java.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import msgspec

from rocketflow.aio.histogram import Histogram
from rocketflow.aio.server import OVERLOAD, RefusedError
from rocketflow.broker.figures import RUN_BOUNDS
from rocketflow.broker.puts.waiting_puts import WaitingPuts
from rocketflow.remoting.codes import ResponseCode
from rocketflow_store import PutMessageStatus, StoreError

if TYPE_CHECKING:
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow_store import PutMessageResult
    from rocketflow_store.spi.broker import AppendedRun, RawMessage, SentRun, WritingStore

LOG: Final = logging.getLogger("rocketflow.broker")

MAX_RUN: Final = 1_024
MAX_RUN_BYTES: Final = 4 * 1024 * 1024
MAX_OPEN: Final = 10_000
MAX_OPEN_BYTES: Final = 64 * 1024 * 1024
"""Messages that are not answered yet: those that wait, are being written, or wait for a sync."""

SLOW_SECONDS: Final = 0.05
SLOW_FOR_SECONDS: Final = 5.0
"""After an append that took longer than SLOW_SECONDS, appends run in a thread for this time: they cost more there."""

LOOK_SECONDS: Final = 0.01
"""How often the time of an append in the thread is looked at, as often as RocketMQ does."""

PC_SYNCHRONIZED: Final = "[PC_SYNCHRONIZED]broker busy, start flow control for a while"
"""The refusal of a message that arrives while a put holds the put lock longer than osPageCacheBusyTimeOutMills."""

PCBUSY_CLEAN_QUEUE: Final = "[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while"
"""The refusal of a message that waited when the put lock had been held for so long."""

TIMEOUT_CLEAN_QUEUE: Final = "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while"
"""The refusal of a message that waited longer than waitTimeMillsInSendQueue."""

Answer = Callable[["PutMessageResult"], None]
Refuse = Callable[[RefusedError], None]


class Put(msgspec.Struct, frozen=True, eq=False):
    """A message on its way into the store, or several that are stored or refused together.

    `size` is that of their bodies in bytes. Either `answer` is called with the result, or `refuse` with a refusal.
    """

    message: RawMessage | SentRun
    answer: Answer
    refuse: Refuse
    arrived: float
    size: int
    messages: int = 1


class PutGatherer:
    """Collects messages and appends those of one iteration of the loop as one run.

    `sync_timeout_s` is the time that a sync may take with SYNC_FLUSH, None with ASYNC_FLUSH; `wait_limit_s` says
    how long a message may wait now for the append before it, None for any time.
    """

    def __init__(
        self, store: WritingStore, *, sync_timeout_s: float | None, wait_limit_s: Callable[[], float | None]
    ) -> None:
        self._store = store
        self._sync_timeout_s = sync_timeout_s
        self._loop = asyncio.get_running_loop()
        self._wait_limit_s = wait_limit_s
        self._waiting: WaitingPuts[Put] = WaitingPuts()
        self._open = self._open_bytes = 0
        self._scheduled = False
        self._writing = False
        self._lock_was_taken = False
        self._stuck = False
        self._next_look: asyncio.TimerHandle | None = None
        self._slow_until = 0.0
        self._writer = ThreadPoolExecutor(1, "put-writer")
        self._syncer = ThreadPoolExecutor(1, "put-sync")
        self._unsynced: list[tuple[list[Put], AppendedRun]] = []
        self._syncing = False
        self._stopped = False
        self.runs = Histogram(RUN_BOUNDS)
        """Numbers of messages of the runs."""

    @classmethod
    def of(cls, store: WritingStore, settings: BrokerSettings) -> PutGatherer:
        """Return the one of a broker, by its settings and its store's."""
        timeout_s = settings.sync_flush_timeout / 1000 if store.config.sync_flush else None
        return cls(store, sync_timeout_s=timeout_s, wait_limit_s=lambda: settings.send_wait_limit_s)

    def add(self, message: RawMessage, answer: Answer, refuse: Refuse) -> None:
        """Add a message; either `answer` or `refuse` is called, perhaps at once.

        A message is refused with 2 if too many wait for the store, it has waited too long, or an append is stuck, with
        14 if the broker stops or the store fails. One that is in the log when its sync fails or is late, or readers
        cannot see it yet, is answered with FLUSH_DISK_TIMEOUT: it may be there after a restart.
        """
        if not self.has_room:
            refuse(self._refusal())
            return
        self._add(Put(message, answer, refuse, time.monotonic(), len(message.body)))

    def add_together(self, messages: Sequence[RawMessage | SentRun], answer: Answer, refuse: Refuse) -> None:
        """Add messages next to each other, usually of one run; `answer` or `refuse` is called for each, in order.

        They are refused as those of `add`, all of them if one would be.
        """
        if not self.has_room:
            for _ in messages:
                refuse(self._refusal())
            return
        arrived = time.monotonic()
        for one in messages:
            self._add(Put(one, answer, refuse, arrived, one.body_size, one.message_count))

    @property
    def has_room(self) -> bool:
        """Return whether a message is taken now; else it is refused."""
        is_full = self._open >= MAX_OPEN or self._open_bytes >= MAX_OPEN_BYTES
        return not (self._stopped or self._stuck or is_full)

    def add_run(self, run: SentRun, answer: Answer, refuse: Refuse) -> None:
        """Add messages while there is room; `answer` or `refuse` is called once for all of them."""
        self._add(Put(run, answer, refuse, time.monotonic(), run.body_size, run.message_count))

    def _add(self, put: Put) -> None:
        self._waiting.add(put)
        self._open += put.messages
        self._open_bytes += put.size
        if not self._scheduled:
            self._schedule()

    def _refusal(self) -> RefusedError:
        """Return why no message is taken now."""
        if self._stopped:
            return RefusedError(ResponseCode.SERVICE_NOT_AVAILABLE, "the broker stops")
        return RefusedError(ResponseCode.SYSTEM_BUSY, PC_SYNCHRONIZED if self._stuck else OVERLOAD)

    @property
    def waiting_count(self) -> int:
        """Return the number of requests that wait for the store."""
        return len(self._waiting)

    @property
    def waiting_ms(self) -> int:
        """Return how long the first of them has waited, in ms."""
        return int(self._waiting.waited_s(time.monotonic()) * 1000)

    @property
    def is_idle(self) -> bool:
        """Return whether every message has been answered."""
        return not self._open

    async def finish(self, timeout_s: float) -> None:
        """Take no more messages, and wait until all are answered, at most `timeout_s` seconds; then end the threads."""
        self._stopped = True
        end = time.monotonic() + timeout_s
        while not self.is_idle and time.monotonic() < end:  # noqa: ASYNC110 once, at the stop
            await asyncio.sleep(0.01)
        self._writer.shutdown(wait=False)
        self._syncer.shutdown(wait=False)

    def _schedule(self) -> None:
        if self._waiting and not self._scheduled and not self._writing:
            self._scheduled = True
            self._loop.call_soon(self._append)

    def _append(self) -> None:
        self._scheduled = False
        run = self._next_run()
        if not run:
            return
        messages = [one.message for one in run]
        began = time.monotonic()
        if began < self._slow_until:
            self._append_in_thread(run)
            return
        try:
            appended = self._store.try_append(messages)
        except StoreError as error:
            self._fail(run, error)
            self._schedule()
            return
        if appended is None:
            self._append_in_thread(run)
            return
        self._note_duration(time.monotonic() - began)
        self._appended(run, appended)
        self._schedule()

    def _next_run(self) -> list[Put]:
        """Take the messages of the next run; refuse those that have waited too long."""
        self._refuse_waiting(self._waiting.take_late(time.monotonic(), self._wait_limit_s()), TIMEOUT_CLEAN_QUEUE)
        return self._waiting.take_run(MAX_RUN, MAX_RUN_BYTES if self._open_bytes > MAX_RUN_BYTES else None)

    def _refuse_waiting(self, puts: list[Put], why: str) -> None:
        if not puts:
            return
        self._close(puts)
        now = time.monotonic()
        for one in puts:
            waited_ms = int((now - one.arrived) * 1000)
            text = f"{why}, period in queue: {waited_ms}ms, size of queue: {len(self._waiting)}"
            one.refuse(RefusedError(ResponseCode.SYSTEM_BUSY, text))

    def _append_in_thread(self, run: list[Put]) -> None:
        self._writing = True
        self._lock_was_taken = False
        self._next_look = self._loop.call_later(LOOK_SECONDS, self._look)
        messages = [one.message for one in run]
        future = self._loop.run_in_executor(self._writer, self._append_when_free, messages)
        future.add_done_callback(lambda done: self._appended_in_thread(run, done))

    def _look(self) -> None:
        """Refuse what has waited too long for the append in the thread, and everything while a put is stuck."""
        state, now = self._store.put_state(), time.monotonic()
        if self._lock_was_taken:  # what a put takes since then counts, the wait for a commit's lock does not
            self._waiting.lock_was_held(now - state.busy_ms / 1000)
        if state.page_cache_busy and not self._stuck:
            LOG.warning("a put has held the put lock for %d ms; messages are refused meanwhile", state.busy_ms)
        self._stuck = state.page_cache_busy
        limit_s = self._wait_limit_s()
        if self._stuck and limit_s is not None:
            self._refuse_waiting(self._waiting.take_all(), PCBUSY_CLEAN_QUEUE)
        self._refuse_waiting(self._waiting.take_late(now, limit_s), TIMEOUT_CLEAN_QUEUE)
        self._next_look = self._loop.call_later(LOOK_SECONDS, self._look)

    def _append_when_free(self, messages: list[RawMessage | SentRun]) -> tuple[AppendedRun, float | None]:
        """Append in the writer's thread; return the seconds it took, None if the put lock was taken (by a commit)."""
        began = time.monotonic()
        appended = self._store.try_append(messages)
        if appended is None:
            self._lock_was_taken = True
            return self._store.append(messages), None
        return appended, time.monotonic() - began

    def _note_duration(self, seconds: float) -> None:
        """Let further appends run in a thread for a while if one took long."""
        now = time.monotonic()
        if seconds > SLOW_SECONDS:
            if now >= self._slow_until:
                LOG.warning("an append took %.0f ms; appends run in a thread until they are quick", seconds * 1000)
            self._slow_until = now + SLOW_FOR_SECONDS

    def _appended_in_thread(self, run: list[Put], done: asyncio.Future[tuple[AppendedRun, float | None]]) -> None:
        self._writing = self._stuck = False
        if self._next_look is not None:
            self._next_look.cancel()
        error = done.exception()
        if error is None:
            appended, seconds = done.result()
            if seconds is None:
                self._waiting.lock_was_held(time.monotonic())
            else:
                self._note_duration(seconds)
            self._appended(run, appended)
        else:
            self._fail(run, error)
        self._schedule()

    def _appended(self, run: list[Put], appended: AppendedRun) -> None:
        """Publish what was appended and answer, after a sync with SYNC_FLUSH."""
        self.runs.observe(sum([one.message_count for one in appended.results]))
        if self._sync_timeout_s is not None:
            self._unsynced.append((run, appended))
            self._sync()
            return
        why: StoreError | None = None
        try:
            self._store.publish(appended.end)
        except StoreError as error:
            LOG.warning("messages are stored and not visible yet: %s", error)
            why = error
        self._answer([(run, appended)], why, is_late=why is not None)

    def _sync(self) -> None:
        if self._syncing or not self._unsynced or self._sync_timeout_s is None:
            return
        self._syncing = True
        runs, self._unsynced = self._unsynced, []
        end = max(appended.end for _, appended in runs)
        future = self._loop.run_in_executor(self._syncer, self._store.flush_to, end, self._sync_timeout_s)
        future.add_done_callback(lambda done: self._synced(runs, done))

    def _synced(self, runs: list[tuple[list[Put], AppendedRun]], done: asyncio.Future[bool]) -> None:
        self._syncing = False
        error = done.exception()
        is_late = error is not None or not done.result()
        if error is not None:
            LOG.error("messages of %d runs may not be on the disk, or are not visible yet: %s", len(runs), error)
        self._answer(runs, error, is_late=is_late)
        self._sync()

    def _answer(self, runs: list[tuple[list[Put], AppendedRun]], error: BaseException | None, *, is_late: bool) -> None:
        for run, appended in runs:
            self._close(run)
            for one, result in zip(run, appended.results):
                one.answer(_late(result, error) if is_late and result.stored else result)

    def _fail(self, run: list[Put], error: BaseException) -> None:
        LOG.error("%d messages were not stored: %s", sum([one.messages for one in run]), error)
        self._close(run)
        for one in run:
            one.refuse(RefusedError(ResponseCode.SERVICE_NOT_AVAILABLE, str(error)))

    def _close(self, run: list[Put]) -> None:
        """Count messages no more: they are being answered."""
        self._open -= sum([one.messages for one in run])
        self._open_bytes -= sum([one.size for one in run])


def _late(result: PutMessageResult, error: BaseException | None) -> PutMessageResult:
    """Return the result of a message in the log that may not stay there, or that readers do not see."""
    return result._replace(status=PutMessageStatus.FLUSH_DISK_TIMEOUT, why="" if error is None else str(error))
