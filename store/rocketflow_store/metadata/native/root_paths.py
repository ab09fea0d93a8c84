"""Paths of a store's files that are always below its root."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RootPaths:
    """The files of the store at `root`, except for those of the log, the ConsumeQueues and the index."""

    root: Path

    @property
    def batch_consume_queue(self) -> Path:
        return self.root / "batchconsumequeue"

    @property
    def consume_queue_ext(self) -> Path:
        return self.root / "consumequeue_ext"

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def abort(self) -> Path:
        return self.root / "abort"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def consumer_offsets(self) -> tuple[Path, ...]:
        """The files that may hold a group's offsets: of a broker, of one with enableLmq, of a query beside a writer."""
        names = ("consumerOffset.json", "lmqConsumerOffset.json")
        return (*(self.config / one for one in names), self.rocketflow / names[0])

    @property
    def rocketflow(self) -> Path:
        """The directory that only RocketFlow writes: store.meta, the confirmed frontier, staged sink parts."""
        return self.root / "rocketflow"

    @property
    def confirm(self) -> Path:
        return self.rocketflow / "confirm"

    @property
    def meta(self) -> Path:
        return self.rocketflow / "store.meta"

    @property
    def stop_record(self) -> Path:
        return self.rocketflow / "stop"

    @property
    def durable_ends(self) -> Path:
        return self.rocketflow / "ends"

    @property
    def broker_file(self) -> Path:
        """The broker that serves the store."""
        return self.rocketflow / "broker"

    def meta_mark(self) -> int:
        """Return a number that changes with every write of `store.meta`; 0 if it is missing."""
        try:
            return self.meta.stat().st_mtime_ns
        except OSError:
            return 0

    def writer_mark(self) -> int:
        """Return a number that changes with every start and every orderly stop of a writer."""
        try:
            return self.abort.stat().st_mtime_ns
        except OSError:
            return 0

    @property
    def meta_copy(self) -> Path:
        return self.rocketflow / "store.meta.bak"

    @property
    def sinks(self) -> Path:
        return self.rocketflow / "sinks.json"

    @property
    def timer_wheel(self) -> Path:
        return self.root / "timerwheel"

    @property
    def timer_log(self) -> Path:
        return self.root / "timerlog"

    @property
    def timer_check(self) -> Path:
        return self.config / "timercheck"

    @property
    def timer_stop(self) -> Path:
        """The state of the timer's files when RocketFlow left them."""
        return self.rocketflow / "timer"

    @property
    def staging(self) -> Path:
        return self.rocketflow / "staging"

    @property
    def allocating(self) -> Path:
        return self.rocketflow / "tmp"

    @property
    def rocksdb_store(self) -> Path:
        """RocketMQ's database of index, timer and transactions; brokers create an empty one since 5.4.0."""
        return self.root / "rocksdbstore"

    @property
    def quarantine(self) -> Path:
        return self.root / "quarantine"

    @property
    def kept_directories(self) -> tuple[Path, ...]:
        """Directories that a writer writes and never replaces, the root first."""
        return (self.root, self.batch_consume_queue, self.consume_queue_ext, self.config, self.rocketflow)

    @property
    def passing_directories(self) -> tuple[Path, ...]:
        """Directories that a writer writes, and may create later or replace."""
        return (self.timer_log, self.quarantine, self.allocating, self.staging)
