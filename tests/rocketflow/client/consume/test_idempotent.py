"""Listeners that handle each message once: keys in memory and in SQLite, with the listener's own transaction."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rocketflow.client.consume.idempotent import (
    BeingProcessedError,
    Idempotent,
    MemoryKeys,
    ProcessedKeys,
    SqliteKeys,
    TransactionEndedError,
    unique_key,
)
from rocketflow.client.errors import ClientError
from rocketflow_store.spi.messages import ReceivedMessage
from tests.support.trials import SEED, environment


def message(key: str, body: bytes = b"") -> ReceivedMessage:
    return ReceivedMessage("T", 0, 0, body, {"UNIQ_KEY": key})


def rows(connection: sqlite3.Connection, table: str = "result") -> list[str]:
    return [one for (one,) in connection.execute(f"SELECT name FROM {table} ORDER BY name")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "user.db"
    with sqlite3.connect(found) as connection:
        connection.execute("CREATE TABLE result (name TEXT)")
    return found


def insert(one: ReceivedMessage, connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO result VALUES (?)", (unique_key(one),))
    if one.body == b"fails":
        raise ZeroDivisionError


def test_memory_handles_a_key_once_and_remembers_the_newest_ones() -> None:
    handled: list[str] = []
    listener = Idempotent(lambda one, _: handled.append(unique_key(one)), MemoryKeys(2))
    listener([message("a"), message("b"), message("a"), message("c")], context=object())
    listener([message("a"), message("b")])
    assert handled == ["a", "b", "c", "b"]
    with pytest.raises(ClientError, match="most is 0"):
        MemoryKeys(0)


def test_message_whose_handler_failed_is_handled_again_and_those_before_it_are_not() -> None:
    handled: list[str] = []

    def handle(one: ReceivedMessage, connection: None) -> None:
        handled.append(unique_key(one))
        if len(handled) == 2:
            raise ZeroDivisionError

    listener = Idempotent(handle, MemoryKeys())
    messages = [message("a"), message("b"), message("c")]
    with pytest.raises(ZeroDivisionError):
        listener(messages)
    listener(messages)
    assert handled == ["a", "b", "b", "c"]


def test_second_delivery_while_the_first_is_handled_is_refused() -> None:
    keys, inside, done = MemoryKeys(), threading.Event(), threading.Event()

    def handle(connection: None) -> None:
        inside.set()
        assert done.wait(30)

    thread = threading.Thread(target=lambda: keys.once("a", handle))
    thread.start()
    assert inside.wait(30)
    with pytest.raises(BeingProcessedError, match="'a'"):
        keys.once("a", handle)
    done.set()
    thread.join()
    assert not keys.once("a", handle)


def test_sqlite_stores_the_key_and_the_result_together(path: Path) -> None:
    with SqliteKeys(path, "group") as keys:
        listener = Idempotent(insert, keys)
        with pytest.raises(ZeroDivisionError):
            listener([message("a"), message("b", b"fails")])
        listener([message("a"), message("b")])
    with SqliteKeys(path, "group") as keys, SqliteKeys(path, "other") as others:
        assert not keys.once("a", lambda _: None)
        assert others.once("a", lambda _: None)
    with sqlite3.connect(path) as connection:
        assert rows(connection) == ["a", "b"]


def test_keys_of_several_threads_are_handled_once(path: Path) -> None:
    with SqliteKeys(path, "group") as keys:
        listener = Idempotent(insert, keys)
        names = [f"{k:03}" for k in range(50)]
        threads = [threading.Thread(target=listener, args=([message(one) for one in names],)) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    with sqlite3.connect(path) as connection:
        assert rows(connection) == names


def test_handler_that_ends_the_transaction_is_an_error(path: Path) -> None:
    with SqliteKeys(path, "group") as keys, pytest.raises(TransactionEndedError, match="must not call commit"):
        keys.once("a", lambda connection: connection.commit())


def test_old_keys_are_forgotten() -> None:
    with SqliteKeys(":memory:", "group", keep_s=-1) as keys:  # a file would be synced a thousand times
        for k in range(1000):
            keys.once(str(k), lambda _: None)
        assert keys.once("5", lambda _: None)


def test_key_of_a_retried_message_is_that_of_its_first_delivery() -> None:
    first = ReceivedMessage("T", 0, 0, b"", {}, store_host="127.0.0.1:10911", physical_offset=7)
    origin = {"ORIGIN_MESSAGE_ID": first.offset_message_id}
    retried = ReceivedMessage("T", 0, 0, b"", origin, store_host="127.0.0.1:10911", physical_offset=9)
    assert unique_key(first) == unique_key(retried) == "7F00000100002A9F0000000000000007"
    by_body: list[bytes] = []
    keys: ProcessedKeys[None] = MemoryKeys()
    listener = Idempotent(lambda one, _: by_body.append(one.body), keys, key_of=lambda one: one.body.decode())
    listener([message("a", b"x"), message("b", b"x")])
    assert by_body == [b"x"]


PROGRAM = """
import os, sys
from pathlib import Path
from rocketflow.client.consume.idempotent import SqliteKeys
path, dies_at, late = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "late"
with SqliteKeys(path, "group") as keys:
    for k in range(60):
        def handle(connection):
            if k == dies_at and not late:
                os.kill(os.getpid(), 9)
            connection.execute("INSERT INTO result VALUES (?)", (f"{k:03}",))
            if k == dies_at:
                os.kill(os.getpid(), 9)
        keys.once(str(k), handle)
"""


def test_killed_process_leaves_each_result_once_or_not_at_all(path: Path) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    for dies_at, late in ((chance.randrange(30), "early"), (chance.randrange(30, 60), "late")):
        program = [sys.executable, "-c", PROGRAM, str(path), str(dies_at), late]
        assert subprocess.run(program, env=environment(), check=False).returncode == -9
    assert subprocess.run([*program[:4], "-1", "late"], env=environment(), check=False).returncode == 0
    with sqlite3.connect(path) as connection:
        assert rows(connection) == [f"{k:03}" for k in range(60)]
