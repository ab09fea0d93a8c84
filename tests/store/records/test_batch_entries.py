"""Entries of batches: found together like those of each single one, and stored as a record each."""

from __future__ import annotations

import random
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow_store import FlushDiskType, Message, MessageStore, StoreConfig
from rocketflow_store.format.batch_body import BatchEntry, decode_batch_body, encode_batch_body, entry_positions
from rocketflow_store.format.properties import encode_properties
from rocketflow_store.format.record import RecordFields, encode_record
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.message import MessageBatch
from rocketflow_store.model.message_id import decode_offset_msg_id, encode_host
from rocketflow_store.records.decoding.batch_entries import entry_positions_of

ENTRIES = st.builds(BatchEntry, st.integers(-(1 << 31), (1 << 31) - 1), st.binary(max_size=40), st.binary(max_size=40))
BODIES = st.one_of(
    st.builds(encode_batch_body, st.lists(ENTRIES, max_size=6)),
    st.builds(lambda entry, count: encode_batch_body([entry] * count), ENTRIES, st.integers(0, 60)),
)


def one_by_one(bodies: list[bytes]) -> list[list[int]] | None:
    try:
        found = [entry_positions(body) for body in bodies]
    except ValueError:
        return None
    return found if all(found) else None


@given(st.lists(BODIES, max_size=6))
def test_entries_of_many_batches_are_found_like_those_of_each(bodies: list[bytes]) -> None:
    together = entry_positions_of(bodies)
    wanted = one_by_one(bodies) if bodies else None
    assert (together and [found.tolist() for found in together]) == wanted


@given(st.lists(BODIES, min_size=1, max_size=4), st.data())
def test_damaged_batches_give_no_false_entries(bodies: list[bytes], data: st.DataObject) -> None:
    """A byte is changed, or bytes move to the next body: never an entry that does not exist."""
    which = data.draw(st.integers(0, len(bodies) - 1))
    body = bytearray(bodies[which])
    if len(bodies) > 1 and data.draw(st.booleans()):
        cut = data.draw(st.integers(0, len(body)))
        following = (which + 1) % len(bodies)
        bodies[following] = bytes(body[cut:]) + bodies[following]
        bodies[which] = bytes(body[:cut])
    elif body:
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
        bodies[which] = bytes(body)
    together = entry_positions_of(bodies)
    assert (together and [found.tolist() for found in together]) == one_by_one(bodies)


