"""A broker with very many undecided half messages asks about all of them while it takes sends."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command
from rocketflow_store import StoreConfig
from rocketflow_store.spi.broker import RawMessage, encode_properties, open_store
from tests.reliability.network.wire import no_traceback
from tests.support.request_headers import send_header
from tests.support.results import measured
from tests.support.servers import running_broker, store_of
from tests.support.transactions import PRODUCER_GROUP, TransactionClient
from tests.support.trials import LEVEL

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(LEVEL == "sample", reason="writes 250 MB: RF_FAULTS=1 runs it"),
]

HALVES = 100_000
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"


def filled(store: Path) -> None:
    """Write half messages of 1 KiB into a new store."""
    born_ms = int(time.time() * 1000) - 60_000
    common = {"TRAN_MSG": "true", "PGROUP": PRODUCER_GROUP, "REAL_TOPIC": "t", "REAL_QID": "0"}
    config = StoreConfig(mapped_file_size_commit_log=1 << 26, max_hash_slot_num=100_000, max_index_num=400_000)
    with open_store(store, config, store_host="127.0.0.1:1") as opened:
        for first in range(0, HALVES, 1_000):
            run_of = [
                RawMessage(
                    *(HALF_TOPIC, 0, bytes(1_024), encode_properties({**common, "UNIQ_KEY": f"u{number}"})),
                    *(0, 0, born_ms, bytes(8)),
                    is_internal=True,
                )
                for number in range(first, first + 1_000)
            ]
            appended = opened.append(run_of)
            assert all(one.stored for one in appended.results)
            opened.publish(appended.end)


def test_all_undecided_messages_are_asked_about_in_one_round_beside_sends(tmp_path: Path) -> None:
    filled(tmp_path / "store")
    slowest = sends = 0.0
    took = 0.0

    async def load(address: str) -> None:
        nonlocal slowest, sends, took
        asked: list[Command] = []
        async with (
            TransactionClient(address, on_question=asked.append) as client,
            TransactionClient(address) as sender,
        ):
            await client.heartbeat()
            async with asyncio.timeout(60):
                while not asked:
                    await asyncio.sleep(0.01)
            began = time.monotonic()
            while len(asked) < HALVES:
                before = time.monotonic()
                assert before - began < 300, f"{len(asked):,} of {HALVES:,} were asked about"
                answer = await sender.ask(RequestCode.SEND_MESSAGE, send_header("s"), b"x")
                assert answer.code == ResponseCode.SUCCESS, answer.remark
                slowest, sends = max(slowest, time.monotonic() - before), sends + 1
                await asyncio.sleep(0.005)
            took = time.monotonic() - began
            assert len({one.fields["msgId"] for one in asked[:HALVES]}) == HALVES

    settings = ("transactionTimeOut=1000", "transactionCheckInterval=10000", "waitTimeMillsInSendQueue=20000")
    with running_broker(tmp_path, *settings) as broker:
        run(load(broker.address))
        no_traceback(broker)
        assert store_of(broker).exists()
    measured("checkedHalves", halves=HALVES, seconds=round(took, 2), slowest_send_ms=round(slowest * 1000), sends=sends)
