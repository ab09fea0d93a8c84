"""Pulls that wait for the disk, of a broker in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.broker.service import Broker
from rocketflow.broker.settings import load_broker_settings
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow_store import WouldBlockError
from rocketflow_store.spi.broker import RawMessage, ReadResult, WritingStore
from tests.rocketflow.broker.test_runtime_figures import options_at
from tests.support.request_headers import pull_header, send_header

SUSPEND = 2


def test_a_message_that_arrives_during_a_cold_read_answers_the_pull_that_waits_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, config, given = load_broker_settings(None, options_at(tmp_path), {})
    real, cold = WritingStore.read_messages, list[int]()

    def read(store: WritingStore, topic: str, queue_id: int, *limits: int, nowait: bool, **more: Any) -> ReadResult:
        if nowait and not cold:
            raise WouldBlockError(tmp_path)
        found = real(store, topic, queue_id, *limits, nowait=nowait, **more)
        if not nowait:
            cold.append(limits[0])
            messages: Sequence[RawMessage] = [RawMessage(topic, queue_id, b"late", b"", 0, 0, 0, bytes(8))]
            store.publish(store.append(messages).end)
        return found

    async def main() -> None:
        broker, peers = Broker(settings, config, given), Peers()
        await broker.start()
        try:
            sent = await peers.request(settings.broker_address, RequestCode.SEND_MESSAGE, send_header("t"), body=b"x")
            assert sent.code == ResponseCode.SUCCESS, sent.remark
            monkeypatch.setattr(WritingStore, "read_messages", read)
            header = pull_header("t", offset=1, sys_flag=SUSPEND | 4, suspend_timeout_millis=200_000)
            found = await peers.request(settings.broker_address, RequestCode.PULL_MESSAGE, header, timeout_s=15)
            assert (found.code, cold) == (ResponseCode.SUCCESS, [1])
            assert b"late" in found.body
        finally:
            await peers.close()
            await broker.stop()

    run(main())
