"""B6: messages of a deleted topic do not return, neither by a rebuild nor under a new topic of the same name."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rocketflow_store import FlushDiskType, Message, MessageStore, StoreReader
from rocketflow_store.format.batch_body import BatchEntry, encode_batch_body
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.errors import StoreConfigError, StoreVersionError
from rocketflow_store.model.message import MessageBatch
from tests.support.disk_layer import CHANGES, Call
from tests.support.side_queues import CONFIG
from tests.support.simulated_disk import SimulatedDisk, State

OLD, NEW, SEED = 40, 5, 7
SYNC = replace(CONFIG, flush_disk_type=FlushDiskType.SYNC_FLUSH)
KINDS = ["t", "batches", "%LMQ%a"]


def put(store: MessageStore, topic: str, word: str, count: int) -> None:
    """Put messages of any of the three kinds, each with its own key and the key `all`."""
    if topic == "batches":
        store.create_topic(topic, 1, queue_type="BatchCQ")
    for number in range(count):
        body, keys = f"{word} {number}".encode(), ["all", f"{word}{number}"]
        if topic == "batches":
            message: Message | MessageBatch = MessageBatch(
                topic, encode_batch_body([BatchEntry(0, body, b""), BatchEntry(1, body, b"")]), queue_id=0
            )
        elif topic == "t":
            message = Message(topic, body, keys=keys, queue_id=number % 2)
        else:
            message = Message("other", body, properties={"INNER_MULTI_DISPATCH": topic}, queue_id=0)
        result = store.put_message(message)
        assert result.stored, result


def bodies(store: MessageStore | StoreReader, topic: str) -> list[bytes]:
    """Return the bodies that the topic's queues serve."""
    found = []
    for queue_id in (0, 1):
        offset, high = store.bounds(topic, queue_id)
        while offset < high:
            got = store.get_message(topic, queue_id, offset)
            found += [one.body for one in got.messages]
            offset = got.next_begin_offset
    return found


def made(path: Path, topic: str) -> None:
    """Create a topic with old messages, and another one with messages before, between and after them."""
    with MessageStore.open(path, SYNC) as store:
        put(store, "kept", "kept", 0)
        store.create_topic("kept", 1)
        for number in range(OLD):
            store.put_message(Message("kept", b"%d" % number, queue_id=0, keys=["all"]))
        put(store, topic, "old", OLD)
        store.config_files.consumer_offsets.commit("g", topic, {0: 3})
        store.config_files.consumer_offsets.commit("g", "kept", {0: 3})


def only_new(path: Path, topic: str, context: str = "") -> None:
    """Check that only messages of the new topic and of the others are served."""
    for opened in (StoreReader(path), MessageStore.open(path, SYNC)):
        with opened as store:
            found = bodies(store, topic)
            assert [one for one in found if b"old" in one] == [], context
            assert len(found) == NEW, (context, found)
            assert store.min_offset(topic, 0) == 0, context
            assert len(bodies(store, "kept")) == OLD, context
            if topic == "t":
                assert {one.body[:3] for one in store.query_message(topic, "all")} == {b"new"}, context
                assert store.query_message(topic, "old3") == [], context


def rebuilt(path: Path, what: str) -> None:
    """Damage `path` so that queues are rebuilt."""
    match what:
        case "nothing":
            pass
        case "queues lost":
            shutil.rmtree(path / "consumequeue")
            shutil.rmtree(path / "batchconsumequeue", ignore_errors=True)
        case "queues lost, no record":
            rebuilt(path, "queues lost")
            (path / "rocketflow" / "stop").unlink()
            (path / "abort").touch()
        case "unclean stop of another writer":
            (path / "abort").touch()
            (path / "checkpoint").unlink()
        case "repair":
            rebuilt(path, "queues lost")
            repair_store(path)
        case "the note's copy alone":
            (path / "rocketflow" / "deleted").write_bytes(b"0\nx")
            rebuilt(path, "queues lost")


@pytest.mark.parametrize("topic", KINDS)
def test_deleted_topic_does_not_return(tmp_path: Path, topic: str) -> None:
    path = tmp_path / "s"
    made(path, topic)
    with MessageStore.open(path, SYNC) as store:
        with StoreReader(path) as reader:
            assert bodies(reader, topic)
            store.delete_topic(topic)
            assert bodies(reader, topic) == bodies(store, topic) == []
            assert reader.bounds(topic, 0) == store.bounds(topic, 0) == (0, 0)
        assert store.config_files.topics.get(topic) is None
        assert {one for one, _ in store.config_files.consumer_offsets.table()} == {"kept"}
        assert not list(path.glob(f"*consumequeue*/{topic}"))
    assert verify_store(path).findings == []
    for what in ("queues lost", "queues lost, no record", "unclean stop of another writer", "repair"):
        copy = tmp_path / "copy"
        shutil.copytree(path, copy)
        rebuilt(copy, what)
        with MessageStore.open(copy, SYNC) as store:
            assert bodies(store, topic) == [], what
            assert len(bodies(store, "kept")) == OLD, what
        assert verify_store(copy).findings == [], what
        shutil.rmtree(copy)