def test_an_invalid_batch_among_others_is_refused_alone(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The others of the same put, with bodies of every type, are stored as if put alone."""
    entry = BatchEntry(0, b"body", b"KEYS\x01k\x02")
    whole = [encode_batch_body([entry] * count) for count in (1, 40, 3)]
    odd = [b"", b"xy", whole[1][:-1], bytearray(whole[1]), memoryview(whole[2]), None, "text"]
    for number, one in enumerate(odd):
        requests = [MessageBatch("t", body, queue_id=0) for body in (whole[0], one, whole[1], whole[2], whole[0])]  # type: ignore[arg-type]
        with MessageStore.open(
            tmp_path_factory.mktemp("s"), StoreConfig(flush_disk_type=FlushDiskType.ASYNC_FLUSH)
        ) as store:
            results = store.put_messages([*requests, Message("t", b"last", queue_id=0)])
            counts = [result.message_count if result.stored else 0 for result in results]
            stored = {3: 40, 4: 3}.get(number, 0)
            assert counts == [1, stored, 40, 3, 1, 1], (number, results[1])
            assert [result.queue_offset for result in results if result.stored] == [
                sum(counts[:at]) for at, count in enumerate(counts) if count
            ]
            for result in results:
                ids = result.msg_id.split(",") if result.stored else []
                for at, msg_id in enumerate(ids):
                    found = store.get_message("t", 0, result.queue_offset + at, 1).messages[0]
                    assert found.msg_id == msg_id


@pytest.mark.parametrize("crc", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_every_entry_is_the_record_of_its_message(seed: int, crc: bool, tmp_path: Path) -> None:
    """The bytes in the log are those that the message alone would have; queues and index agree with the log."""
    rng = random.Random(seed)
    keys = count(1)
    texts = ["k", "größe", "a b  c", "x" * 300, "😀"]

    def entry() -> BatchEntry:
        named = {"TAGS": rng.choice(texts), "KEYS": rng.choice(texts), "a": "1", "KEYS2": "k"}
        chosen = {name: named[name] for name in rng.sample(sorted(named), rng.randrange(4))}
        raw = encode_properties({**chosen, "UNIQ_KEY": f"{next(keys):032X}"})
        odd = rng.choice([b"", b"", b"\x01v\x02", b"n\x01\x02", b"\xff\xfe\x01w\x02", b"KEYS\x01again\x02"])
        raw += odd + rng.choice([b"", b"n\x01v"]) * crc  # not closed: with a CRC it always is
        return BatchEntry(rng.randrange(-5, 5), rng.randbytes(rng.choice([0, 1, 200, 5000])), raw)

    def batch() -> MessageBatch:
        entries = [entry() for _ in range(rng.choice([1, 2, 5, 30]))]
        return MessageBatch(
            rng.choice(["t", "u" * 127, "%RETRY%g"]),
            encode_batch_body(entries),
            rng.choice([{}, {"CLUSTER": "c"}]),
            queue_id=rng.randrange(3),
            born_timestamp=5,
            born_host=rng.choice([None, "10.0.0.7:5", "[2001:db8::2]:9"]),
            reconsume_times=rng.randrange(3),
        )

    runs = [[batch() for _ in range(rng.choice([1, 1, 2, 6]))] for _ in range(45)]
    config = StoreConfig(
        mapped_file_size_commit_log=256 << 10,
        mapped_file_size_consume_queue=20 * 50,
        max_message_size=128 << 10,
        enabled_append_prop_crc=crc,
        clock=ManualClock(1_700_000_000_000),
    )
    wanted: list[tuple[int, bytes]] = []
    with MessageStore.open(tmp_path, config) as store:
        for requests in runs:
            for request, result in zip(requests, store.put_messages(requests), strict=True):
                assert result.stored
                places = [decode_offset_msg_id(one)[1] for one in result.msg_id.split(",")]
                for number, (entry, place) in enumerate(zip(decode_batch_body(request.body), places, strict=True)):
                    fields = fields_of(request, entry, crc)
                    offset = result.queue_offset + number
                    wanted.append((place, encode_record(fields, place, offset, 1_700_000_000_000, crc)))
    files = sorted((tmp_path / "commitlog").iterdir())
    log = b"".join(one.read_bytes() for one in files)
    assert [place for place, record in wanted if log[place : place + len(record)] != record] == []
    assert len(files) > 3
    report = verify_store(tmp_path, config)
    assert report.findings == []


def fields_of(batch: MessageBatch, entry: BatchEntry, crc: bool) -> RecordFields:
    """Return the record of an entry."""
    suffix = encode_properties(batch.properties)
    closed = entry.properties.endswith(b"\x02") or not (suffix or crc)
    return RecordFields(
        topic=batch.topic.encode(),
        queue_id=batch.queue_id,
        body=entry.body,
        properties=entry.properties + (b"" if closed else b"\x02") + suffix,
        flag=entry.flag,
        sys_flag=batch.sys_flag,
        born_timestamp=5,
        born_host=encode_host(batch.born_host or "127.0.0.1:10911"),
        store_host=encode_host("127.0.0.1:10911"),
        reconsume_times=batch.reconsume_times,
    )


def test_entries_without_a_uniq_key_get_one_each(tmp_path: Path) -> None:
    own = [b"", b"a\x01b", b"XUNIQ_KEY\x01no\x02", b"UNIQ_KEY\x01mine\x02", b"a\x01b\x02UNIQ_KEY\x01mine too"]
    body = encode_batch_body([BatchEntry(0, b"body", properties) for properties in own])
    with MessageStore.open(tmp_path / "s", StoreConfig()) as store:
        store.put_message(MessageBatch("t", body, {"CLUSTER": "c"}, queue_id=0))
        found = [one.properties for one in store.get_message("t", 0, 0, 10).messages]
        assert [one["CLUSTER"] for one in found] == ["c"] * len(own)
        assert [one.get("a") for one in found] == [None, "b", None, None, "b"]
        keys = [one["UNIQ_KEY"] for one in found]
        assert keys[3:] == ["mine", "mine too"]
        assert len(set(keys)) == len(keys)
        for offset, key in enumerate(keys):
            assert [one.queue_offset for one in store.query_message("t", key)] == [offset]
