"""Offsets at brokers and in a local file."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import cast

import pytest

from rocketflow.aio.loop import run
from rocketflow.client.cluster import Cluster
from rocketflow.client.consume.offset_stores import (
    LocalOffsetStore,
    OffsetFileError,
    RemoteOffsetStore,
    encode_offsets,
    local_offset_path,
    local_offset_paths,
)
from rocketflow.client.ids import local_address
from rocketflow.client.options import ClientOptions
from rocketflow.remoting.bodies import MessageQueue
from rocketflow.remoting.headers.offset import UpdateConsumerOffsetRequestHeader
from tests.support.client_cluster import ClientCluster, queue_of

ONE, TWO = MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)

TEXT = """{
\t"offsetTable":{{
\t\t\t"brokerName":"b",
\t\t\t"queueId":0,
\t\t\t"topic":"T"
\t\t}:5,{
\t\t\t"brokerName":"b",
\t\t\t"queueId":1,
\t\t\t"topic":"T"
\t\t}:6
\t}
}"""


def loaded(path: Path) -> LocalOffsetStore:
    async def load() -> LocalOffsetStore:
        store = LocalOffsetStore([path])
        await store.load()
        store.close()
        return store

    return run(load())


def offset_in(path: Path, queue: MessageQueue = ONE) -> int | None:
    return loaded(path).offset(queue)


def written(path: Path, *rounds: int) -> None:
    async def write() -> None:
        store = LocalOffsetStore([path])
        await store.load()
        for offset in rounds:
            store.update(ONE, offset)
            await store.persist([ONE])
        store.close()

    run(write())


def test_local_file_has_rocketmq_s_text() -> None:
    assert encode_offsets({TWO: 6, ONE: 5}) == TEXT
    assert local_offset_path("c@1", "g").parts[-4:] == (".rocketmq_offsets", "c@1", "g", "offsets.json")


def test_local_offsets_survive_the_client_and_the_version_before_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "new" / "offsets.json"
    assert offset_in(path) is None
    written(path, 5, 7)
    assert offset_in(path) == 7
    path.unlink()
    assert offset_in(path) == 5


def test_damaged_local_file_is_replaced_by_its_copy(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "offsets.json"
    written(path, 5, 7)
    for damage in (b"", b"{", b'{"offsetTable":{"a":1}}', b'{"offsetTable":7}', b"\xff\xfe"):
        path.write_bytes(damage)
        assert offset_in(path) == 5
    assert "its offsets were read from" in caplog.text


def test_damaged_local_file_without_a_sound_copy_names_file_and_remedy(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    path.write_text('{"offsetTable":{{"brokerName":"b","queueId":"x","topic":"T"}:1}}')
    with pytest.raises(OffsetFileError, match=r"offsets\.json cannot be read.*remove both"):
        loaded(path)
    (tmp_path / "offsets.json.bak").write_text("{")
    with pytest.raises(OffsetFileError, match="remove both"):
        loaded(path)


def test_local_file_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OffsetFileError, match="file"):
        written(tmp_path / "file" / "offsets.json", 1)


def test_offsets_of_a_consumer_without_an_instance_name_are_where_a_java_client_keeps_them(tmp_path: Path) -> None:
    options = ClientOptions()
    first = local_offset_path(f"{local_address()}@DEFAULT", "g", tmp_path)
    second = local_offset_path(f"{local_address()}@DEFAULT-2", "g", tmp_path)
    assert list(islice(local_offset_paths(options, "g", tmp_path), 2)) == [first, second]
    assert list(local_offset_paths(replace(options, instance_name="one", unit_name="u"), "g", tmp_path)) == [
        local_offset_path(f"{local_address()}@one@u", "g", tmp_path)
    ]


def test_consumers_of_one_host_and_group_use_files_of_their_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def use() -> None:
        options = ClientOptions()
        one, two, again = (LocalOffsetStore(local_offset_paths(options, "g", tmp_path)) for _ in range(3))
        for store, offset in ((one, 5), (two, 7)):
            await store.load()
            store.update(ONE, offset)
            await store.persist([ONE])
        assert "set instance_name" in caplog.text
        one.close()  # restarted beside the other, it has its own file again
        await again.load()
        assert again.offset(ONE) == 5
        named = [
            LocalOffsetStore(local_offset_paths(replace(options, instance_name="x"), "g", tmp_path)) for _ in range(2)
        ]
        await named[0].load()
        with pytest.raises(OffsetFileError, match="give each its own instance_name"):
            await named[1].load()
        for store in (two, again, named[0]):
            store.close()

    run(use())


def test_update_only_increases_unless_it_is_forced() -> None:
    store = LocalOffsetStore([])
    store.update(ONE, 5)
    store.update(ONE, 3)
    assert store.offset(ONE) == 5
    store.update(ONE, 3, only_increase=False)
    assert store.offset(ONE) == 3


def test_remote_offsets_are_kept_by_the_broker(servers: ClientCluster) -> None:
    async def call() -> None:
        queue, unread = queue_of(await servers.new_topic()), queue_of(await servers.new_topic(), 1)
        cluster, group = Cluster(servers.client_options), servers.new_name()
        store = RemoteOffsetStore(cluster, group)
        await servers.send(queue.topic, ["a", "b", "c"])
        store.update(queue, 2)
        await store.persist([queue, unread])
        other = RemoteOffsetStore(cluster, group)
        assert other.offset(queue) is None
        assert await other.stored_offset(queue) == 2
        store.remove(queue)
        assert store.offset(queue) is None
        await cluster.close()

    run(call())


class LateBroker:
    """A cluster whose broker has several threads: each handles the next request of a connection later than the last."""

    def __init__(self) -> None:
        self.received = 0
        self.stored: list[int] = []
        self._delays = iter((9, 5, 1))
        self._handled: list[asyncio.Task[None]] = []

    async def route(self, topic: str) -> None:
        pass

    def broker_address(self, name: str, *, or_any: bool) -> str:
        return name

    async def request(self, address: str, code: int, header: UpdateConsumerOffsetRequestHeader) -> None:
        await self._handle(header.commit_offset)

    async def notify(self, address: str, code: int, header: UpdateConsumerOffsetRequestHeader) -> None:
        self._handled.append(asyncio.ensure_future(self._handle(header.commit_offset)))

    async def all_handled(self) -> list[int]:
        await asyncio.gather(*self._handled)
        return self.stored

    async def _handle(self, offset: int) -> None:
        self.received += 1
        for _ in range(next(self._delays)):
            await asyncio.sleep(0)
        self.stored.append(offset)


def after_commits(*, released: bool) -> list[int]:
    """Return what a broker stores of offsets committed at once; `released`: the queue is released meanwhile."""

    async def commit() -> list[int]:
        broker = LateBroker()
        store = RemoteOffsetStore(cast("Cluster", broker), "g")
        store.update(ONE, 5)
        regular = asyncio.ensure_future(store.persist([ONE]))
        while not broker.received:
            await asyncio.sleep(0)
        if released:
            late = asyncio.ensure_future(store.persist([ONE]))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            store.remove(ONE)
            await late
        else:
            store.update(ONE, 6)
            await store.persist([ONE])
        await regular
        return await broker.all_handled()

    return run(commit())


def test_offset_is_sent_once_the_one_before_it_is_stored() -> None:
    assert after_commits(released=False) == [5, 6]


def test_offset_of_a_released_queue_is_not_sent_any_more() -> None:
    assert after_commits(released=True) == [5]
