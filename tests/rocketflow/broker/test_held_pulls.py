"""Pulls that wait for a message, of a broker in this process: from any writer, they are answered at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.broker.reads.held_pulls import HeldPulls
from rocketflow.broker.service import Broker
from rocketflow.broker.settings import load_broker_settings
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow_store.spi.broker import RawMessage, WritingStore
from tests.rocketflow.broker.test_runtime_figures import options_at
from tests.support.request_headers import pull_header, send_header

SUSPEND = 2


@pytest.mark.parametrize("writer", ["the loop", "another thread"])
def test_pull_that_waits_is_answered_when_its_message_is_stored(
    writer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, config, given = load_broker_settings(None, options_at(tmp_path), {})
    stores = list[WritingStore]()

    async def main() -> None:
        broker, peers, waits = Broker(settings, config, given), Peers(), asyncio.Event()
        real_hold, real_read = HeldPulls.hold, WritingStore.read_messages

        def hold(held: HeldPulls[Any, Any], *pull: Any) -> bool:
            waits.set()
            return real_hold(held, *pull)

        def read(store: WritingStore, *place: Any, **more: Any) -> Any:
            stores.append(store)
            return real_read(store, *place, **more)

        monkeypatch.setattr(HeldPulls, "hold", hold)
        monkeypatch.setattr(WritingStore, "read_messages", read)
        await broker.start()
        try:
            address = settings.broker_address
            sent = await peers.request(address, RequestCode.SEND_MESSAGE, send_header("t"), body=b"x")
            assert sent.code == ResponseCode.SUCCESS, sent.remark
            header = pull_header("t", offset=1, sys_flag=SUSPEND | 4, suspend_timeout_millis=200_000)
            pulled = asyncio.create_task(peers.request(address, RequestCode.PULL_MESSAGE, header, timeout_s=15))
            await waits.wait()
            if writer == "the loop":
                await peers.request(address, RequestCode.SEND_MESSAGE, send_header("t"), body=b"late")
            else:
                late = [RawMessage("t", 0, b"late", b"", 0, 0, 0, bytes(8))]
                await asyncio.to_thread(lambda: stores[0].publish(stores[0].append(late).end))
            found = await pulled
            assert (found.code, b"late" in found.body) == (ResponseCode.SUCCESS, True)
        finally:
            await peers.close()
            await broker.stop()

    run(main())
