"""A record in a message's body, at its true physical offset, is no message for reads by physical offset."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rocketflow.cli import app
from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.delivery.requeue.bulk_send_back import send_back_many
from rocketflow_store.delivery.requeue.send_back import SendBack, consumer_send_msg_back
from rocketflow_store.model.errors import MessageNotFoundError
from rocketflow_store.model.message_id import offset_msg_id
from rocketflow_store.rebuild.rebuild import rebuild_store
from tests.support.damage import CONFIG, flip
from tests.support.forging import HEAD, forged

BODY = 3000


def made(path: Path) -> tuple[list[int], list[int]]:
    """Return the physical offsets of messages, and of records that their sender put into one of them."""
    with MessageStore.open(path, replace(CONFIG, enabled_append_prop_crc=False)) as store:
        put = [store.put_message(Message("t", b"honest %d" % number, queue_id=0)) for number in range(20)]
        begin = store.max_phy_offset
        body = b""
        while len(body) < BODY - 300:
            body += forged(begin + HEAD + len(body), len(body), crc=False)
        inside = [begin + HEAD, begin + HEAD + len(forged(0, 0, crc=False))]
        put.append(store.put_message(Message("t", body.ljust(BODY, b"\0"), queue_id=0)))
        put += [store.put_message(Message("t", b"honest", queue_id=0)) for _ in range(5)]
    return [one.physical_offset for one in put], inside


def test_chain_of_records_in_a_body_proves_nothing(tmp_path: Path) -> None:
    path, size = tmp_path / "s", 5 << 20
    config = StoreConfig(mapped_file_size_commit_log=1 << 24, max_message_size=size, enabled_append_prop_crc=True)
    with MessageStore.open(path, config) as store:
        store.put_message(Message("t", b"honest", queue_id=0))
        begin, body = store.max_phy_offset, bytearray()
        while len(body) < size - (1 << 17):
            body += forged(begin + HEAD + len(body), len(body), crc=True, inside=bytes(1 << 16))
        assert store.put_message(Message("t", bytes(body), queue_id=0)).stored
        assert store.put_message(Message("t", b"honest", queue_id=0)).stored
    with (path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(begin)
        file.write(bytes(HEAD))
    shutil.rmtree(path / "consumequeue")
    shutil.rmtree(path / "index")
    done = rebuild_store(path, config=config)
    assert (done.exit_code, done.records) == (3, 2)
    with StoreReader(path, config) as reader:
        assert reader.query_message("secret", "secret") == []


@pytest.mark.parametrize("lost", ["nothing", "queues", "a size", "a size and queues"])
def test_record_in_a_body_is_refused_by_every_read(tmp_path: Path, lost: str) -> None:
    path = tmp_path / "s"
    messages, inside = made(path)
    if "size" in lost:  # the record around the forged ones seems to end at one of them
        position = messages[20] % CONFIG.mapped_file_size_commit_log
        size = int.from_bytes((path / "commitlog" / f"{0:020d}").read_bytes()[position : position + 4], "big")
        assert size >> 11 & 1
        flip(path / "commitlog" / f"{0:020d}", position + 2, 1 << 3)
    if "queues" in lost:
        shutil.rmtree(path / "consumequeue")
    with StoreReader(path, CONFIG) as reader:
        for place in inside:
            assert reader.look_message_by_offset(place) is None
            assert reader.view_message("secret", offset_msg_id("127.0.0.1:10911", place)) is None
            assert app.run(["store", "find", str(path), "--physical-offset", str(place)]) == 1
        for place in messages:
            found = reader.look_message_by_offset(place)
            unknown = place == messages[20] and "size" in lost
            assert found is not None or unknown or place >= reader.max_phy_offset
    if "queues" in lost:
        return
    with MessageStore.open(path, CONFIG) as store:
        for place in inside:
            with pytest.raises(MessageNotFoundError):
                consumer_send_msg_back(store, "group", place)
            with pytest.raises(MessageNotFoundError):
                send_back_many(store, SendBack("group"), np.array([messages[1], place]))
        assert consumer_send_msg_back(store, "group", messages[0]) is not None
        assert send_back_many(store, SendBack("group"), np.array(messages[1:5])).retried == 4
