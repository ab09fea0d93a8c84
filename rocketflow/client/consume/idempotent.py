"""Listeners that handle each message once, although RocketMQ may deliver it again.

A message is delivered again after a retry, a rebalance, a lost commit, or a producer that repeated its send. Its key
stays the same: UNIQ_KEY, which the producer made, or what a function of the user returns. The key is remembered
together with the result: in one transaction of a database, where `SqliteKeys` or another implementation of
`ProcessedKeys` passes it to the handler.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Generic, Protocol, Self, TypeVar

from rocketflow.client.errors import ClientError

if TYPE_CHECKING:
    from rocketflow_store.spi.messages import ReceivedMessage

C = TypeVar("C")
C_co = TypeVar("C_co", covariant=True)

_MOST_KEYS: Final = 100_000
_KEEP_SECONDS: Final = 7 * 86_400.0
_FORGET_EVERY: Final = 1000
_BUSY_SECONDS: Final = 60.0

_TABLE: Final = """CREATE TABLE IF NOT EXISTS rocketflow_processed (
    scope TEXT NOT NULL, key TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (scope, key)
) WITHOUT ROWID"""
_INSERT: Final = "INSERT OR IGNORE INTO rocketflow_processed (scope, key, at) VALUES (?, ?, ?)"
_FORGET: Final = "DELETE FROM rocketflow_processed WHERE scope = ? AND at < ?"


class BeingProcessedError(ClientError):
    """Another thread handles a message with the same key now; the message is to be retried later."""


class TransactionEndedError(ClientError):
    """A handler ended the transaction that it was given; the key may be stored without the result, or not at all."""


class ProcessedKeys(Protocol[C_co]):
    """Remembers keys of messages that were handled; `C_co` is what handlers are given, a connection for example."""

    def once(self, key: str, handle: Callable[[C_co], None]) -> bool:
        """Call `handle` and remember the key, both or neither; return False if the key is known, without a call.

        Raises what `handle` raises; the key is not remembered then.
        """


class MemoryKeys:
    """The last keys of this process, up to `most`; a restart forgets them."""

    def __init__(self, most: int = _MOST_KEYS) -> None:
        """Take the limit. Raises ClientError for one below 1."""
        if most < 1:
            raise ClientError(f"most is {most}; at least one key must be remembered")
        self._most = most
        self._lock = threading.Lock()
        self._known: OrderedDict[str, None] = OrderedDict()
        self._running: set[str] = set()

    def once(self, key: str, handle: Callable[[None], None]) -> bool:
        """Call `handle` with None unless the key is known. Raises BeingProcessedError while another thread does so."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return False
            if key in self._running:
                raise BeingProcessedError(f"message {key!r} is handled by another thread now; it is retried later")
            self._running.add(key)
        try:
            handle(None)
            with self._lock:
                self._known[key] = None
                if len(self._known) > self._most:
                    self._known.popitem(last=False)
        finally:
            with self._lock:
                self._running.discard(key)
        return True


class SqliteKeys:
    """Keys in a table of a SQLite database; handlers get its connection, whose transaction has the key.

    What a handler writes with the connection is stored with the key or not at all; it must not commit. Calls of one
    database follow each other, also those of other processes. `scope` is the name of the listener, a consumer group for
    example. Keys are forgotten after `keep_s` seconds: longer than any message is delivered again.
    """

    def __init__(self, path: Path | str, scope: str, *, keep_s: float = _KEEP_SECONDS) -> None:
        """Open the database and create the table if it has none. Raises sqlite3.Error."""
        self._scope = scope
        self._keep_s = keep_s
        self._lock = threading.Lock()
        self._calls = 0
        self._connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        self._connection.execute(_TABLE)

    def once(self, key: str, handle: Callable[[sqlite3.Connection], None]) -> bool:
        """Call `handle` with the connection, in a transaction that stores the key too, unless the key is known.

        Raises sqlite3.Error where the database cannot be written, and TransactionEndedError.
        """
        with self._lock:
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                is_new = connection.execute(_INSERT, (self._scope, key, time.time())).rowcount == 1
                if is_new:
                    handle(connection)
                    if not connection.in_transaction:
                        raise TransactionEndedError(
                            f"the handler of {self._scope!r} ended the transaction of message {key!r}: it must not "
                            "call commit or rollback"
                        )
                    self._forget()
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        return is_new

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def __enter__(self) -> Self:
        """Return the keys."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the database."""
        self.close()

    def _forget(self) -> None:
        """Delete old keys now and then."""
        self._calls += 1
        if self._calls % _FORGET_EVERY == 0:
            self._connection.execute(_FORGET, (self._scope, time.time() - self._keep_s))


def unique_key(message: ReceivedMessage) -> str:
    """Return UNIQ_KEY, or the id of the place where the message was stored first; retries of a message share it."""
    found = message.properties
    return found.get("UNIQ_KEY") or found.get("ORIGIN_MESSAGE_ID") or message.offset_message_id


class Idempotent(Generic[C]):
    """A listener that calls `handle` once for each key.

    `handle` gets a message, and the connection of the transaction, None with `MemoryKeys`. It is a listener of
    `rocketflow.client.sync.PushConsumer`, for an asyncio consumer through `rocketflow.client.sync.bridge.in_thread`; a
    caller of `poll` passes what it got. An exception of `handle` ends the call: the messages before it are known and
    are skipped when all are delivered again.
    """

    def __init__(
        self,
        handle: Callable[[ReceivedMessage, C], None],
        keys: ProcessedKeys[C],
        *,
        key_of: Callable[[ReceivedMessage], str] = unique_key,
    ) -> None:
        self._handle = handle
        self._keys = keys
        self._key_of = key_of

    def __call__(self, messages: Iterable[ReceivedMessage], context: object = None) -> None:
        """Handle those messages that were not handled before. Raises what `handle` raises."""
        for message in messages:
            self._keys.once(self._key_of(message), self._bound(message))

    def _bound(self, message: ReceivedMessage) -> Callable[[C], None]:
        return lambda connection: self._handle(message, connection)
