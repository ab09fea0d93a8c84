"""Messages by key, UNIQ_KEY and offset message id, over several index files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.java_compat import index_hash
from rocketflow_store.model.message import ReceivedMessage
from rocketflow_store.spi.broker import open_store
from tests.support.trials import seeds

START = 1_700_000_000_000
FOREVER = (1 << 63) - 1
CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 16,
    mapped_file_size_consume_queue=4000,
    max_hash_slot_num=20,
    max_index_num=51,  # 50 entries
    clock=ManualClock(START),
)


def put(store: MessageStore, number: int, *keys: str, topic: str = "t") -> ReceivedMessage:
    """Put message `number`, a second after the one before it."""
    assert isinstance(CONFIG.clock, ManualClock)
    CONFIG.clock.set(START + 1000 * number)
    result = store.put_message(Message(topic, b"%d" % number, keys=list(keys), queue_id=0))
    message = store.look_message_by_offset(result.physical_offset)
    assert message is not None
    return message


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    with MessageStore.open(tmp_path / "s", CONFIG) as opened:
        yield opened


def numbers(messages: list[ReceivedMessage]) -> list[int]:
    return [int(message.body) for message in messages]


def test_key_in_several_files_newest_first_and_by_offset(store: MessageStore, tmp_path: Path) -> None:
    for number in range(100):  # two entries each: UNIQ_KEY and key
        put(store, number, "all", *(["third"] if number % 3 == 0 else []))
    assert len(store.index.files) > 3
    thirds = [number for number in range(100) if number % 3 == 0]
    with StoreReader(tmp_path / "s", CONFIG) as reader:
        for either in (store, reader):
            assert numbers(either.query_message("t", "third", 64)) == thirds
            assert numbers(either.query_message("t", "third", 5)) == thirds[-5:]
            assert numbers(either.query_message("t", "third", 0)) == []
            assert either.query_message("t", "never") == []
            assert either.query_message("other", "third") == []
    assert numbers(store.query_message("t", "all", 1000)) == list(range(36, 100)), "maxMsgsNumBatch"


def test_time_ranges_are_exact_to_the_second(store: MessageStore) -> None:
    for number in range(60):
        put(store, number, "k")
    for first, last in ((0, 59), (10, 20), (33, 33), (20, 45), (58, 70)):
        found = numbers(store.query_message("t", "k", 64, START + 1000 * first, START + 1000 * last))
        assert found == list(range(first, min(last, 59) + 1))
    assert store.query_message("t", "k", 64, START + 60_000, FOREVER) == []
    assert store.query_message("t", "k", 64, 0, START - 1) == []


def test_query_within_times_returns_what_a_scan_of_the_messages_finds(tmp_path: Path) -> None:
    random, clock = Random(7), ManualClock(START + 123)
    config = replace(CONFIG, clock=clock)
    with (
        open_store(tmp_path / "s", config, store_host="10.1.2.3:10911") as store,
        StoreReader(tmp_path / "s", config) as reader,
    ):
        stored: list[tuple[int, str]] = []
        for number in range(240):
            key = random.choice("abc")
            store.put_message(Message("t", b"%d" % number, keys=[key], tags=key.upper(), queue_id=0))
            stored.append((clock.now_ms(), key))
            pause = random.choice([0, 1, 7, 400, 999, 1000, 1001, 4321])
            clock.set(clock.now_ms() + (pause if (number + 1) % 25 else random.choice([pause, 3_600_000])))
        assert len(list((tmp_path / "s" / "index").iterdir())) > 12, "pauses of an hour lie between two files too"
        moments = [when for when, _ in stored]
        for number in range(0, len(stored), 5):  # 0, 25, ...: the first entries of files, after the pauses
            unique = reader.query_message("t", stored[number][1], 64, moments[number], moments[number])[-1].uniq_key
            assert unique is not None
            assert reader.query_message("t", unique, 1, moments[number] - 1, moments[number])
        for _ in seeds(600, 4000, least=200):
            begin = random.choice(moments) + random.choice([0, 0, 0, -1, 1, -999, 999, -1000, 1000])
            end = begin + random.choice([0, 0, 1, 500, 999, 1000, 5000, 4_000_000])
            key = random.choice("abc")
            within = [n for n, (when, of) in enumerate(stored) if of == key and begin <= when <= end]
            for either in (store, reader):
                assert numbers(either.query_message("t", key, 64, begin, end)) == within[-64:], (begin, end)
            assert numbers(reader.query_message("t", key, 1, begin, end)) == within[-1:], "no later one in its place"
            assert numbers(reader.query_by_tags("t", key.upper(), 64, begin, end).messages) == within[-64:]
            late = [n for n, (when, of) in enumerate(stored) if of == key and begin <= when <= end + 999]
            records = store.query_records("t", key, 64, begin, end, 1 << 20)
            assert len(within[-64:]) <= len(records.sizes) <= len(late), "whole seconds, as RocketMQ's broker"


def test_keys_of_one_hash_are_distinguished(store: MessageStore) -> None:
    assert index_hash("t", "Aa") == index_hash("t", "BB")
    wanted = put(store, 0, "Aa")
    for number in range(1, 300):
        put(store, number, "BB")
    assert numbers(store.query_message("t", "Aa", 1)) == [0]
    assert store.query_message("t", "Aa", 32)[0].phy_offset == wanted.phy_offset
    assert numbers(store.query_message("t", "BB", 3)) == [297, 298, 299]


def test_key_that_occurs_twice_returns_its_message_once(store: MessageStore) -> None:
    put(store, 0, "same", "same")
    put(store, 1, "same")
    assert numbers(store.query_message("t", "same")) == [0, 1]


def test_part_of_a_key_finds_nothing(store: MessageStore) -> None:
    put(store, 0, "one", "two")
    assert numbers(store.query_message("t", "one")) == numbers(store.query_message("t", "two")) == [0]
    assert store.query_message("t", "one two") == store.query_message("t", "on") == []


def test_messages_are_found_by_uniq_key_and_by_offset_message_id(store: MessageStore, tmp_path: Path) -> None:
    messages = [put(store, number, "k", topic="tu"[number % 2]) for number in range(60)]
    with StoreReader(tmp_path / "s", CONFIG) as reader:
        for either in (store, reader):
            for message in (messages[0], messages[31], messages[59]):
                assert message.uniq_key is not None
                for msg_id in (message.msg_id, message.msg_id.lower(), message.uniq_key):
                    found = either.view_message(message.topic, msg_id)
                    assert found is not None
                    assert found.phy_offset == message.phy_offset
                other = "u" if message.topic == "t" else "t"
                assert either.view_message(other, message.msg_id) is None
                assert either.view_message(other, message.uniq_key) is None
            assert either.view_message("t", "k") is None, "a key is no id"
            assert either.view_message("t", "") is None
            assert either.view_message("t", messages[0].msg_id[:-2] + "01") is None, "in the midst of a record"
            assert either.view_message("t", "0" * 32) is None, "of another host"


def test_expired_messages_are_not_found_and_the_rest_is(store: MessageStore) -> None:
    for number in range(100):
        put(store, number, "k")
    files = store.index.files
    assert len(files) > 3
    kept = files[2].header.begin_phy_offset
    store.index.remove_first(2)
    found = store.query_message("t", "k", 64)
    assert found == [one for one in found if one.phy_offset >= kept]
    assert numbers(found) == list(range(int(found[0].body), 100))
    assert len(found) >= 40
