"""Counts over the last minute, hour and day, and the requests that read them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.broker.figures import stats
from rocketflow.broker.figures.stats import NAMES, WINDOWS, BrokerStats, Item
from rocketflow.broker.service import Broker
from rocketflow.broker.settings import load_broker_settings
from rocketflow.remoting.bodies import decode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.headers.admin import (
    DeleteSubscriptionGroupRequestHeader,
    DeleteTopicRequestHeader,
    GetConsumeStatsRequestHeader,
    GetTopicStatsInfoRequestHeader,
    ViewBrokerStatsDataRequestHeader,
)
from rocketflow_store.spi.names import HALF_TOPIC, SCHEDULE_TOPIC
from tests.rocketflow.broker.test_runtime_figures import options_at
from tests.support.request_headers import pull_header, send_header


@given(st.lists(st.lists(st.integers(1, 1000), max_size=5), max_size=40))
def test_a_window_compares_the_last_sums_with_the_first(steps: list[list[int]]) -> None:
    """Between two notes a list of values is added; a window has the notes of its last `most` times."""
    window, item = WINDOWS[0], Item()
    sums = [(0, 0)]
    for number, added in enumerate(steps, 1):
        for value in added:
            item.value += value
            item.times += 1
        sums.append((item.value, item.times))
        item.note(0, number * window.every_ms)
        kept = sums[-window.most :]
        total, count = kept[-1][0] - kept[0][0], kept[-1][1] - kept[0][1]
        assert item.figures(0) == {
            "sum": total,
            "tps": pytest.approx(total / ((len(kept) - 1) * window.every_ms / 1000)),
            "avgpt": pytest.approx(total / count if count else 0.0),
        }
    assert item.figures(1) == {"sum": 0, "tps": 0.0, "avgpt": 0.0}


def test_windows_are_noted_at_their_times(monkeypatch: pytest.MonkeyPatch) -> None:
    counted, now_ms = BrokerStats("c"), 0
    counted.sent("t", 5, 500)

    async def sleep(seconds: float) -> None:
        nonlocal now_ms
        now_ms += round(seconds * 1000)
        if now_ms > 2 * 3_600_000:
            raise asyncio.CancelledError
        if seconds:
            counted.sent("t", 2, 200)

    monkeypatch.setattr(stats.asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        run(counted.watch(lambda: now_ms))
    found = counted.view("TOPIC_PUT_NUMS", "t")
    assert found is not None
    assert found["statsMinute"] == {"sum": 12, "tps": pytest.approx(0.2), "avgpt": 2.0}
    assert found["statsHour"] == {"sum": 6 * 60 * 2, "tps": pytest.approx(0.2), "avgpt": 2.0}
    assert found["statsDay"]["sum"] == 5 + 720 * 2
    assert counted.put_rate("t") == pytest.approx(0.2)


PAIRS = [(topic, group) for topic in ("t", "tt") for group in ("g", "gg")]
DEAD = [f"null@{topic}@{group}@SEND_BACK_TO_DLQ" for topic, group in PAIRS]


def test_counts_of_deleted_topics_and_groups_are_removed() -> None:
    counted = BrokerStats("c")
    for topic in ("t", "tt"):
        counted.sent(topic, 1, 10)
        for group in ("g", "gg"):
            counted.pulled(topic, group, 1, 10)
            counted.sent_back(topic, group, is_dead=True)
    counted.topic_deleted("t")
    counted.group_deleted("g")
    left = [
        (name, key)
        for name in NAMES
        for key in ("t", "tt", *(f"{topic}@{group}" for topic, group in PAIRS), *DEAD, "c")
        if counted.view(name, key) is not None
    ]
    assert left == [
        *(("TOPIC_PUT_NUMS", "tt"), ("TOPIC_PUT_SIZE", "tt"), ("GROUP_GET_NUMS", "tt@gg"), ("GROUP_GET_SIZE", "tt@gg")),
        ("SNDBCK_PUT_NUMS", "tt@gg"),
        *((f"BROKER_{one}", "c") for one in ("PUT_NUMS", "GET_NUMS")),
        *((f"BROKER_{one}_WITHOUT_SYSTEM_TOPIC", "c") for one in ("PUT_NUMS", "GET_NUMS")),
        ("SNDBCK2DLQ_TIMES", "null@tt@gg@SEND_BACK_TO_DLQ"),
    ]
    for _ in range(2):  # the removed counts begin again
        counted.pulled("t", "gg", 3, 30)
    list(counted.note(0, 10_000))
    found = counted.view("GROUP_GET_NUMS", "t@gg")
    assert found is not None
    assert found["statsMinute"]["sum"] == 6


def test_counts_of_a_broker_are_those_with_and_without_system_topics() -> None:
    counted = BrokerStats("c")
    names = [f"BROKER_{one}_NUMS{end}" for one in ("PUT", "GET") for end in ("", "_WITHOUT_SYSTEM_TOPIC")]

    def sums() -> list[float | None]:
        list(counted.note(0, 10_000))
        found = [counted.view(one, "c") for one in names]
        return [None if one is None else one["statsMinute"]["sum"] for one in found]

    assert sums() == [None] * 4
    counted.sent(HALF_TOPIC, 2, 200)
    assert sums() == [2, None, None, None]
    counted.sent("t", 3, 300)
    counted.pulled("t", "g", 5, 500)
    counted.pulled(SCHEDULE_TOPIC, "g", 7, 700)
    assert sums() == [5, 3, 12, 5]


def test_mqadmin_reads_what_was_sent_and_pulled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, config, given_settings = load_broker_settings(None, options_at(tmp_path), {})
    code = RequestCode
    is_time = asyncio.Event()

    async def until_time(seconds: float) -> None:
        """Sleep until `is_time` instead of the ten seconds before the first notes."""
        await (is_time.wait() if seconds and not is_time.is_set() else asyncio.sleep(seconds))

    monkeypatch.setattr(stats, "asyncio", SimpleNamespace(sleep=until_time))

    async def main() -> None:
        broker, peers = Broker(settings, config, given_settings), Peers()
        await broker.start()

        async def view(name: str, key: str) -> Command:
            header = ViewBrokerStatsDataRequestHeader(stats_name=name, stats_key=key)
            return await peers.request(settings.broker_address, code.VIEW_BROKER_STATS_DATA, header)

        try:
            assert (await view("TOPIC_PUT_NUMS", "t")).code == ResponseCode.SYSTEM_ERROR
            sent = [
                await peers.request(settings.broker_address, code.SEND_MESSAGE, send_header("t"), body=b"x" * 100)
                for _ in range(3)
            ]
            assert {one.code for one in sent} == {ResponseCode.SUCCESS}
            pulled = await peers.request(settings.broker_address, code.PULL_MESSAGE, pull_header("t", max_msg_nums=2))
            assert pulled.code == ResponseCode.SUCCESS
            wanted = {"TOPIC_PUT_NUMS t": 3, "GROUP_GET_NUMS t@g": 2, "GROUP_GET_SIZE t@g": len(pulled.body)}
            wanted |= {"BROKER_PUT_NUMS DefaultCluster": 3, "BROKER_GET_NUMS DefaultCluster": 2}
            wanted["TOPIC_PUT_SIZE t"] = 3 * len(pulled.body) // 2
            is_time.set()
            await asyncio.sleep(0.1)
            for asked, total in wanted.items():
                answer = await view(*asked.split())
                found = decode_body(answer.body, dict[str, dict[str, float]])
                assert (asked, found["statsMinute"]["sum"]) == (asked, total)
                assert [*found] == ["statsDay", "statsHour", "statsMinute"]
            by_queue = await view("QUEUE_PUT_NUMS", "t@0")
            assert (by_queue.code, "are not counted" in (by_queue.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
            header = GetTopicStatsInfoRequestHeader(topic="t")
            figures = await peers.request(settings.broker_address, code.GET_TOPIC_STATS_INFO, header)
            assert b'"topicPutTps":0.3' in figures.body
            progress = GetConsumeStatsRequestHeader(consumer_group="g", topic="t")
            figures = await peers.request(settings.broker_address, code.GET_CONSUME_STATS, progress)
            assert b'"consumeTps":0.2' in figures.body
            deleted = DeleteSubscriptionGroupRequestHeader(group_name="g")
            await peers.request(settings.broker_address, code.DELETE_SUBSCRIPTIONGROUP, deleted)
            assert (await view("GROUP_GET_NUMS", "t@g")).code == ResponseCode.SYSTEM_ERROR
            await peers.request(
                settings.broker_address, code.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader(topic="t")
            )
            assert (await view("TOPIC_PUT_NUMS", "t")).code == ResponseCode.SYSTEM_ERROR
        finally:
            await peers.close()
            await broker.stop()

    run(main())
