"""A queue whose newest record is damaged after a kill ends where it did, also if its files are rebuilt from the log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from rocketflow_store import Message, MessageStore, StoreReader
from rocketflow_store.rebuild.rebuild import rebuild_store
from rocketflow_store.recovery import recovery
from rocketflow_store.recovery.decide import Step
from tests.support.killed_store import KilledStore, flip_bit
from tests.support.side_queues import CONFIG, QUEUES, SideStore

NEVER = 3_600_000
UNSYNCED = replace(CONFIG, flush_interval_commit_log=NEVER, flush_interval_consume_queue=NEVER)
"""The writer records no end of a queue."""
COUNT = 300


@pytest.fixture(scope="module")
def side(tmp_path_factory: pytest.TempPathFactory) -> tuple[KilledStore, SideStore]:
    """Return a store with queues of every kind that a kill of its writer left, and what it holds."""
    path, found = tmp_path_factory.mktemp("killed") / "s", SideStore({}, {})
    with MessageStore.open(path, UNSYNCED) as store:
        store.create_topic("batches", 2, queue_type="BatchCQ")
        store.create_topic("plain", 1)
        found.put(store, 0, COUNT)
        return KilledStore(path), found


def damage_newest(store: KilledStore, held: SideStore, queue: tuple[str, int]) -> Path:
    """Put the store back, and flip a bit of the record that holds the newest message of `queue`."""
    path, body = store.again(), [body for place, body in held.bodies.items() if place[:2] == queue][-1]
    record = next(one for one in reversed(store.records) if one.body == body)
    flip_bit(path, record.phy_offset + 2, 3)  # its size
    return path


def remove_middle_file(path: Path, queue: tuple[str, int]) -> None:
    """Remove a file of the queue, so that the open rebuilds it."""
    parent = "batchconsumequeue" if queue[0] == "batches" else "consumequeue"
    files = sorted((path / parent / queue[0] / str(queue[1])).iterdir())
    assert len(files) > 2
    files[1].unlink()


def ends(path: Path) -> dict[tuple[str, int], int]:
    with StoreReader(path) as reader:
        return {queue: reader.bounds(*queue)[1] for queue in QUEUES}


@pytest.mark.parametrize("queue", QUEUES, ids=str)
@pytest.mark.parametrize("rebuilt", [False, True])
def test_queue_ends_where_it_did_without_its_newest_record(
    side: tuple[KilledStore, SideStore], queue: tuple[str, int], *, rebuilt: bool
) -> None:
    path = damage_newest(*side, queue)
    if rebuilt:
        remove_middle_file(path, queue)
    with MessageStore.open(path, UNSYNCED) as store:
        assert len(store.recovery.quarantined) == 1
        assert store.recovery.healed == ((f"{queue[0]}/{queue[1]}",) if rebuilt else ())
    assert ends(path) == side[1].ends


@pytest.mark.parametrize("queue", QUEUES, ids=str)
def test_queue_ends_where_it_did_after_a_rebuild_by_command(
    side: tuple[KilledStore, SideStore], queue: tuple[str, int]
) -> None:
    path = damage_newest(*side, queue)
    assert len(rebuild_store(path).damaged) == 1
    MessageStore.open(path, UNSYNCED).close()
    assert ends(path) == side[1].ends


@pytest.mark.parametrize("queue", QUEUES, ids=str)
@pytest.mark.parametrize("rebuilt", [False, True])
@pytest.mark.parametrize("at", [Step.CUT_QUEUES, Step.DISPATCH, Step.KEEP_ENDS, Step.FIT_CHECKPOINT])
def test_queue_ends_where_it_did_if_the_open_was_stopped(
    side: tuple[KilledStore, SideStore],
    queue: tuple[str, int],
    at: Step,
    monkeypatch: pytest.MonkeyPatch,
    *,
    rebuilt: bool,
) -> None:
    def stop(_: object) -> NoReturn:
        raise KeyboardInterrupt

    path = damage_newest(*side, queue)
    if rebuilt:
        remove_middle_file(path, queue)
    with monkeypatch.context() as stopped:
        stopped.setitem(recovery.STEPS, at, stop)
        with pytest.raises(KeyboardInterrupt):
            MessageStore.open(path, UNSYNCED)
    MessageStore.open(path, UNSYNCED).close()
    assert ends(path) == side[1].ends


FILE = 20
"""Units of a queue file."""


@pytest.mark.parametrize(("synced", "later"), [(FILE + 10, 5 * FILE), (2 * FILE, 5 * FILE), (FILE, 0), (5 * FILE, 0)])
def test_queue_that_grew_by_files_since_the_frontier_is_not_rebuilt(tmp_path: Path, synced: int, later: int) -> None:
    with MessageStore.open(tmp_path / "s", UNSYNCED) as store:
        for count in (synced, later):
            for number in range(count):
                store.put_message(Message("plain", b"%d" % number, queue_id=0))
            if count == synced:
                store.flush()
        found = KilledStore(tmp_path / "s")
    with MessageStore.open(found.again(), UNSYNCED) as store:
        assert store.recovery.healed == ()
        assert store.bounds("plain", 0) == (0, synced + later)


def test_queue_is_not_rebuilt_for_a_damaged_record_that_begins_its_newest_file(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", UNSYNCED) as store:
        for number in range(2 * FILE + 1):
            store.put_message(Message("plain", b"%d" % number, queue_id=0))
        store.flush()
        found = KilledStore(tmp_path / "s")
    path, record = found.again(), found.records[-1]
    flip_bit(path, record.phy_offset + 20, 3)  # its queue offset
    with MessageStore.open(path, UNSYNCED) as store:
        assert store.recovery.healed == ()
        assert store.bounds("plain", 0) == (0, 2 * FILE + 1)
