"""Requests with a late answer are logged, pulls that waited for messages are not."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.aio.server import Request, Server
from rocketflow.aio.slow_requests import SLOW_SECONDS, SlowRequests
from rocketflow.remoting.codes import RequestCode


def test_a_late_answer_is_logged_and_one_after_a_wait_for_messages_is_not(caplog: pytest.LogCaptureFixture) -> None:
    async def slow(request: Request) -> None:
        await asyncio.sleep(SLOW_SECONDS + 0.1)
        request.reply()

    async def held(request: Request) -> None:
        await asyncio.sleep(SLOW_SECONDS + 0.1)
        request._replace(was_held=True).reply()

    def quick(request: Request) -> Coroutine[Any, Any, None] | None:
        request.reply()
        return None

    async def main() -> None:
        server = Server(
            {RequestCode.QUERY_MESSAGE: slow, RequestCode.PULL_MESSAGE: held, RequestCode.GET_MAX_OFFSET: quick}
        )
        port = await server.listen("127.0.0.1", 0)
        peers = Peers()
        codes = (RequestCode.QUERY_MESSAGE, RequestCode.PULL_MESSAGE, RequestCode.GET_MAX_OFFSET)
        await asyncio.gather(*(peers.request(f"127.0.0.1:{port}", one, timeout_s=20) for one in codes))
        await peers.close()
        await server.close()

    run(main())
    [said] = [one.getMessage() for one in caplog.records if "slow" in one.getMessage()]
    assert said.startswith("slow requests: 1, the slowest is 12 QUERY_MESSAGE from 127.0.0.1:")


def test_slow_requests_of_a_period_share_a_line(caplog: pytest.LogCaptureFixture) -> None:
    slow = SlowRequests(report_s=3600)
    for seconds in (1.0, 2.0, 5.0, 3.0):
        slow.note(310, "10.0.0.1:5", seconds)
    assert [one.getMessage() for one in caplog.records] == [
        "slow requests: 1, the slowest is 310 SEND_MESSAGE_V2 from 10.0.0.1:5, answered after 1.0 s"
    ]
    caplog.clear()
    often = SlowRequests(report_s=0)
    often.note(9999, "10.0.0.1:5", 1.5)
    assert "the slowest is 9999 from" in caplog.text
