"""Figures of request 28 and health, asked of a broker in this process."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.broker import service
from rocketflow.broker.figures.runtime_figures import DayTotals, seconds_to_midnight
from rocketflow.broker.service import Broker
from rocketflow.broker.settings import load_broker_settings
from rocketflow.remoting.bodies import KVTable, decode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow_store import StoreFencedError
from rocketflow_store.spi.broker import WritingStore, open_store
from rocketflow_store.testing import Probe
from tests.support.http_get import get
from tests.support.ports import free_port
from tests.support.request_headers import pull_header, send_header


def options_at(home: Path) -> dict[str, str]:
    """Return the settings of a broker with a small store."""
    sizes = {"mappedFileSizeCommitLog": "1048576", "maxIndexNum": "4000", "maxHashSlotNum": "1000"}
    return {**sizes, "storePathRootDir": str(home / "s"), "listenPort": str(free_port((-2, 1)))}


def test_broker_status_counts_what_was_sent_and_read(tmp_path: Path) -> None:
    settings, config, given = load_broker_settings(None, options_at(tmp_path), {})

    async def main() -> tuple[dict[str, str], dict[str, str]]:
        broker, peers = Broker(settings, config, given), Peers()
        await broker.start()
        try:

            async def asked() -> dict[str, str]:
                answer = await peers.request(settings.broker_address, RequestCode.GET_BROKER_RUNTIME_INFO)
                return decode_body(answer.body, KVTable).table

            before = await asked()
            for _ in range(7):
                sent = await peers.request(settings.broker_address, RequestCode.SEND_MESSAGE, send_header(), body=b"x")
                assert sent.code == ResponseCode.SUCCESS, sent.remark
            pulled = await peers.request(settings.broker_address, RequestCode.PULL_MESSAGE, pull_header(max_msg_nums=5))
            assert pulled.code == ResponseCode.SUCCESS
            return before, await asked()
        finally:
            await peers.close()
            await broker.stop()

    before, after = run(main())
    assert (before["msgPutTotalTodayNow"], before["msgGetTotalTodayNow"]) == ("0", "0")
    assert before["earliestMessageTimeStamp"] == "-1"
    assert (after["msgPutTotalTodayNow"], after["msgGetTotalTodayNow"]) == ("7", "5")
    assert (after["msgPutTotalTodayMorning"], after["msgGetTotalYesterdayMorning"]) == ("0", "0")
    assert int(after["earliestMessageTimeStamp"]) >= int(after["bootTimestamp"]) - 60_000
    assert 0 < float(after["commitLogDiskRatio"]) <= 1
    assert (after["sendThreadPoolQueueSize"], after["sendThreadPoolQueueCapacity"]) == ("0", "10000")
    assert after["fenced"] == "false"
    assert re.fullmatch(r"\[ 0 days, 0 hours, \d+ minutes, \d+ seconds \]", after["runtime"])
    assert re.fullmatch(r"\d+ B|\d+\.\d KiB", after["remainHowManyDataToFlush"])
    for name in ("putTps", "getFoundTps", "getMissTps", "getTotalTps", "getTransferredTps", "getTransferedTps"):
        assert len([float(one) for one in after[name].split(" ")]) == 3, name


def test_health_names_a_store_that_is_being_opened_a_fenced_store_and_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    options = {**options_at(tmp_path), "metricsExporterType": "PROM", "metricsPromExporterPort": str(port)}
    settings, config, given = load_broker_settings(None, options, {})
    opening, may_open, opened = threading.Event(), threading.Event(), []

    def slowly(*arguments: Any, **named: Any) -> WritingStore:
        opening.set()
        assert may_open.wait(60)
        opened.append(open_store(*arguments, **named))
        return opened[0]

    monkeypatch.setattr(service, "open_store", slowly)

    async def main() -> None:
        async def asked(path: str) -> tuple[int, str]:
            return await asyncio.to_thread(get, port, path)

        broker = Broker(settings, config, given)
        starting = asyncio.ensure_future(broker.start())
        assert await asyncio.to_thread(opening.wait, 60)
        assert (await asked("/health/live"))[0] == 200
        assert await asked("/health/ready") == (503, "the store is not open yet\n")
        assert (await asked("/metrics"))[0] == 503
        may_open.set()
        await starting
        assert await asked("/health/ready") == (200, "ready\n")
        status, text = await asked("/metrics")
        assert (status, "rocketmq_topic_number{" in text) == (200, True)
        Probe(opened[0]).fence(StoreFencedError(tmp_path, "sync failed"))
        status, why = await asked("/health/ready")
        assert (status, "sync failed" in why) == (503, True)
        assert (await asked("/health/live"))[0] == 200
        await broker.stop()

    run(main())


def test_figures_of_timer_messages_are_those_of_what_waits(tmp_path: Path) -> None:
    settings, config, given = load_broker_settings(None, options_at(tmp_path), {})

    async def main() -> None:
        broker, peers = Broker(settings, config, given), Peers()
        await broker.start()
        try:

            async def asked() -> dict[str, str]:
                answer = await peers.request(settings.broker_address, RequestCode.GET_BROKER_RUNTIME_INFO)
                return decode_body(answer.body, KVTable).table

            before = await asked()
            names = ("timerOffsetBehind", "timerCongestNum", "timerEnqueueTps", "timerDequeueTps")
            assert [float(before[one]) for one in names] == [0] * 4
            assert 0 <= int(before["timerReadBehind"]) < 60  # seconds: a busy machine may be late by some
            for _ in range(3):
                header = send_header(properties="TIMER_DELAY_SEC\x01600\x02")
                sent = await peers.request(settings.broker_address, RequestCode.SEND_MESSAGE, header, body=b"x")
                assert sent.code == ResponseCode.SUCCESS, sent.remark
            async with asyncio.timeout(60):
                while (found := await asked())["timerCongestNum"] != "3" or float(found["timerEnqueueTps"]) == 0:
                    await asyncio.sleep(0.05)
            assert (found["timerOffsetBehind"], float(found["timerDequeueTps"])) == ("0", 0)
            assert int(found["timerReadBehind"]) < 60
        finally:
            await peers.close()
            await broker.stop()

    run(main())


def test_totals_of_two_midnights_are_kept() -> None:
    days = DayTotals()
    days.midnight(100, 50)
    days.midnight(130, 90)
    assert (days.put_yesterday, days.put_today, days.got_yesterday, days.got_today) == (100, 130, 50, 90)


def test_the_next_midnight_is_awaited() -> None:
    def at(*parts: int) -> float:
        return time.mktime((*parts, 0, 0, -1))

    assert seconds_to_midnight(at(2026, 11, 30, 23, 59, 30)) == 30
    assert seconds_to_midnight(at(2026, 12, 31, 0, 0, 0)) == 86_400
    assert seconds_to_midnight(at(2026, 12, 31, 23, 59, 59) + 0.999) == 1


def test_midnight_is_awaited_for_the_hours_that_the_day_has(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        hours = [
            seconds_to_midnight(time.mktime((2026, month, day, 0, 0, 0, 0, 0, -1))) / 3600
            for month, day in ((3, 29), (6, 1), (10, 25))
        ]
    time.tzset()
    assert hours == [23, 24, 25]
