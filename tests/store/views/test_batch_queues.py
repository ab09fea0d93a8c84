"""BatchCQ topics, inner batches and LMQs (light message queues): written, read, recovered."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rocketflow_store import GetMessageStatus, Message, MessageStore, PutMessageStatus, StoreConfig, StoreReader
from rocketflow_store.format.batch_body import BatchEntry, decode_batch_body, encode_batch_body, entry_positions
from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.errors import StoreConfigError
from rocketflow_store.model.java_compat import string_hash
from rocketflow_store.model.message import MessageBatch
from rocketflow_store.model.system_flags import INNER_BATCH_FLAG, NEED_UNWRAP_FLAG
from rocketflow_store.records.arrow.unit_types import BATCH_UNIT_DTYPE
from rocketflow_store.views.queues.batch_consume_queue import BatchConsumeQueue
from rocketflow_store.views.queues.consume_queue_ext import ConsumeQueueExt
from tests.support.phases import at_method

SMALL = StoreConfig(
    mapped_file_size_commit_log=64 << 10,
    mapped_file_size_consume_queue=20 * 50,
    mapper_file_size_batch_consume_queue=10 * BATCH_UNIT_SIZE,
    max_hash_slot_num=1000,
    max_index_num=10_000,
)
LMQ = replace(SMALL, enable_lmq=True, enable_multi_dispatch=True)


def body(count: int, first: int = 0) -> bytes:
    return encode_batch_body(
        BatchEntry(number, b"body %d" % number, b"KEYS\x01k%d\x02" % number) for number in range(first, first + count)
    )


def batch(count: int, first: int = 0, **more: object) -> MessageBatch:
    return MessageBatch("t", body(count, first), **{"queue_id": 0, **more})  # type: ignore[arg-type]


def killed(store: MessageStore) -> Path:
    """Copy the directory as a kill would leave it."""
    target = store.path.with_name("killed")
    shutil.copytree(store.path, target)
    return target


# -- the body of a batch


def test_the_example_of_the_specification_is_encoded_and_decoded() -> None:
    wire = bytes.fromhex(
        "00000033000000000000000000000000000000026869001b4b455953016b025741495401747275650254414753015461674102"
    )
    entry = BatchEntry(0, b"hi", b"KEYS\x01k\x02WAIT\x01true\x02TAGS\x01TagA\x02")
    assert encode_batch_body([entry]) == wire
    assert decode_batch_body(wire) == [entry]


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_truncated_batch_body_is_refused(cut: int) -> None:
    whole = body(3)
    if cut in [len(whole) - at for at in entry_positions(whole)]:
        return
    with pytest.raises(ValueError, match=r"entry|bytes after"):
        entry_positions(whole[:-cut])


# -- client batches


def test_a_client_batch_becomes_consecutive_records(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        store.put_message(Message("t", b"before", queue_id=0))
        result = store.put_message(
            batch(
                5, born_host="1.2.3.4:5", sys_flag=0, properties={"CLUSTER": "c", "UNIQ_KEY": "B" * 32, "WAIT": "true"}
            )
        )
        assert (result.status, result.queue_offset, result.message_count) == (PutMessageStatus.PUT_OK, 1, 5)
        ids = result.msg_id.split(",")
        messages = store.get_message("t", 0, 1).messages
        assert [one.msg_id for one in messages] == ids
        assert [one.body for one in messages] == [b"body %d" % number for number in range(5)]
        assert [one.flag for one in messages] == list(range(5))
        assert messages[0].phy_offset == result.physical_offset
        ends = [one.phy_offset + one.store_size for one in messages]
        assert ends[:-1] == [one.phy_offset for one in messages[1:]], "consecutive"
        assert ends[-1] == store.max_phy_offset
        assert {one.properties["CLUSTER"] for one in messages} == {"c"}
        assert len({one.uniq_key for one in messages}) == 5
        assert "B" * 32 not in {one.uniq_key for one in messages}, "each has its own"
        assert {one.born_host for one in messages} == {"1.2.3.4:5"}
        for number, one in enumerate(messages):
            assert [found.queue_offset for found in store.query_message("t", f"k{number}")] == [one.queue_offset]
            assert [found.queue_offset for found in store.query_message("t", one.uniq_key or "")] == [one.queue_offset]
    assert verify_store(tmp_path / "s", SMALL).clean


def test_a_batch_is_stored_in_one_file(tmp_path: Path) -> None:
    size = SMALL.mapped_file_size_commit_log
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        while store.max_phy_offset < 4 * size:
            result = store.put_message(batch(37))
            first = result.physical_offset
            last = store.get_message("t", 0, result.queue_offset + 36).messages[0]
            assert first // size == last.phy_offset // size
        assert store.max_offset("t", 0) % 37 == 0
    assert verify_store(tmp_path / "s", SMALL).clean


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (batch(2, sys_flag=4), "no transaction"),
        (MessageBatch("t", body(2)[:-1], queue_id=0), "not a batch"),
        (MessageBatch("t", b"", queue_id=0), "without messages"),
        (MessageBatch("a b", body(2), queue_id=0), "topic"),
        (batch(2, queue_id=-3), "negative"),
        (MessageBatch("t", encode_batch_body([BatchEntry(0, b"x" * 70_000, b"")]), queue_id=0), "a batch may have"),
        (
            MessageBatch("t", encode_batch_body([BatchEntry(0, b"", b"a\x01" + b"x" * 32_700)] * 1), queue_id=0),
            "a batch has space for",
        ),
    ],
)
def test_a_refused_batch_stores_nothing(bad: MessageBatch, why: str, tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        good, refused, after = store.put_messages([batch(3), bad, batch(3)])
        assert refused.status in (PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED)
        assert why in refused.why
        assert (good.queue_offset, after.queue_offset, store.max_offset("t", 0)) == (0, 3, 6)
        assert after.physical_offset == store.get_message("t", 0, 3).messages[0].phy_offset


def test_properties_without_the_last_separator_are_accepted(tmp_path: Path) -> None:
    """Clients before 5.2 omit it."""
    old = encode_batch_body(
        [BatchEntry(0, b"1", b"TAGS\x01a"), BatchEntry(0, b"2", b""), BatchEntry(0, b"3", b"TAGS\x01b\x02")]
    )
    for crc in (False, True):
        with MessageStore.open(tmp_path / f"{crc}", replace(SMALL, enabled_append_prop_crc=crc)) as store:
            store.put_message(MessageBatch("t", old, {"CLUSTER": "c"}, queue_id=0))
            messages = store.get_message("t", 0, 0).messages
            assert [one.tags for one in messages] == ["a", None, "b"]
            assert all(one.properties["CLUSTER"] == "c" and one.uniq_key for one in messages)
        assert verify_store(tmp_path / f"{crc}").clean


# -- inner batches


def test_a_batch_topic_keeps_a_batch_as_one_record(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        store.create_topic("t", 1, queue_type="BatchCQ")
        offsets, counts = [], [3, 1, 40, 2] * 12
        for number, count in enumerate(counts):
            result = store.put_message(batch(count, first=number))
            assert (result.status, result.message_count) == (PutMessageStatus.PUT_OK, count)
            offsets.append(result.queue_offset)
        single = store.put_message(Message("t", b"single", queue_id=0))
        assert offsets == np.cumsum([0, *counts[:-1]]).tolist()
        assert single.queue_offset == sum(counts)
        assert store.bounds("t", 0) == (0, sum(counts) + 1)
        check_batches(store, counts)
    with StoreReader(tmp_path / "s", SMALL) as reader:
        assert reader.bounds("t", 0) == (0, sum(counts) + 1)
        check_batches(reader, counts)
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        assert store.put_message(batch(7)).queue_offset == sum(counts) + 1
    assert verify_store(tmp_path / "s", SMALL).clean
    assert not (tmp_path / "s" / "consumequeue" / "t").exists()


def check_batches(store: MessageStore | StoreReader, counts: list[int]) -> None:
    base = 0
    for number, count in enumerate(counts):
        for offset in range(base, base + count):
            got = store.get_message("t", 0, offset, 1)
            (message,) = got.messages
            assert got.status is GetMessageStatus.FOUND
            assert got.next_begin_offset == base + count
            assert message.queue_offset == base
            assert message.sys_flag & INNER_BATCH_FLAG
            assert message.sys_flag & NEED_UNWRAP_FLAG
            assert (message.properties["INNER_NUM"], message.properties["INNER_BASE"]) == (str(count), str(base))
            assert message.body == body(count, number)
        base += count
    assert store.get_message("t", 0, base, 1).messages[0].body == b"single"
    assert store.get_message("t", 0, base + 1).status is GetMessageStatus.OFFSET_OVERFLOW_ONE


@pytest.mark.parametrize("batches", [1, 3])
def test_reader_ignores_last_unit_that_its_record_refutes(tmp_path: Path, batches: int) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, SMALL) as store:
        store.create_topic("t", 1, queue_type="BatchCQ")
        for _ in range(batches):
            store.put_message(batch(5))
    file = path / "batchconsumequeue" / "t" / "0" / f"{0:020d}"
    raw = file.read_bytes()
    units = np.frombuffer(raw, BATCH_UNIT_DTYPE).copy()
    units["msg_base_offset"][batches - 1] ^= 1 << 37
    file.write_bytes(units.tobytes())
    with StoreReader(path, SMALL) as reader:  # the writer recorded where the queue ended
        assert reader.bounds("t", 0) == (0, 5 * batches)
        known = [reader.get_message("t", 0, 5 * number).messages[0].queue_offset for number in range(batches - 1)]
        assert known == [5 * number for number in range(batches - 1)]


def test_an_invalid_inner_batch_is_refused(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        store.create_topic("b", 1, queue_type="BatchCQ")
        for message in (
            Message("t", body(2), properties={"INNER_NUM": "2"}, sys_flag=INNER_BATCH_FLAG),
            Message("b", body(2), properties={"INNER_NUM": "2"}),
            Message("b", body(2), sys_flag=INNER_BATCH_FLAG),
            Message("b", body(2), properties={"INNER_NUM": "-1"}, sys_flag=INNER_BATCH_FLAG),
            Message("b", body(2), properties={"INNER_NUM": "32768"}, sys_flag=INNER_BATCH_FLAG),
        ):
            assert store.put_message(message).status is PutMessageStatus.MESSAGE_ILLEGAL
        assert store.max_phy_offset == 0
        store.put_message(Message("t", b"x", queue_id=0))
        with pytest.raises(StoreConfigError):
            store.create_topic("t", queue_type="BatchCQ")


def test_recovery_rebuilds_the_batch_queue_of_a_killed_store(tmp_path: Path) -> None:
    counts = [3, 1, 40, 2] * 12
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        store.create_topic("t", 1, queue_type="BatchCQ")
        for number, count in enumerate(counts[:20]):
            store.put_message(batch(count, first=number))
        store.flush()
        for number, count in enumerate(counts[20:], 20):
            store.put_message(batch(count, first=number))
        store.put_message(Message("t", b"single", queue_id=0))
        path = killed(store)
    files = sorted((path / "batchconsumequeue" / "t" / "0").iterdir())
    assert len(files) == 5
    units = bytearray(files[-1].read_bytes())  # never synced, so it may hold anything
    units[BATCH_UNIT_SIZE + 8 : BATCH_UNIT_SIZE + 12] = (77).to_bytes(4, "big")
    files[-1].write_bytes(units)
    with MessageStore.open(path, SMALL) as store:
        assert store.recovery.abort_found
        check_batches(store, counts)
    shutil.rmtree(path / "batchconsumequeue")
    (path / "abort").touch()
    with MessageStore.open(path, SMALL) as store:
        check_batches(store, counts)


def test_truncating_the_log_truncates_the_batch_queue(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        store.create_topic("t", 1, queue_type="BatchCQ")
        for number in range(15):
            last = store.put_message(batch(4, first=number))
        path = killed(store)
    with next((path / "commitlog").iterdir()).open("r+b") as opened:
        opened.seek(last.physical_offset + 30)
        opened.write(b"torn")
    with MessageStore.open(path, SMALL) as store:
        assert store.bounds("t", 0) == (0, 14 * 4)
        assert store.put_message(batch(2)).queue_offset == 14 * 4
        assert store.get_message("t", 0, 14 * 4 + 1).messages[0].body == body(2)


def test_retention_removes_batch_units_of_removed_records(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        store.create_topic("t", 1, queue_type="BatchCQ")
        for number in range(200):
            store.put_message(batch(30, first=number))
        files = sorted((tmp_path / "s" / "commitlog").iterdir())
        for path in files[:-1]:
            os.utime(path, (1, 1))
        store.clean()
        low, high = store.bounds("t", 0)
        assert high == 200 * 30
        assert 0 < low < high
        first = store.get_message("t", 0, low, 1).messages[0]
        assert first.phy_offset == store.min_phy_offset
        assert store.get_message("t", 0, low - 1).status is GetMessageStatus.OFFSET_TOO_SMALL
        units = len(list((tmp_path / "s" / "batchconsumequeue" / "t" / "0").iterdir()))
        assert units < 20
    with MessageStore.open(tmp_path / "s", replace(SMALL, mapper_file_size_batch_consume_queue=46 * 99)) as store:
        assert store.bounds("t", 0) == (low, high)
        assert store.put_message(batch(1)).queue_offset == high


@pytest.mark.parametrize("nth", [2, 3, 4, 5])
def test_bounds_are_right_while_retention_deletes_files(tmp_path: Path, nth: int) -> None:
    """A file that the first look into the queue found is deleted before the next."""
    queue = BatchConsumeQueue(tmp_path, "t", 0, SMALL.mapper_file_size_batch_consume_queue, write=True)
    units = np.zeros(58, BATCH_UNIT_DTYPE)
    units["phy_offset"], units["msg_size"] = 1000 * np.arange(58), 900
    units["msg_base_offset"], units["batch_size"] = 10 * np.arange(58), 10
    queue.put_bytes(0, units.view(np.uint8).data)
    assert queue.bounds(0) == (0, 580)
    with ThreadPoolExecutor() as threads, at_method(BatchConsumeQueue, "units", nth=nth) as gate:
        looking = threads.submit(queue.bounds, 41_000)
        gate.wait()
        assert len(queue.remove_below(41_000, 0, 0)) == 4
        gate.go()
        assert looking.result(60) == (410, 580) == queue.bounds(41_000)
    queue.close()


# -- LMQs


def test_a_message_gets_a_unit_in_each_of_its_lmqs(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", LMQ) as store:
        for number in range(30):
            names = "%LMQ%a,%LMQ%b" if number % 3 == 0 else "%LMQ%a"
            result = store.put_message(
                Message("t", b"%d" % number, tags="x", properties={"INNER_MULTI_DISPATCH": names}, queue_id=0)
            )
            assert result.queue_offset == number
        check_light(store)
        path = killed(store)
    with StoreReader(tmp_path / "s", LMQ) as reader:
        check_light(reader)
    assert verify_store(tmp_path / "s", LMQ).clean
    shutil.rmtree(path / "consumequeue" / "%LMQ%b")
    (path / "rocketflow" / "confirm").unlink()
    with MessageStore.open(path, LMQ) as store:
        check_light(store)
        store.put_messages(
            [Message("t", b"new", properties={"INNER_MULTI_DISPATCH": "%LMQ%b,%LMQ%b"}, queue_id=0)] * 30
        )
        assert store.max_offset("%LMQ%b", 0) == 10 + 60, "twice in one message, thirty messages in one run"
        assert [one.queue_offset for one in store.get_message("%LMQ%b", 0, 10, 4).messages] == [30, 30, 31, 31]


def check_light(store: MessageStore | StoreReader) -> None:
    assert store.bounds("%LMQ%a", 0) == (0, 30)
    assert store.bounds("%LMQ%b", 0) == (0, 10)
    assert [one.body for one in store.get_message("%LMQ%b", 0, 0).messages] == [b"%d" % n for n in range(0, 30, 3)]
    for one in store.get_message("%LMQ%b", 0, 0).messages:
        number = one.queue_offset
        assert one.properties["INNER_MULTI_QUEUE_OFFSET"] == f"{number},{number // 3}"
    units = store.read_units("%LMQ%a", 0, 0, 30)
    assert set(units["tags_code"].tolist()) == {string_hash("x")}


def test_invalid_lmq_names_get_no_unit(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", replace(LMQ, max_lmq_consume_queue_num=3)) as store:

        def put(names: str) -> str | None:
            result = store.put_message(Message("t", b"x", properties={"INNER_MULTI_DISPATCH": names}, queue_id=0))
            if not result.stored:
                return result.status.name
            message = store.look_message_by_offset(result.physical_offset)
            assert message is not None
            return message.properties.get("INNER_MULTI_QUEUE_OFFSET")

        assert put("plain") is None
        assert put("plain,%LMQ%a") == ",0"
        assert put("%LMQ%../../evil,%LMQ%a") == "0,1"
        assert put("%LMQ%../../evil") == "1"
        assert put("%LMQ%b,%LMQ%c") == "LMQ_CONSUME_QUEUE_NUM_EXCEEDED"
        assert put("%LMQ%b") == "0"
        assert store.topics() == ["%LMQ%a", "%LMQ%b", "t"]


def test_lmqs_get_no_units_by_default(tmp_path: Path) -> None:
    message = Message("t", b"x", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}, queue_id=0)
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        assert store.put_message(message).stored
        assert "INNER_MULTI_QUEUE_OFFSET" not in store.get_message("t", 0, 0).messages[0].properties
    with MessageStore.open(tmp_path / "s", replace(SMALL, enable_lmq=True)) as store:
        assert store.put_message(message).stored
        assert store.topics() == ["t"], "units need enableMultiDispatch too"
    with MessageStore.open(tmp_path / "s", LMQ) as store:
        assert store.put_message(message).stored


# -- ConsumeQueueExt


def test_tags_at_an_ext_address_are_read(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, SMALL) as store:
        for number in range(6):
            store.put_message(Message("t", b"%d" % number, tags="ab"[number % 2], queue_id=0))
    ext = path / "consumequeue_ext" / "t" / "0" / f"{0:020d}"
    ext.parent.mkdir(parents=True)
    units = b"".join(
        (24).to_bytes(2, "big")
        + string_hash("ab"[number % 2]).to_bytes(8, "big", signed=True)
        + (1000 + number).to_bytes(8, "big")
        + (4).to_bytes(2, "big")
        + b"bits"
        for number in range(6)
    )
    ext.write_bytes(units.ljust(SMALL.mapped_file_size_consume_queue_ext, b"\0"))
    queue = path / "consumequeue" / "t" / "0" / f"{0:020d}"
    data = bytearray(queue.read_bytes())
    for number in range(6):
        data[number * 20 + 12 : number * 20 + 20] = (-(1 << 63) + number * 24).to_bytes(8, "big", signed=True)
    queue.write_bytes(data)
    unit = ConsumeQueueExt(path / "consumequeue_ext", SMALL.mapped_file_size_consume_queue_ext).unit(
        "t", 0, -(1 << 63) + 24
    )
    assert unit is not None
    assert (unit.tags_code, unit.store_timestamp, unit.bitmap) == (string_hash("b"), 1001, b"bits")
    with StoreReader(path, SMALL) as reader:
        assert [one.body for one in reader.get_message("t", 0, 0, 32, "b").messages] == [b"1", b"3", b"5"]
        rows = [row for part in reader.read("t", 0, 0, 6, ["body"], tags="a") for row in part["body"].to_pylist()]
        assert rows == [b"0", b"2", b"4"]
        ext.unlink()
    with StoreReader(path, SMALL) as reader:
        assert len(reader.get_message("t", 0, 0, 32, "b").messages) == 6, "a message of unknown tags may match"
