"""RocketFlow's own servers as processes, on free ports of 127.0.0.1, stopped by SIGTERM."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rocketflow.aio.loop import run
from rocketflow.client.errors import RequestRefusedError
from rocketflow.client.messages import OutgoingMessage
from rocketflow.client.producer import TEMPLATE_TOPIC, Producer, master_of
from tests.support.ports import free_port
from tests.support.processes import end
from tests.support.trials import environment

START_SECONDS = 60.0
STOP_SECONDS = 15.0
REGISTERED_SECONDS = 500.0


class RunningServer:
    """A server process; `port` is the one it listens at, `log` what it printed."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.log = log

    @property
    def address(self) -> str:
        """Return `host:port`."""
        return f"127.0.0.1:{self.port}"

    def stop(self) -> int:
        """Stop it by SIGTERM and return its exit code."""
        self.process.terminate()
        return self.process.wait(STOP_SECONDS)

    def stop_in_order(self) -> None:
        """Stop it by SIGTERM; AssertionError if its exit code is not 0 or its log has a traceback."""
        assert self.stop() == 0, self.log.read_text()[-3000:]
        assert "Traceback" not in self.log.read_text(), self.log.read_text()[-3000:]

    def kill(self) -> None:
        """Stop it by SIGKILL."""
        self.process.kill()
        self.process.wait()


@contextmanager
def running(command: str, home: Path, *arguments: str, port: int = 0, shell: str = "") -> Iterator[RunningServer]:
    """Run `rocketflow COMMAND` until the end of the block; yield once it says that it listens.

    `shell` is what a shell runs before, ending with `exec`.
    """
    home.mkdir(parents=True, exist_ok=True)
    port = port or free_port((-2, 1))
    log = home / f"{command}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(("sh", "-c", f'{shell} "$@"', "sh") if shell else ()),
                *(sys.executable, "-c", "from rocketflow.cli import main; main()", command),
                *("--set", f"listenPort={port}", *arguments),
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=environment(),
        )
    server = RunningServer(process, port, log)
    try:
        latest = time.monotonic() + START_SECONDS
        while b"listens at" not in log.read_bytes():
            assert process.poll() is None, f"{command} ended with {process.returncode}: {log.read_text()[-3000:]}"
            assert time.monotonic() < latest, f"{command} is not up after {START_SECONDS} s: {log.read_text()[-3000:]}"
            time.sleep(0.02)
        yield server
    finally:
        if process.poll() is None:
            end(process, STOP_SECONDS)


SMALL_STORE = ("mappedFileSizeCommitLog=16777216", "maxHashSlotNum=1000", "maxIndexNum=4000")


@contextmanager
def running_broker(home: Path, *settings: str, port: int = 0, shell: str = "") -> Iterator[RunningServer]:
    """Run a broker with a small store in `home/store`."""
    options = [f"storePathRootDir={home}/store", *SMALL_STORE, *settings]
    arguments = [part for one in options for part in ("--set", one)]
    with running("broker", home, *arguments, port=port, shell=shell) as broker:
        yield broker


def store_of(broker: RunningServer) -> Path:
    """Return the store's directory of a `running_broker`."""
    return broker.log.parent / "store"


def send(broker: RunningServer, topic: str, bodies: Sequence[str]) -> None:
    """Send bodies as one batch to queue 0 of a topic, which has two queues."""

    async def sent() -> None:
        producer = Producer("", timeout_s=30)
        await producer.create_topic(broker.address, topic, 2)
        await producer.send_batch(broker.address, topic, 0, [OutgoingMessage(one.encode(), {}) for one in bodies])
        await producer.close()

    run(sent())


def wait_for_a_broker(names: str) -> None:
    """Wait until a broker has registered at a NameServer: Apache's does so some time after it has started."""

    async def ask() -> None:
        producer = Producer(names)
        async with asyncio.timeout(REGISTERED_SECONDS):
            while True:
                with suppress(RequestRefusedError):
                    if master_of(await producer.route(TEMPLATE_TOPIC)):
                        break
                await asyncio.sleep(0.1)
        await producer.close()

    run(ask())
