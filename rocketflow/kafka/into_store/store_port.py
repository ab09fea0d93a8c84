"""The store that a bridge writes to: its lock is taken for the time of one commit, or held between commits."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from rocketflow.kafka.shared.claims import claims_on_store
from rocketflow_store import StoreConfig, StoreReader
from rocketflow_store.spi.commits import last_commit
from rocketflow_store.spi.places import is_store
from rocketflow_store.spi.writing import open_when_free

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from rocketflow.kafka.shared.claims import Claim
    from rocketflow_store import MessageStore
    from rocketflow_store.spi.commits import CommitEnvelope


class StorePort:
    """Opens the store at `path` for commits; StoreLockedError where another writer keeps it for too long.

    A lock that is let go after every commit lets Spark sinks, jobs and other bridges write to the same store. Nothing
    is made or locked before `begin`.
    """

    def __init__(
        self, path: str, config: StoreConfig, *, hold: bool, lock_timeout_ms: int, stop: threading.Event
    ) -> None:
        self._path, self._asked, self._hold = path, config, hold
        self._timeout_s, self._stop = lock_timeout_ms / 1000, stop
        self._held: MessageStore | None = None
        self.config = config
        """Once the store was open as that has it: its files' sizes, and what its records end with."""

    def begin(self) -> None:
        """Make the store where there is none, take its settings, and with `hold` its lock."""
        with self.opened() as store:
            self.config = store.config

    @contextlib.contextmanager
    def opened(self) -> Iterator[MessageStore]:
        """The store, for one commit."""
        store = self._held or self._open()
        if self._hold:
            self._held = store
            yield store
            return
        with store:
            yield store

    def close(self) -> None:
        """Let go of the store."""
        if self._held is not None:
            held, self._held = self._held, None
            held.close()

    def last_commit(self, sink_id: str) -> CommitEnvelope | None:
        """The last commit under an id, without taking the lock."""
        if self._held is not None:
            return last_commit(self._held, sink_id)
        return read_last_commit(self._path, sink_id)

    def claims(self) -> list[Claim]:
        """Return what bridges have copied into the store, without taking the lock."""
        if self._held is not None:
            return claims_on_store(self._held)
        if not is_store(self._path, self._asked):
            return []
        with StoreReader(self._path, self._asked) as reader:
            return claims_on_store(reader)

    def _open(self) -> MessageStore:
        return open_when_free(self._path, self._asked, self._timeout_s, self._stop.wait)


def read_last_commit(path: str, sink_id: str) -> CommitEnvelope | None:
    """The last commit under an id in the store at `path`, None without one (or without a store)."""
    if not is_store(path, StoreConfig.load()):
        return None
    with StoreReader(path, StoreConfig.load()) as reader:
        return last_commit(reader, sink_id)


def config_of(file: str | None) -> StoreConfig:
    """Settings of the environment, of a broker.conf, or the defaults."""
    return StoreConfig.load(file)
