"""The queues of a store, and the queue offsets that may be read."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.files.os_files import access_error, remove_directory, sync_directory
from rocketflow_store.files.sync_together import sync_together
from rocketflow_store.format.consume_queue_unit import UNIT_STRUCT
from rocketflow_store.model.errors import StoreConfigError
from rocketflow_store.model.topic_names import LMQ_PREFIX as LMQ_PREFIX
from rocketflow_store.model.topic_names import is_directory_name
from rocketflow_store.records.arrow.unit_types import UNIT_DTYPE
from rocketflow_store.records.decoding.decode import QueueIdentity
from rocketflow_store.views.queues.consume_queue import ConsumeQueue, lost, pre_blank, written
from rocketflow_store.views.queues.first_kept import first_kept

if TYPE_CHECKING:
    from pathlib import Path

    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.views.queues.consume_queue import Units

_TAIL_BLOCK: Final = 64
_LOOKED_AHEAD: Final = 256


@dataclass(slots=True)
class _Known:
    """Cached state of a queue. Several threads use it at once: each reads one consistent tuple, and stores one."""

    queue: ConsumeQueue
    seen: tuple[int, bytes, int] = (-1, b"", -1)
    """The number after the last unit that was seen to point at its record (-1 before the first look), that unit, and
    the queue's number of changes before the look."""
    low: tuple[int, int, int] = (-1, -1, -1)
    """The first unit that may be read, and the log's begin and the queue's end for which this is valid."""
    promised: int = 0
    """The end that the store's small files promise, if the units end before it."""

    def forget(self) -> None:
        """Drop the cached bounds."""
        self.seen, self.low = (-1, b"", -1), (-1, -1, -1)


