"""Ids of messages and clients."""

from __future__ import annotations

import os
import struct
import time
from datetime import datetime

import pytest

from rocketflow.client.ids import make_client_id, unique_keys
from rocketflow_store import InvalidMessageIdError
from rocketflow_store.spi.ids import UniqKeyGenerator, decode_offset_msg_id


def test_a_unique_key_holds_address_process_and_the_time_in_the_month() -> None:
    keys = unique_keys()
    now = datetime.now().astimezone()
    key = keys.next()
    data = bytes.fromhex(key)
    assert len(key) == 32
    assert key == key.upper()
    assert int.from_bytes(data[4:6], "big") == os.getpid() & 0xFFFF
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0).replace(tzinfo=None).timestamp()
    assert abs(month + int.from_bytes(data[10:14], "big") / 1000 - time.time()) < 2


def test_keys_of_a_new_month_hold_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    december = time.mktime((2026, 12, 1, 0, 0, 0, 0, 0, -1))
    now = december - 0.5
    monkeypatch.setattr(time, "time", lambda: now)
    keys = UniqKeyGenerator()
    keys.take(3)
    now = december + 2
    assert [int(one[20:28], 16) for one in keys.take(2)] == [2000, 2000]


def test_unique_keys_differ() -> None:
    first, second = UniqKeyGenerator(), UniqKeyGenerator()
    assert len({first.next() for _ in range(5000)} | {second.next() for _ in range(5000)}) == 10_000


@pytest.mark.parametrize(
    ("host", "address"), [(bytes([10, 0, 0, 7]), "10.0.0.7:10911"), (bytes(15) + b"\x01", "[::1]:10911")]
)
def test_an_offset_id_names_its_place(host: bytes, address: str) -> None:
    found = decode_offset_msg_id((host + struct.pack(">iq", 10911, 2**40 + 5)).hex().upper())
    assert found == (address, 2**40 + 5)


@pytest.mark.parametrize("text", ["", "zz", "0A", "0" * 30, "0" * 58])
def test_another_text_is_no_offset_id(text: str) -> None:
    with pytest.raises(InvalidMessageIdError, match="is not a message id"):
        decode_offset_msg_id(text)


def test_client_ids_are_unique_unless_they_have_a_name() -> None:
    assert make_client_id() != make_client_id()
    assert make_client_id("a", "u").endswith("@a@u")
