"""Entries of many batches are found like those of each single one, and the ids are the same."""

from __future__ import annotations

import random
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow_store import FlushDiskType, Message, MessageStore, StoreConfig
from rocketflow_store.append import put_path
from rocketflow_store.format.batch_body import BatchEntry, encode_batch_body, entry_positions
from rocketflow_store.format.properties import encode_properties
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.message import MessageBatch
from rocketflow_store.model.message_id import offset_msg_id
from rocketflow_store.records.decoding.batch_entries import entry_positions_of
from rocketflow_store.records.encoding.message_ids import offset_msg_ids

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


@pytest.mark.parametrize("host", ["10.1.2.3:10911", "[2001:db8::1]:80"])
def test_ids_of_many_messages_are_those_of_each(host: str) -> None:
    offsets = [0, 1, 255, 0xABCDEF, (1 << 40) + 5, (1 << 63) - 1]
    joined = offset_msg_ids(host, np.array(offsets), np.array([1, 3, 2]))
    ids = [offset_msg_id(host, offset) for offset in offsets]
    assert joined == [ids[0], ",".join(ids[1:4]), ",".join(ids[4:])]


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
def test_batches_in_columns_are_stored_as_one_by_one(
    seed: int, crc: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes of log, queues and index are the same."""
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
    files = []
    for number, many in enumerate((0, 1 << 30)):
        monkeypatch.setattr(put_path, "MANY_MESSAGES", many)
        root = tmp_path / str(number)
        config = StoreConfig(
            mapped_file_size_commit_log=256 << 10,
            mapped_file_size_consume_queue=20 * 50,
            max_message_size=128 << 10,
            enabled_append_prop_crc=crc,
            clock=ManualClock(1_700_000_000_000),
        )
        with MessageStore.open(root, config) as store:
            for requests in runs:
                assert all(result.stored for result in store.put_messages(requests))
        derived = [path for name in ("commitlog", "consumequeue", "index") for path in (root / name).rglob("*")]
        files.append({str(path.relative_to(root)): path.read_bytes() for path in derived if path.is_file()})
    assert len([name for name in files[0] if name.startswith("commitlog")]) > 3
    assert files[0].keys() == files[1].keys()
    assert [name for name, data in files[0].items() if files[1][name] != data] == []


@pytest.mark.parametrize("many", [0, 1 << 30])
def test_entries_without_a_uniq_key_get_one_each(many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(put_path, "MANY_MESSAGES", many)
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