class FileQueueTable:
    """The queues in the directories `consumequeue/TOPIC/ID`, with bounds derived from units and log.

    A unit counts if its record is the message of its queue offset: a half written unit of a live writer, and units that
    a crash left after the end, do not count.
    """

    def __init__(
        self,
        directory: Path,
        file_size: int,
        log: CommitLogView,
        *,
        write: bool,
        past_gaps: bool = False,
    ) -> None:
        """Open the queues of `directory`; with `past_gaps` a queue continues after missing units."""
        self._past_gaps = past_gaps
        self._directory, self._file_size, self._log, self._write = directory, file_size, log, write
        self._known: dict[tuple[str, int], _Known] = {}

    def refresh(self) -> None:
        """Look for new queues and for files that were created or deleted."""
        try:
            with os.scandir(self._directory) as topics:
                for topic in topics:
                    if not topic.is_dir():
                        continue
                    with os.scandir(topic.path) as entries:
                        for entry in entries:
                            known = not entry.name.isdigit() or (topic.name, int(entry.name)) in self._known
                            if not known and entry.is_dir():
                                self._know(topic.name, int(entry.name))
        except FileNotFoundError:
            pass
        except NotADirectoryError:
            pass
        except OSError as error:
            raise access_error(self._directory, error) from error

    def add(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return the queue; register it if it is new.

        Raises StoreConfigError for a topic that is not allowed as a directory name.
        """
        found = self._known.get((topic, queue_id))
        if found is not None:
            return found.queue
        if not is_directory_name(topic):
            raise StoreConfigError("topic", topic, "may not be the name of a queue's directory")
        return self._know(topic, queue_id)

    def restore(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Register a queue that had a directory: RocketMQ has another rule for the names of LMQs than `add`."""
        return self._know(topic, queue_id)

    def _know(self, topic: str, queue_id: int) -> ConsumeQueue:
        known = self._known.get((topic, queue_id))
        if known is None:
            directory = self._directory / topic / str(queue_id)
            queue = ConsumeQueue(directory, topic, queue_id, self._file_size, write=self._write)
            known = self._known[topic, queue_id] = _Known(queue)
        return known.queue

    def all(self) -> list[ConsumeQueue]:
        """Return every queue, by topic and id."""
        known = self._known  # replaced when a topic is removed
        return [known[key].queue for key in sorted(known)]

    def names(self) -> list[tuple[str, int]]:
        """Return (topic, queue id) of every queue."""
        return sorted(self._known)

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return the queue, None if it does not exist."""
        known = self._known.get((topic, queue_id))
        return known.queue if known else None

    def expect(self, topic: str, queue_id: int, end: int) -> None:
        """Set the least end of a queue, independent of its units: the store's small files promise it."""
        self._know(topic, queue_id)
        self._known[topic, queue_id].promised = end

    def expect_nothing(self) -> None:
        """Withdraw all ends that `expect` set."""
        for known in self._known.values():
            if known.promised:
                known.promised = 0
                known.forget()

    def end(self, topic: str, queue_id: int, confirm_offset: int | None = None) -> int:
        """Look up the queue offset after the last readable unit.

        Units at or after `confirm_offset` are not readable.
        """
        known = self._known.get((topic, queue_id))
        if known is None:
            return 0
        queue = known.queue
        if not self._write and queue.is_replaced():
            queue.refresh()
            known.forget()
        (seen, last_unit, seen_at), changes = known.seen, queue.changes
        if seen > queue.first_unit:
            if self._write and seen_at == changes and _is_before(last_unit, confirm_offset) and seen >= known.promised:
                return seen  # only this process writes, and it has written nothing since
            tail = queue.units(seen - 1, seen + (_LOOKED_AHEAD if self._past_gaps else 1))
            if tail[:1].tobytes() != last_unit:
                seen = -1
            elif len(tail) > 1 and not written(tail[1:]).any() and seen >= known.promised:
                # the usual case: one read
                known.seen = seen, last_unit, changes
                return seen if confirm_offset is None else self._confirmed(known, seen, confirm_offset)
        else:  # no unit was seen, or its file was deleted meanwhile
            seen = -1
        if seen < 0:
            queue.refresh()
            found = self._end_after_gaps(queue, queue.scan_end())
        else:
            found = self._probe(queue, seen)
            if found % queue.units_per_file == 0:  # the next file may be new
                queue.refresh()
                found = self._probe(queue, found)
        floor = max(seen, queue.first_unit)
        if found > floor:
            found = self._trim(queue, floor, found)
        if found < known.promised:
            queue.refresh()
            reached = self._probe(queue, known.promised)
            found = self._trim(queue, known.promised, reached)
        last_unit = queue.units(found - 1, found).tobytes() if found > queue.first_unit else b""
        known.seen = found, last_unit, changes
        if confirm_offset is None or found == 0:
            return found
        return self._confirmed(known, found, confirm_offset)

    def _probe(self, queue: ConsumeQueue, start: int) -> int:
        return queue.end_past_gaps(start) if self._past_gaps else queue.probe_end(start)

    def _end_after_gaps(self, queue: ConsumeQueue, found: int) -> int:
        """Return `found`, or the end of the units after a gap: a damaged unit does not end its queue."""
        if not self._past_gaps:
            return found
        reached = queue.written_end()
        return max(self._trim(queue, found, reached), found) if reached > found else found

    def _trim(self, queue: ConsumeQueue, floor: int, found: int) -> int:
        """Return the end without last units that their records refute (records that were removed cannot)."""
        identity = QueueIdentity(queue.topic, queue.queue_id, "", exact=not queue.topic.startswith(LMQ_PREFIX))
        if identity.exact and found > floor:  # the usual case, without the cost of columns
            for phy_offset, size, _ in queue.units(found - 1, found).tolist():
                if self._log.holds(phy_offset, size, (queue.topic, queue.queue_id, found - 1)):
                    return found
        block = 1
        while found > floor:
            start = max(found - block, floor)
            units = queue.units(start, found)
            removed = written(units) & (units["phy_offset"] < self._log.min_phy_offset)
            good = np.flatnonzero(removed | self._log.matches(units, start, identity) | pre_blank(units) | lost(units))
            if len(good):
                return start + int(good[-1]) + 1
            found, block = start, min(block * _TAIL_BLOCK, 1 << 16)
        return found

    def _confirmed(self, known: _Known, found: int, confirm_offset: int) -> int:
        queue, block = known.queue, 1
        low = max(queue.first_unit, known.promised)
        while found > low:
            start = max(found - block, low)
            units = queue.units(start, found)
            good = np.flatnonzero((written(units) & (units["phy_offset"] < confirm_offset)) | pre_blank(units))
            if len(good):
                return start + int(good[-1]) + 1
            found, block = start, block * _TAIL_BLOCK
        return found

    def low(self, topic: str, queue_id: int, end: int) -> int:
        """Return the first queue offset before `end` whose record retention left in the log, or `end`.

        Units that fill the space before a queue's first message have no record. A missing or damaged unit neither hides
        the messages before it nor counts as removed.
        """
        known = self._known.get((topic, queue_id))
        if known is None:
            return 0
        queue, floor = known.queue, self._log.min_phy_offset
        low, for_floor, for_end = known.low
        # If no unit remained, the result was the end of that time, which may have moved since.
        if for_floor == floor and queue.first_unit <= low <= end and (low < for_end or end == for_end):
            return low
        queue.refresh()
        while True:
            first = queue.first_unit
            low = first_kept(queue, end, floor)
            if queue.first_unit == first:  # else files were deleted during the search
                break
        known.low = low, floor, end
        return low

    def remove_topic(self, topic: str) -> list[int]:
        """Delete a topic's queues and remove them from the table; return their ids."""
        removed = [key for key in self._known if key[0] == topic]
        destroyed = [self._known[key].queue for key in removed]
        self._known = {key: known for key, known in self._known.items() if key[0] != topic}
        for queue in destroyed:
            queue.destroy()
        return [queue_id for _, queue_id in removed]

    def remove_queue(self, topic: str, queue_id: int) -> None:
        """Delete a queue and remove it from the table."""
        queue = self._known[topic, queue_id].queue
        self._known = {key: known for key, known in self._known.items() if key != (topic, queue_id)}
        queue.destroy()
        with suppress(OSError):  # the topic has other queues, or the directory other files
            remove_directory(self._directory / topic / str(queue_id))
            remove_directory(self._directory / topic)

    def forget_queue(self, topic: str, queue_id: int) -> None:
        """Drop the cached bounds of a queue."""
        known = self._known.get((topic, queue_id))
        if known is not None:
            known.forget()

    def reopen(self) -> None:
        """Look for the files that exist now, and drop all cached bounds."""
        for known in self._known.values():
            known.queue.refresh()
        self.forget()
        self.refresh()

    def forget(self) -> None:
        """Drop all cached bounds."""
        for known in self._known.values():
            known.forget()

    def unsynced(self, least_bytes: int = 0) -> list[ConsumeQueue]:
        """Return the queues with at least `least_bytes` written since their last sync; by topic and id."""
        known = self._known  # replaced when a topic is removed
        keys = sorted(key for key, one in list(known.items()) if one.queue.is_unsynced(least_bytes))
        return [known[key].queue for key in keys]

    def sync(self, least_bytes: int = 0) -> None:
        """Make all queues durable. One thread at a time."""
        sync_together([queue.sync for queue in self.unsynced(least_bytes)])

    def sync_directories(self) -> None:
        """Make the names of queues and files durable."""
        if not self._directory.is_dir():
            return
        created = [queue for queue in self.all() if queue.created]
        for queue in created:  # before the syncs: files that are created meanwhile are left to the next call
            queue.created = False
        topics = {queue.topic: self._directory / queue.topic for queue in created}
        sync_together([partial(sync_directory, topics[one.topic] / str(one.queue_id)) for one in created])
        sync_together([partial(sync_directory, directory) for directory in topics.values()])
        sync_directory(self._directory)

    def last_units(self) -> Units:
        """Return the last unit of every queue that has one, by physical offset; pre-blank ones are skipped."""
        last: list[bytes] = []
        for (topic, queue_id), known in self._known.items():
            if self.end(topic, queue_id) > known.queue.first_unit:
                last.append(known.seen[1])
        units = np.frombuffer(b"".join(last), UNIT_DTYPE)
        return np.sort(units[written(units) & ~pre_blank(units)], order="phy_offset")

    def max_unit_end(self) -> int:
        """Return the greatest physical end of the last units' records of all queues; -1 without units."""
        units = self.last_units()
        ends = units["phy_offset"].astype(np.int64) + units["msg_size"]
        return int(ends.max(initial=-1))

    def close(self) -> None:
        for known in self._known.values():
            known.queue.close()
        self._known.clear()


def _is_before(unit: bytes, confirm_offset: int | None) -> bool:
    """Return True if an encoded unit is written and its record is before `confirm_offset` (None: any is)."""
    phy_offset, size, _ = UNIT_STRUCT.unpack(unit)
    return size > 0 and (confirm_offset is None or phy_offset < confirm_offset)
