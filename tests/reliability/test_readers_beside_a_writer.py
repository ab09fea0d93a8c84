"""Row S25: readers race the appender over rolls and remaps and never see a partial or a wrong record."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

from rocketflow_store import GetMessageStatus, Message, MessageStore, StoreConfig, StoreReader
from tests.support.checker import Place, check
from tests.support.results import Tally
from tests.support.trials import FULL, LEVEL, SEED
from tests.support.workload import SMALL, body, number_of

SECONDS = 60.0 if FULL else 6.0 if LEVEL == "fast" else 2.0
MOST = 30_000 if LEVEL != "sample" else 1_500
"""Messages to put: every file of log and queues is open in the writer and in three readers, and a process may have
20,000 descriptors."""
QUEUES = 2

Read = Callable[[int, int], list[tuple[int, bytes]]]
"""(queue, offset) -> (queue offset, body) of each message from that offset on."""


def bulk(reader: StoreReader) -> Read:
    def read(queue: int, offset: int) -> list[tuple[int, bytes]]:
        reader.refresh()
        if queue not in reader.queues("t"):
            return []
        _, end = reader.bounds("t", queue)
        return [
            (row["queueOffset"], row["body"])
            for batch in reader.read("t", queue, min(offset, end), end, columns=["queueOffset", "body"])
            for row in batch.to_pylist()
        ]

    return read


def by_message(source: StoreReader | MessageStore) -> Read:
    def read(queue: int, offset: int) -> list[tuple[int, bytes]]:
        if isinstance(source, StoreReader):
            source.refresh()
        got = source.get_message("t", queue, offset, 32)
        if got.status is not GetMessageStatus.FOUND:
            return []
        found = []
        for message in got.messages:
            by_place = source.look_message_by_offset(message.phy_offset)
            assert by_place is not None
            assert (by_place.body, by_place.queue_offset) == (message.body, message.queue_offset)
            found.append((message.queue_offset, message.body))
        return found

    return read


class Watcher(threading.Thread):
    """Follows the queues, repeatedly from the start or a random offset, until it is stopped, and then to the end."""

    def __init__(self, read: Read, stop: threading.Event, put: list[int], seed: int) -> None:
        super().__init__()
        self._read, self._stop_now, self._put, self._rng = read, stop, put, random.Random(seed)
        self.checked, self.rounds = 0, 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._stop_now.is_set():
                self._follow()
        except BaseException as error:
            self.error = error

    def _follow(self) -> None:
        for queue in range(QUEUES):
            offset = self._rng.choice([0, self._rng.randrange(self._put[0] // QUEUES + 1)])
            while found := self._read(queue, offset):
                assert [one for one, _ in found] == list(range(offset, offset + len(found)))
                # Message n is the n // QUEUES-th of queue n % QUEUES.
                assert [number_of(text) for _, text in found] == [one * QUEUES + queue for one, _ in found]
                offset += len(found)
                self.checked += len(found)
                if self._stop_now.is_set() or self._rng.random() < 0.02:
                    break
        self.rounds += 1


def test_readers_never_see_a_partial_or_wrong_record(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts = tally("S25")
    path = tmp_path / "s"
    acked: dict[int, Place] = {}
    put, stop = [0], threading.Event()
    config = StoreConfig(**SMALL)  # type: ignore[arg-type]
    with MessageStore.open(path, config) as store, StoreReader(path) as one, StoreReader(path) as two:
        store.create_topic("t", QUEUES)
        with StoreReader(path) as three:
            reads = [bulk(one), by_message(two), bulk(three), by_message(store)]
            watchers = [Watcher(read, stop, put, SEED + number) for number, read in enumerate(reads)]
            for watcher in watchers:
                watcher.start()
            end = time.monotonic() + SECONDS
            while all(watcher.is_alive() for watcher in watchers) and (
                time.monotonic() < end or any(watcher.rounds < 2 for watcher in watchers)
            ):
                number = put[0]
                if number == MOST:
                    stop.wait(0.01)
                    continue
                result = store.put_message(Message("t", body(number), queue_id=number % QUEUES))
                assert result.stored
                acked[number] = (result.queue_id, result.queue_offset)
                put[0] += 1
            stop.set()
            for watcher in watchers:
                watcher.join()
    for watcher in watchers:
        if watcher.error is not None:
            raise AssertionError(f"seed {SEED}") from watcher.error
        assert watcher.checked > 0
        assert watcher.rounds > 1
    rolls = len(list((path / "commitlog").iterdir())) - 1
    assert rolls > 5
    verdict = check(path, acked, set(acked))
    for watcher in watchers:
        counts.trial(verdict, f"seed {SEED}: {watcher.checked} messages read over {rolls} rolls")
