"""Row N15: the lag of the broker's event loop under load is measured by its own watch, and reported."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.remoting.codes import ResponseCode
from tests.reliability.network.wire import CODE, asked
from tests.support import results
from tests.support.http_get import get
from tests.support.ports import free_port
from tests.support.request_headers import pull_header, send_header
from tests.support.results import Tally
from tests.support.servers import RunningServer, no_traceback, running_broker
from tests.support.trials import LEVEL

pytestmark = pytest.mark.slow

SECONDS = {"sample": 2, "fast": 20, "full": 120}[LEVEL]
SENDERS = 32


def lags(port: int) -> dict[float, float]:
    """Return how many lags were at most each bound (s)."""
    families = text_string_to_metric_families(get(port, "/metrics")[1])
    samples = [one for family in families for one in family.samples]
    return {float(one.labels["le"]): one.value for one in samples if one.name == "rocketflow_loop_lag_seconds_bucket"}


async def load(broker: RunningServer) -> int:
    """Send and pull on four connections for SECONDS; return the number of messages that were stored."""
    everyone = [Peers() for _ in range(4)]
    channels = [await peers.channel(broker.address) for peers in everyone]
    end, sent = time.monotonic() + SECONDS, 0

    async def sends(number: int) -> None:
        nonlocal sent
        while time.monotonic() < end:
            header = send_header("load", queue_id=number % 4)
            answer = await asked(channels[number % 4], CODE.SEND_MESSAGE, header, bytes(1000))
            assert answer.code in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY), answer.remark
            sent += answer.code == ResponseCode.SUCCESS

    async def pulls(queue_id: int) -> None:
        offset = 0
        while time.monotonic() < end:
            header = pull_header("load", queue_id, offset, sys_flag=6, suspend_timeout_millis=100)
            answer = await asked(channels[queue_id], CODE.PULL_MESSAGE, header)
            offset = int(answer.fields.get("nextBeginOffset", offset))

    await asyncio.gather(*(sends(number) for number in range(SENDERS)), *(pulls(queue) for queue in range(4)))
    for peers in everyone:
        await peers.close()
    return sent


@pytest.mark.parametrize("flush", ["SYNC_FLUSH"] if LEVEL == "sample" else ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_the_lag_under_load_is_measured(tmp_path: Path, flush: str, tally: Callable[..., Tally]) -> None:
    port = free_port()
    exporter = ("metricsExporterType=PROM", f"metricsPromExporterPort={port}")
    with running_broker(tmp_path, f"flushDiskType={flush}", *exporter) as broker:
        sent = run(load(broker))
        found = lags(port)
        assert broker.stop() == 0
        no_traceback(broker)
    count = found[float("inf")]
    assert sent > 0
    assert count > 0
    highest = min(bound for bound, value in found.items() if value == count)
    results.measured("lag", lags=[count], late=[count - found[0.1]], highest_s=[highest])
    tally("N15", flush).trial(None, f"{sent} messages, {count:.0f} lags, at most {highest} s")
