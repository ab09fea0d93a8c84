"""Queries by key where slots of an index file, or links between its entries, are damaged: the answer stays complete."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from rocketflow.cli.app import run
from rocketflow_store import Message, MessageStore, SkipFaults, StoreConfig, StoreReader
from rocketflow_store.format.index_layout import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE
from rocketflow_store.model.java_compat import index_hash
from rocketflow_store.reading.skipped import SkippedMessages

CONFIG = StoreConfig(max_hash_slot_num=16, max_index_num=64, message_index_enable=True)
KEYS = ("a", "b", "c")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with MessageStore.open(tmp_path / "s", CONFIG) as opened:
        for number in range(12):
            opened.put_message(Message("t", b"%d" % number, keys=[KEYS[number % 3]]))
    return tmp_path / "s"


def found(path: Path, key: str) -> list[bytes]:
    with StoreReader(path) as reader:
        return [one.body for one in reader.query_message("t", key)]


def damage(path: Path, position: int, value: int) -> None:
    (file,) = (path / "index").iterdir()
    with file.open("r+b") as opened:
        opened.seek(position)
        opened.write(struct.pack(">i", value))


@pytest.mark.parametrize("value", [0, -1, 63, 64, 1 << 30, -(1 << 31), "of another slot"])
def test_wrong_slot_hides_no_message(store: Path, value: int | str) -> None:
    slot = index_hash("t", "a") % 16
    if isinstance(value, str):  # the newest entry, of the last message's key c
        assert index_hash("t", "c") % 16 != slot
        value = 24
    damage(store, HEADER_SIZE + SLOT_SIZE * slot, value)
    assert found(store, "a") == [b"0", b"3", b"6", b"9"]


@pytest.mark.parametrize("value", [-1, 64, 1 << 30, "itself", "a newer one"])
def test_wrong_link_hides_no_message(store: Path, value: int | str) -> None:
    entry = 2 * 7  # the entry of message 6 with key a: one for its UNIQ_KEY, one for its key
    number = {"itself": entry, "a newer one": 2 * 10}.get(value, value) if isinstance(value, str) else value
    assert isinstance(number, int)
    damage(store, HEADER_SIZE + SLOT_SIZE * 16 + ENTRY_SIZE * entry + 16, number)
    assert found(store, "a") == [b"0", b"3", b"6", b"9"]


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, struct.pack(">i", 12345)), (4, struct.pack(">q", 1 << 50)), (0, bytes(ENTRY_SIZE))],
    ids=["hash", "place", "zeroed"],
)
def test_damaged_entry_is_reported(store: Path, at: int, value: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    entry = 2 * 7  # of message 6, as above
    (file,) = (store / "index").iterdir()
    with file.open("r+b") as opened:
        opened.seek(HEADER_SIZE + SLOT_SIZE * 16 + ENTRY_SIZE * entry + at)
        opened.write(value)
    with StoreReader(store) as reader:
        skipped: list[SkippedMessages] = []
        got = [one.body for one in reader.query_message("t", "a", faults=SkipFaults(skipped.append))]
        assert got == [b"0", b"3", b"9"]
        assert f"entry {entry}: " in skipped[0].why
    assert run(["store", "find", str(store), "--topic", "t", "--key", "a"]) == 3
    assert f"entry {entry}: " in capsys.readouterr().err


@pytest.mark.parametrize("name", ["begin", "end", "count", "count 0"])
def test_damaged_header_hides_no_message(store: Path, name: str) -> None:
    at, value = {"begin": (0, 0x80), "end": (8, 0x80), "count": (39, 5), "count 0": (39, 0)}[name]
    (file,) = (store / "index").iterdir()
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(bytes([value]))
    assert found(store, "a") == [b"0", b"3", b"6", b"9"]
    with StoreReader(store) as reader:
        (last,) = reader.query_message("t", "a", 1)
        window = last.store_timestamp - 5000, last.store_timestamp
        assert [one.body for one in reader.query_message("t", "a", 32, *window)][-1] == b"9"


def test_record_that_claims_the_place_of_another_is_skipped_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = StoreConfig(max_hash_slot_num=16, max_index_num=64, enabled_append_prop_crc=False)
    with MessageStore.open(tmp_path / "s", plain) as opened:
        places = [
            opened.put_message(Message("t", b"%d" % number, keys=["k"], queue_id=0)).physical_offset
            for number in range(6)
        ]
    (log,) = (tmp_path / "s" / "commitlog").iterdir()
    for offset in (3, 1 << 40):  # of another message, and of none
        with log.open("r+b") as opened_file:
            opened_file.seek(places[2] + 20)
            opened_file.write(struct.pack(">q", offset))
        with StoreReader(tmp_path / "s") as reader:
            skipped: list[SkippedMessages] = []
            got = reader.query_message("t", "k", faults=SkipFaults(skipped.append))
            assert [(one.queue_offset, one.body) for one in got] == [(n, b"%d" % n) for n in (0, 1, 3, 4, 5)]
            assert [one.phy_offset for one in skipped] == [places[2]]
        assert run(["store", "find", str(tmp_path / "s"), "--topic", "t", "--key", "k"]) == 3
        assert f"physical offset {places[2]}" in capsys.readouterr().err