@pytest.mark.parametrize("topic", KINDS)
@pytest.mark.parametrize("when", ["at once", "after a stop"])
def test_deleted_messages_do_not_return_under_a_new_topic_of_that_name(tmp_path: Path, topic: str, when: str) -> None:
    path = tmp_path / "s"
    made(path, topic)
    with MessageStore.open(path, SYNC) as store:
        store.delete_topic(topic)
        if when == "at once":
            put(store, topic, "new", NEW)
    if when != "at once":
        with MessageStore.open(path, SYNC) as store:
            put(store, topic, "new", NEW)
    if topic == "batches":
        return _batches(path, tmp_path)
    only_new(path, topic)
    assert verify_store(path).findings == []
    for what in (
        "queues lost",
        "queues lost, no record",
        "unclean stop of another writer",
        "repair",
        "the note's copy alone",
    ):
        copy = tmp_path / "copy"
        shutil.copytree(path, copy)
        rebuilt(copy, what)
        with MessageStore.open(copy, SYNC):
            pass
        only_new(copy, topic, what)
        assert verify_store(copy).findings == [], what
        shutil.rmtree(copy)
    return None


def _batches(path: Path, tmp_path: Path) -> None:
    for what in ("nothing", "queues lost", "queues lost, no record", "repair"):
        copy = tmp_path / "copy"
        shutil.copytree(path, copy)
        rebuilt(copy, what)
        with MessageStore.open(copy, SYNC) as store:
            assert store.bounds("batches", 0) == (0, 2 * NEW), what
            assert all(b"new" in one and b"old" not in one for one in bodies(store, "batches")), what
        assert verify_store(copy).findings == [], what
        shutil.rmtree(copy)


@pytest.mark.parametrize(("topic", "loss"), [*((kind, "kill") for kind in KINDS), ("t", "power")])
def test_deletion_killed_at_any_step_is_undone_or_completed(tmp_path: Path, topic: str, loss: str) -> None:
    """The topic is complete or deleted; if the note is durable, the next open completes the deletion."""
    print(f"seed {SEED}")
    path = tmp_path / "s"
    made(path, topic)
    images: list[State] = []
    with SimulatedDisk(path) as disk, MessageStore.open(path, SYNC) as store:

        def look(call: Call) -> None:
            if call.kind in CHANGES:
                images.append(disk.freeze())

        disk.on_call = look
        store.delete_topic(topic)
        images.append(disk.freeze())
        disk.on_call = lambda call: None
    assert len(images) > 15
    seen = set()
    middle = random.Random(SEED).sample(range(1, len(images) - 1), 6)
    for number, image in ((at, images[at]) for at in (0, *sorted(middle), len(images) - 1)):
        target = tmp_path / "image"
        if loss == "kill":
            image.kill(target)
        else:
            image.crash(target, number, 0.5)
        with MessageStore.open(target, SYNC) as store:
            found = bodies(store, topic)
            old = [one for one in found if b"old" in one]
            assert len(old) in (0, OLD), (number, len(old))
            seen.add(bool(old))
            listed = store.config_files.topics.get(topic) is not None
            assert topic == "%LMQ%a" or listed == bool(old), number
            assert len(bodies(store, "kept")) == OLD, number
            if not old:
                put(store, topic, "new", NEW)
                assert store.min_offset(topic, 0) == 0, number
                assert len(bodies(store, topic)) == NEW, number
        assert verify_store(target).findings == [], number
        shutil.rmtree(target / "consumequeue")
        with MessageStore.open(target, SYNC) as store:
            again = bodies(store, topic)
            assert len([one for one in again if b"old" in one]) == len(old), number
        shutil.rmtree(target)
    assert loss == "power" or seen == {True, False}


def test_log_that_ends_before_the_floor(tmp_path: Path) -> None:
    """Messages at the place of the lost end belong to the new topic."""
    path = tmp_path / "s"
    made(path, "t")
    with MessageStore.open(path, SYNC) as store:
        store.put_messages([Message("kept", b"x" * 300, queue_id=0) for _ in range(60)])
        store.delete_topic("t")
    sorted((path / "commitlog").iterdir())[-1].unlink()
    with MessageStore.open(path, SYNC) as store:
        put(store, "t", "new", NEW)
        found = bodies(store, "t")
    shutil.rmtree(path / "consumequeue" / "t")
    with MessageStore.open(path, SYNC) as store:
        assert bodies(store, "t") == found
        assert len(found) == NEW


def test_topic_that_another_writer_deleted_starts_empty(tmp_path: Path) -> None:
    """It is neither listed nor has a queue: the next open notes that, so that a new topic starts empty."""
    path = tmp_path / "s"
    made(path, "t")
    (path / "config" / "topics.json").write_text((path / "config" / "topics.json").read_text().replace('"t"', '"u"'))
    shutil.rmtree(path / "consumequeue" / "t")
    with MessageStore.open(path, SYNC):
        pass
    with MessageStore.open(path, SYNC) as store:
        put(store, "t", "new", NEW)
    rebuilt(path, "queues lost")
    only_new(path, "t")


def test_deletion_of_system_topics_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    made(path, "t")
    with MessageStore.open(path, SYNC) as store:
        for name in ("SCHEDULE_TOPIC_XXXX", "rmq_sys_ROCKETFLOW_COMMIT", "../t", ""):
            with pytest.raises(StoreConfigError):
                store.delete_topic(name)
        store.delete_topic("t")
        store.delete_topic("t")
        store.delete_topic("never-there")
    for name in ("deleted", "deleted.bak"):
        (path / "rocketflow" / name).write_bytes(b"nonsense")
    with pytest.raises(StoreVersionError, match="deleted messages would come back"):
        MessageStore.open(path, SYNC)
