"""The store that a bridge writes to, locked for one commit at a time or, with `hold`, until `close`.

A commit to a store that a broker serves goes through the broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rocketflow import store_writes
from rocketflow.kafka.shared.claims import claims_on_store
from rocketflow_store import StoreConfig, StoreReader
from rocketflow_store.spi.commits import StoreCommits, last_commit
from rocketflow_store.spi.places import is_store
from rocketflow_store.spi.writing import open_when_free

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from rocketflow.kafka.shared.claims import Claim
    from rocketflow_store import MessageStore
    from rocketflow_store.spi.commits import CommitEnvelope, Commits

Result = TypeVar("Result")


class StorePort:
    """Commits to the store at `path`; raises StoreLockedError if a process that is no broker holds it for too long.

    Without `hold` the lock is released after every commit, so that Spark sinks, jobs and other bridges can write to the
    same store; a broker may start and stop meanwhile. With `hold` the lock is the bridge's, and a broker that has it is
    in the way. Nothing is created or locked before `begin`.
    """

    def __init__(
        self, path: str, config: StoreConfig, *, hold: bool, lock_timeout_ms: int, stop: threading.Event
    ) -> None:
        self._path, self._asked, self._hold = path, config, hold
        self._patience = store_writes.Patience(lock_timeout_ms / 1000, pause=stop.wait)
        self._held: MessageStore | None = None
        self.config = config
        """The requested settings; after `begin` the store's own, with its file sizes and record format."""

    def begin(self) -> None:
        """Create the store if it is missing, read its settings, and with `hold` keep its lock."""
        if self._hold:
            self._held = open_when_free(self._path, self._asked, self._patience.timeout_s, self._patience.pause)
            self.config = self._held.config
            return
        self.config = store_writes.write(
            self._path, self._asked, lambda store: store.config, lambda _: self._read_config(), self._patience
        )

    def commit(self, action: Callable[[Commits], Result]) -> Result:
        """Return the result of `action`, which commits; it is called again if a broker's answer was lost."""
        if self._held is not None:
            return action(StoreCommits(self._held))
        return store_writes.commit(self._path, self._asked, action, self._patience)

    def close(self) -> None:
        """Close the store if it is held."""
        if self._held is not None:
            held, self._held = self._held, None
            held.close()

    def last_commit(self, sink_id: str) -> CommitEnvelope | None:
        """Return the last commit of a sink id, without taking the lock."""
        if self._held is not None:
            return last_commit(self._held, sink_id)
        return read_last_commit(self._path, sink_id)

    def claims(self) -> list[Claim]:
        """Return the claims of all bridges on the store, without taking the lock."""
        if self._held is not None:
            return claims_on_store(self._held)
        if not is_store(self._path, self._asked):
            return []
        with StoreReader(self._path, self._asked) as reader:
            return claims_on_store(reader)

    def _read_config(self) -> StoreConfig:
        with StoreReader(self._path, self._asked) as reader:
            return reader.config


def read_last_commit(path: str, sink_id: str) -> CommitEnvelope | None:
    """Return the last commit of a sink id in the store at `path`; None without a commit or without a store."""
    if not is_store(path, StoreConfig.load()):
        return None
    with StoreReader(path, StoreConfig.load()) as reader:
        return last_commit(reader, sink_id)


def config_of(file: str | None) -> StoreConfig:
    """Load the settings from a broker.conf, or without one from the environment or the defaults."""
    return StoreConfig.load(file)
