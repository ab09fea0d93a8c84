"""Files of topics and groups are written once for the changes that arrive together, counted at the disk."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from rocketflow.broker.groups import client_requests, groups
from rocketflow.broker.topics.table_changes import State, TableChanges
from rocketflow.remoting.bodies import ConsumerData, HeartbeatData, encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.fastjson import loads
from rocketflow.remoting.headers.client import HeartbeatRequestHeader
from rocketflow_store import StoreConfigError
from rocketflow_store.files import disk
from rocketflow_store.spi.table_rows import SubscriptionGroupConfig, TopicConfig
from tests.rocketflow.broker.test_operator_requests import Ask, with_broker
from tests.support.request_headers import pull_header, send_header

CODE: Final = RequestCode
TOPICS, GROUPS = "topics.json", "subscriptionGroup.json"


@contextmanager
def replaced() -> Iterator[Counter[str]]:
    """Count how often each file is replaced."""
    found: Counter[str] = Counter()

    def rename(source: Any, target: Any, **more: Any) -> None:
        found[Path(target).name] += 1
        os.replace(source, target, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "rename", rename)
        yield found


def names_in(home: Path, file: str, table: str) -> set[str]:
    (path,) = home.rglob(file)
    return set(loads(path.read_bytes())[table])


def heartbeat(*names: str) -> bytes:
    consumers = [ConsumerData(group_name=one) for one in names]
    return encode_body(HeartbeatData(client_id="c", consumer_data_set=consumers))


def test_heartbeat_with_many_groups_writes_each_table_once(tmp_path: Path) -> None:
    many = [f"group-{number}" for number in range(2_000)]

    async def check(ask: Ask) -> None:
        with replaced() as found:
            answer = await ask(CODE.HEART_BEAT, HeartbeatRequestHeader(), heartbeat(*many, "bad name", many[0]))
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            assert (found[TOPICS], found[GROUPS]) == (1, 1)
            assert set(many) <= names_in(tmp_path, GROUPS, "subscriptionGroupTable"), "durable before the answer"
            assert {f"%RETRY%{one}" for one in many} <= names_in(tmp_path, TOPICS, "topicConfigTable")
            await ask(CODE.HEART_BEAT, HeartbeatRequestHeader(), heartbeat(*many))
            assert (found[TOPICS], found[GROUPS]) == (1, 1)

    with_broker(tmp_path, check)


def test_heartbeat_with_too_many_new_groups_is_refused_and_makes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_requests, "MAX_NEW_GROUPS", 3)

    async def check(ask: Ask) -> None:
        async def beat(*names: str) -> int:
            return (await ask(CODE.HEART_BEAT, HeartbeatRequestHeader(), heartbeat(*names))).code

        assert await beat("a", "b", "c", "d") == ResponseCode.INVALID_PARAMETER
        assert not {"a", "b", "c", "d"} & names_in(tmp_path, GROUPS, "subscriptionGroupTable")
        assert await beat("a", "b", "c") == ResponseCode.SUCCESS
        assert await beat("a", "b", "c", "d") == ResponseCode.SUCCESS
        monkeypatch.setattr(groups, "LIMIT", len(names_in(tmp_path, GROUPS, "subscriptionGroupTable")) + 1)
        assert await beat("e", "f") == ResponseCode.SUCCESS
        assert {"e", "f"} & names_in(tmp_path, GROUPS, "subscriptionGroupTable") == {"e"}

    with_broker(tmp_path, check)


def test_requests_that_arrive_together_share_writes(tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        with replaced() as found:
            sends = (ask(CODE.SEND_MESSAGE, send_header(f"new-{number}"), b"x") for number in range(300))
            assert {one.code for one in await asyncio.gather(*sends)} == {ResponseCode.SUCCESS}
            assert found[TOPICS] <= 30, "a write has all that waits for it"
            pulls = (ask(CODE.PULL_MESSAGE, pull_header("t", consumer_group=f"new-{one}")) for one in range(300))
            assert {one.code for one in await asyncio.gather(*pulls)} == {ResponseCode.SUCCESS}
            assert found[GROUPS] <= 30
        assert {f"new-{number}" for number in range(300)} <= names_in(tmp_path, TOPICS, "topicConfigTable")
        assert {f"new-{number}" for number in range(300)} <= names_in(tmp_path, GROUPS, "subscriptionGroupTable")

    with_broker(tmp_path, check, waitTimeMillsInSendQueue="60000", osPageCacheBusyTimeOutMills="60000")


def test_lists_of_operators_are_one_write_each(tmp_path: Path) -> None:
    topics = {"topicConfigList": [TopicConfig(topic_name=f"listed-{one}") for one in range(500)]}
    named = {"groupConfigList": [SubscriptionGroupConfig(group_name=f"g-{one}") for one in range(500)]}

    async def check(ask: Ask) -> None:
        with replaced() as found:
            assert (await ask(CODE.UPDATE_AND_CREATE_TOPIC_LIST, None, encode_body(topics))).code == 0
            assert (await ask(CODE.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, None, encode_body(named))).code == 0
            assert (found[TOPICS], found[GROUPS]) == (1, 1)

    with_broker(tmp_path, check)


def test_first_start_writes_each_table_once(tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        pass

    with replaced() as found:
        with_broker(tmp_path, check)
    assert (found[TOPICS], found[GROUPS]) == (2, 1)  # topic `t` is the second


class Table:
    """Settings by name; `refused` are names that the store does not keep."""

    def __init__(self, *refused: str) -> None:
        self.kept: dict[str, int] = {}
        self.writes: list[set[str]] = []
        self._refused = set(refused)

    def get(self, name: str, /) -> int | None:
        return self.kept.get(name)

    def items(self) -> dict[str, int]:
        return dict(self.kept)

    def put(self, *configs: int) -> None:
        names = {str(one) for one in configs}
        if names & self._refused:
            raise StoreConfigError("name", names, "is refused")
        self.writes.append(names)
        self.kept |= {str(one): one for one in configs}


def test_change_that_the_store_refuses_does_not_fail_those_beside_it() -> None:
    table = Table("3")

    async def changed() -> list[object]:
        changes = TableChanges(table, lambda: None)

        def plan(number: int) -> Any:
            def planned(state: State[int]) -> dict[str, int]:
                return {} if state.get(str(number)) else {str(number): number}

            return planned

        return await asyncio.gather(*(changes.apply(plan(one)) for one in (1, 2, 3, 1)), return_exceptions=True)

    found = asyncio.run(changed())
    assert found[:2] == [{"1": 1}, {"2": 2}]
    assert "is refused" in str(found[2])
    assert table.kept == {"1": 1, "2": 2}
