"""Sends to a broker in this process whose disk stalls: each is answered before its client gives up."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.broker.puts.put_gatherer import PC_SYNCHRONIZED, PCBUSY_CLEAN_QUEUE, SLOW_SECONDS, TIMEOUT_CLEAN_QUEUE
from rocketflow.broker.service import Broker
from rocketflow.broker.settings import load_broker_settings
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command
from rocketflow_store.files import os_files
from tests.rocketflow.broker.test_runtime_figures import options_at
from tests.support.request_headers import send_header

SEND = RequestCode.SEND_MESSAGE


class Disk:
    """Writes to the log that are slow, and hang while `stalled` is set."""

    def __init__(self) -> None:
        self.is_slow = self.is_stalled = False
        self.stalls, self.free = threading.Event(), threading.Event()
        self._write = os_files.write_at

    def write_at(self, fd: int, path: object, position: int, data: bytes) -> None:
        if "commitlog" in str(path) and self.is_slow:
            time.sleep(SLOW_SECONDS * 1.5)
            if self.is_stalled:
                self.stalls.set()
                assert self.free.wait(60)
        self._write(fd, path, position, data)


def test_sends_are_refused_while_the_disk_stalls_and_accepted_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk()
    monkeypatch.setattr(os_files, "write_at", disk.write_at)
    options = options_at(tmp_path) | {"waitTimeMillsInSendQueue": "100", "osPageCacheBusyTimeOutMills": "600"}
    settings, config, given = load_broker_settings(None, options, {})

    async def main() -> None:
        broker, peers = Broker(settings, config, given), Peers()

        async def send() -> Command:
            return await peers.request(settings.broker_address, SEND, send_header("t"), body=b"x", timeout_s=30)

        await broker.start()
        try:
            assert (await send()).code == ResponseCode.SUCCESS
            disk.is_slow = True
            assert (await send()).code == ResponseCode.SUCCESS  # later appends run in a thread
            disk.is_stalled = True
            stuck = asyncio.ensure_future(send())
            while not disk.stalls.is_set():
                await asyncio.sleep(0.005)
            late = await send()
            assert (late.code, stuck.done()) == (ResponseCode.SYSTEM_BUSY, False)
            assert (late.remark or "").startswith(TIMEOUT_CLEAN_QUEUE)
            refused = late
            while refused.remark != PC_SYNCHRONIZED:  # once the append has held the put lock for 600 ms
                assert (refused.remark or "").startswith((TIMEOUT_CLEAN_QUEUE, PCBUSY_CLEAN_QUEUE)), refused.remark
                refused = await send()
                assert refused.code == ResponseCode.SYSTEM_BUSY
            disk.is_slow = False
            disk.free.set()
            assert (await stuck).code == ResponseCode.SUCCESS
            assert (await send()).fields["queueOffset"] == "3"
        finally:
            disk.free.set()
            await peers.close()
            await broker.stop()

    run(main())
