"""Apache's broker answers pulls without a subscription, and other requests, as RocketFlow's: by the same checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.headers.header import Header
from tests.apache.judge import versions
from tests.apache.test_apache_opens_rocketflow_stores import SIZES
from tests.support.answer_checks import CHECKS
from tests.support.pull_checks import check_broadcasting, check_subscriptions
from tests.support.real_broker import RealBroker
from tests.support.request_headers import send_header
from tests.support.trials import LEVEL

pytestmark = pytest.mark.apache

TIMEOUT_SECONDS = 30
NEWEST = "5.5.0"
"""The version whose other answers are compared: 4.9 has no BatchCQ topics, 5.3.3 takes every name of a group."""


@pytest.mark.skipif(LEVEL == "sample", reason="starts a broker of Apache's: RF_FAULTS=1 runs it")
@pytest.mark.slow
@pytest.mark.parametrize("version", versions(NEWEST))
def test_apaches_broker_answers_alike(version: str, tmp_path: Path) -> None:
    with RealBroker(version, tmp_path / "s", SIZES, tmp_path / "home", last=True) as broker:
        address = f"127.0.0.1:{broker.port}"

        async def checks() -> None:
            for check in (check_subscriptions, check_broadcasting, *(CHECKS if version == NEWEST else ())):
                peers = Peers()  # each check begins without a member of the group

                async def ask(code: int, header: Header | None = None, body: bytes = b"", by: Peers = peers) -> Command:
                    return await by.request(address, code, header, body=body, timeout_s=TIMEOUT_SECONDS)

                try:
                    for number in range(3):
                        sent = await ask(RequestCode.SEND_MESSAGE, send_header("t"), b"%d" % number)
                        assert sent.code == ResponseCode.SUCCESS, sent.remark
                    await check(ask)
                finally:
                    await peers.close()

        run(checks())
