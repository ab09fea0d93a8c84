"""RocketFlow's own servers as processes, on free ports of 127.0.0.1, stopped by SIGTERM."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rocketflow.aio.loop import run
from rocketflow.client.errors import RequestRefusedError
from rocketflow.client.messages import OutgoingMessage
from rocketflow.client.producer import TEMPLATE_TOPIC, Producer, master_of
from rocketflow.testing.cluster import NEIGHBOURS, SMALL_FILES
from rocketflow.testing.ports import free_port
from rocketflow.testing.server_process import ServerProcess, set_options

REGISTERED_SECONDS = 500.0


class RunningServer(ServerProcess):
    """A server process; `port` is the one it listens at, `log` what it printed."""

    def stop_in_order(self) -> None:
        """Stop it by SIGTERM; AssertionError if its exit code is not 0 or its log has a traceback."""
        assert self.stop() == 0, self.log.read_text()[-3000:]
        assert "Traceback" not in self.log.read_text(), self.log.read_text()[-3000:]


@contextmanager
def running(command: str, home: Path, *arguments: str, port: int = 0, shell: str = "") -> Iterator[RunningServer]:
    """Run `rocketflow COMMAND` until the end of the block; yield once it says that it listens.

    `shell` is what a shell runs before, ending with `exec`.
    """
    log = home / f"{command}.log"
    log.unlink(missing_ok=True)
    prefix = ("sh", "-c", f'{shell} "$@"', "sh") if shell else ()
    server = RunningServer(command, log, port or free_port(NEIGHBOURS), arguments, prefix=prefix)
    server.start()
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


@contextmanager
def running_broker(home: Path, *settings: str, port: int = 0, shell: str = "") -> Iterator[RunningServer]:
    """Run a broker with a small store in `home/store`."""
    small = (f"{key}={value}" for key, value in SMALL_FILES.items())
    options = set_options([f"storePathRootDir={home}/store", *small, *settings])
    with running("broker", home, *options, port=port, shell=shell) as broker:
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
