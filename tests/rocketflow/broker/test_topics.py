"""The broker's topics above a real store."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from rocketflow.aio.server import RefusedError
from rocketflow.broker.settings import BrokerSettings
from rocketflow.broker.topics.topics import Topics
from rocketflow.remoting.codes import ResponseCode
from rocketflow_store import StoreConfig
from rocketflow_store.spi.broker import open_store
from rocketflow_store.spi.table_rows import TopicConfig

if TYPE_CHECKING:
    from pathlib import Path


async def nothing() -> None:
    pass


def test_a_deleted_topic_is_reported_in_the_thread_of_the_loop(tmp_path: Path) -> None:
    threads: list[int] = []
    with open_store(tmp_path / "s", StoreConfig(), store_host="127.0.0.1:10911") as store:
        topics = Topics(store, BrokerSettings(), lambda: threads.append(threading.get_ident()), nothing)

        async def trial() -> None:
            await topics.change([TopicConfig(topic_name="orders", read_queue_nums=1, write_queue_nums=1)])
            await topics.delete("orders")

        asyncio.run(trial())
        assert topics.get("orders") is None
        assert topics.changes == 2
        with pytest.raises(RefusedError) as caught:
            topics.known("orders")
        assert caught.value.code == ResponseCode.TOPIC_NOT_EXIST
    assert threads == [threading.get_ident()] * 2


def test_a_failure_of_the_store_is_a_refusal(tmp_path: Path) -> None:
    store = open_store(tmp_path / "s", StoreConfig(), store_host="127.0.0.1:10911")
    with store:
        topics = Topics(store, BrokerSettings(), lambda: None, nothing)
        asyncio.run(topics.change([TopicConfig(topic_name="orders", read_queue_nums=1, write_queue_nums=1)]))
    with pytest.raises(RefusedError) as caught:
        asyncio.run(topics.delete("orders"))
    assert caught.value.code == ResponseCode.SYSTEM_ERROR
    assert topics.changes == 1


def test_new_topic_without_free_descriptors_is_refused_as_one_that_is_not_to_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(tmp_path / "s", StoreConfig(), store_host="127.0.0.1:10911") as store:
        topics = Topics(store, BrokerSettings(), lambda: None, nothing)
        topics.create_system_topics()
        with monkeypatch.context() as few:
            few.setattr("rocketflow_store.files.open_files.LIMIT", lambda: (8, 8))
            with pytest.raises(RefusedError, match="file descriptors of this process are in use") as caught:
                asyncio.run(topics.for_send("orders", "TBW102", 4))
            assert caught.value.code == ResponseCode.TOPIC_NOT_EXIST
            assert topics.get("orders") is None
        assert asyncio.run(topics.for_send("orders", "TBW102", 4)).write_queue_nums == 4
