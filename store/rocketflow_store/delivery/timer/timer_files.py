"""The timer's files together: wheel, log and timercheck, from which RocketMQ continues too.

They are derived from the CommitLog. `rocketflow/timer`, which the last clean end of a delivery wrote, stores the CRCs
of all three files and the message up to which they are complete; if they differ from it, they are rebuilt.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from isal.isal_zlib import crc32

from rocketflow_store.delivery.timer.placement import placed
from rocketflow_store.delivery.timer.timer_checkpoint import read_timer_checkpoint, write_timer_checkpoint
from rocketflow_store.delivery.timer.timer_log import TimerLog
from rocketflow_store.delivery.timer.timer_rows import TimerRows
from rocketflow_store.delivery.timer.timer_wheel import TimerWheel
from rocketflow_store.files import os_files
from rocketflow_store.format.timer_checkpoint_layout import TimerCheckpoint
from rocketflow_store.format.timer_layout import DELETE, MAGIC, ROLL, TICKS_OF_A_WHEEL, TIMER_UNIT_SIZE
from rocketflow_store.metadata.native.timer_stop import TimerStop, read_timer_stop, write_timer_stop
from rocketflow_store.model.errors import CorruptRecordError, StoreError
from rocketflow_store.records.arrow.unit_types import TIMER_UNIT_DTYPE
from rocketflow_store.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.settings.store_config import StoreConfig

    Ints = npt.NDArray[np.int64]
    Units = npt.NDArray[np.void]


class TimerFiles:
    """Wheel and log of one store, open for writing; `queue_offset` is the first message after the ones in them."""

    def __init__(self, paths: StorePaths, config: StoreConfig, precision_ms: int) -> None:
        self._paths, self._config = paths, config
        self.precision_ms, self._window = precision_ms, config.timer_roll_window_slot
        self.are_trusted = False
        """True if the files are unchanged since RocketFlow wrote them."""
        self.queue_offset = self.read_ms = self.newest = 0
        self.commit = 0, 0
        """`commits` and `commit` of the TimerStop."""
        self._staged: Path | None = None
        """Directory of a rebuilt log that replaces the old one at the next flush."""
        self.last_logged = -1
        """Queue offset of the newest message in the log, -1 if the log is empty."""
        self._first_logged = -1
        self.wheel, self.log = self._load() or (TimerWheel(self.precision_ms), None)

    log: TimerLog | None
    """None while the files are to be rebuilt."""

    def _load(self) -> tuple[TimerWheel, TimerLog] | None:
        stop = read_timer_stop(self._paths.timer_stop)
        if stop is None or stop.precision_ms != self.precision_ms or self._snapshots():
            return None
        log = None
        try:
            if crc32(read_timer_checkpoint(self._paths.timer_check).encode()) != stop.check_crc:
                return None
            wheel = TimerWheel.load(self._paths.timer_wheel, self.precision_ms)
            if crc32(wheel.octets()) != stop.wheel_crc:
                return None
            log = self._open_log(self._paths.timer_log)
            if log.end != stop.log_end or log.begin > stop.log_begin or log.crc(stop.log_begin) != stop.log_crc:
                log.close()
                return None
        except StoreError:
            if log is not None:
                log.close()
            return None
        self.are_trusted = True
        self.queue_offset, self.read_ms, self.newest = stop.queue_offset, stop.read_ms, stop.newest
        self.commit = stop.commits, stop.commit
        self.last_logged = stop.queue_offset - 1
        return wheel, log

    def _snapshots(self) -> list[Path]:
        """Return the wheels that a broker with timerWheelSnapshotFlush kept: `timerwheel.<position in the log>`."""
        wheel = self._paths.timer_wheel
        return [one for one in wheel.parent.glob(f"{wheel.name}.*") if one.suffix[1:].isdigit()]

    def _open_log(self, directory: Path) -> TimerLog:
        return TimerLog(directory, self._config.mapped_file_size_timer_log, self._paths.allocating)

    # -- rebuild

    def start_rebuild(self, read_ms: int) -> None:
        """Start an empty wheel and log whose first tick is `read_ms`; the old files stay until the next flush."""
        if self.log is not None:
            self.log.close()
        self.are_trusted = False
        if self._paths.timer_stop.exists():
            os_files.remove_file(self._paths.timer_stop)
            os_files.sync_directory(self._paths.timer_stop.parent)
        self.wheel.clear()
        self._staged = self._paths.allocating / "timerlog"
        os_files.remove_tree(self._staged)
        self.log = self._open_log(self._staged)
        self.last_logged = self._first_logged = -1
        self.read_ms = read_ms

    def _swap(self) -> None:
        """Replace the timer log and the wheel by the rebuilt ones.

        A broker that starts during the swap takes in every message from the first waiting one.
        """
        assert self.log is not None
        assert self._staged is not None
        paths = self._paths
        first = self._first_logged if self._first_logged >= 0 else self.queue_offset
        write_timer_checkpoint(paths.timer_check, self._next_version(TimerCheckpoint(self.read_ms, 0, first, first)))
        for snapshot in self._snapshots():  # a broker prefers the newest to the wheel, whatever the log holds
            os_files.remove_file(snapshot)
        if paths.timer_log.is_dir():
            why = "timerlog and timerwheel were rebuilt from the CommitLog"
            events.report(events.HEALED, paths.root, paths.timer_log, why)
            os_files.remove_tree(paths.timer_log)
        self.log.close()
        if self._staged.is_dir():
            os_files.rename(self._staged, paths.timer_log)
        if not paths.allocating.is_dir():
            os_files.make_directory(paths.allocating)
        self.wheel.save_as(paths.allocating / "timerwheel", paths.timer_wheel)
        os_files.sync_directory(paths.root)
        self._staged = None
        self.log = self._open_log(paths.timer_log)

    # -- taking in

    def add(self, rows: TimerRows) -> None:
        """Add messages (in the order of their queue) to wheel and log; messages to roll go to a tick in between."""
        assert self.log is not None
        if len(rows) == 0:
            return
        ticks, written, rolled = placed(rows.due, rows.stored, self.precision_ms, self._window)
        if self._first_logged < 0:
            self._first_logged = int(rows.queue_offsets[0])
        self._append(rows, ticks, written, rolled)

    def _append(self, rows: TimerRows, due: Ints, written: Ints, rolled: npt.NDArray[np.bool_]) -> None:
        assert self.log is not None
        positions = self.log.places(len(rows))
        units = np.zeros(len(rows), TIMER_UNIT_DTYPE)
        units["size"] = TIMER_UNIT_SIZE
        units["magic"] = MAGIC + ROLL * rolled + DELETE * rows.deletes
        units["write_ms"], units["delay_ms"] = written, due - written
        units["phy_offset"], units["msg_size"] = rows.phy_offsets, rows.sizes
        units["topic_hash"] = rows.topic_hashes
        ticks = due // self.precision_ms * self.precision_ms
        units["previous"] = self.wheel.add(ticks, positions, rows.deletes)
        self.log.append(units)
        self.last_logged = int(rows.queue_offsets[-1])

    def add_mark(self, queue_offset: int, phy_offset: int, size: int) -> None:
        """Append a message that does not wait as the newest of the log: RocketMQ reads the queue after that message."""
        if self.read_ms < self.precision_ms or size <= 0:
            return
        one = np.ones(1, np.int64)
        row = TimerRows(
            one * queue_offset, one * phy_offset, one * size, one, one, one, np.zeros(1, bool), np.zeros(1, np.int64)
        )
        tick = one * (self.read_ms - self.precision_ms)
        self._append(row, tick, tick, np.zeros(1, bool))

    # -- what is due

    def due_ticks(self, until_ms: int) -> Iterator[tuple[int, Units]]:
        """Yield (tick, its records in the log, oldest first) of ticks in `[read_ms, until_ms)`."""
        assert self.log is not None
        ticks, slots = self.wheel.find(self.read_ms, until_ms)
        for tick, slot in zip(ticks.tolist(), slots, strict=True):
            first, last, count = int(slot["first"]), int(slot["last"]), int(slot["num"])
            yield tick, self.log.chain(first, last, self.precision_ms, tick, count)

    def waiting(self) -> tuple[Ints, Ints]:
        """Return (ticks in ms, how many messages wait in each, without deletes); any thread may call it."""
        from_ms = self.read_ms
        ticks, slots = self.wheel.find(from_ms, from_ms + TICKS_OF_A_WHEEL * self.precision_ms)
        return ticks, np.maximum(slots["num"], 0).astype(np.int64)

    # -- the end

    def flush(self, read_ms: int, queue_offset: int) -> TimerCheckpoint:
        """Write log, wheel and timercheck, from which RocketMQ or RocketFlow continues; return the timercheck."""
        assert self.log is not None
        self.read_ms, self.queue_offset = read_ms, queue_offset
        self.log.sync()
        if self._staged is not None:
            self._swap()
        else:
            self.wheel.save_changes(self._paths.timer_wheel)
        check = self._next_version(TimerCheckpoint(read_ms, self.log.end, queue_offset, queue_offset))
        write_timer_checkpoint(self._paths.timer_check, check)
        return check

    def mark_trusted(self, check: TimerCheckpoint, newest: int, commit: tuple[int, int]) -> None:
        """Record that the files, as flushed with `check`, can be trusted; `newest` and `commit` as in `TimerStop`."""
        assert self.log is not None
        _, slots = self.wheel.find(self.read_ms, self.read_ms + TICKS_OF_A_WHEEL * self.precision_ms)
        log_begin = min(int(slots["first"].min()), self.log.end) if len(slots) else self.log.end
        stop = TimerStop(
            self.queue_offset,
            self.read_ms,
            self.precision_ms,
            newest,
            *commit,
            log_begin,
            self.log.end,
            crc32(self.wheel.octets()),
            self.log.crc(log_begin),
            crc32(check.encode()),
        )
        write_timer_stop(self._paths.timer_stop, stop)
        self.are_trusted = True

    def _next_version(self, check: TimerCheckpoint) -> TimerCheckpoint:
        try:
            before = read_timer_checkpoint(self._paths.timer_check)
        except CorruptRecordError:
            before = TimerCheckpoint()
        return replace(
            check,
            state_version=before.state_version,
            version_timestamp=self._config.clock.now_ms(),
            version_counter=before.version_counter + 1,
        )

    def expire(self, min_phy_offset: int) -> None:
        """Delete files of the log whose messages all start before `min_phy_offset`, as retention deleted them."""
        if self.log is not None and self._staged is None:
            self.log.expire(min_phy_offset)

    def close(self) -> None:
        """Close the files of the log."""
        if self.log is not None:
            self.log.close()
