"""RocketFlow's own servers as processes, on free ports of 127.0.0.1, stopped by SIGTERM."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from rocketflow.aio.loop import run
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.errors import NoRouteError
from rocketflow.client.options import ClientOptions
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.headers.send import SendMessageRequestHeaderV2, SendMessageResponseHeader
from rocketflow.testing.cluster import NEIGHBOURS, SMALL_FILES
from rocketflow.testing.ports import free_port
from rocketflow.testing.server_process import ServerProcess, set_options
from rocketflow_store.spi.messages import Message, batch_body
from rocketflow_store.spi.table_rows import TopicConfig

REGISTERED_SECONDS = 500.0


class RunningServer(ServerProcess):
    """A process of the command `rocketflow`; `port` is the one it listens at, `log` what it printed."""

    entry = "rocketflow.cli"

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
        async with direct(timeout_s=30) as client:
            config = TopicConfig(topic_name=topic, read_queue_nums=2, write_queue_nums=2)
            await client.create_topic(broker.address, config)
            await put_batch(client, broker.address, 0, [Message(topic, one.encode()) for one in bodies])

    run(sent())


@asynccontextmanager
async def direct(names: str = "127.0.0.1:1", timeout_s: float = 60.0) -> AsyncIterator[AdminClient]:
    """Yield a client for requests to brokers by address; producers need a NameServer too."""
    async with AdminClient(ClientOptions(name_servers=names, timeout_s=timeout_s)) as client:
        yield client


async def put_batch(client: AdminClient, address: str, queue_id: int, messages: Sequence[Message]) -> int:
    """Send messages as one batch to a queue of the broker at an address; return the queue offset of the first."""
    header = SendMessageRequestHeaderV2(
        producer_group="tests",
        topic=messages[0].topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=int(time.time() * 1000),
        flag=0,
        properties="",
        batch=True,
    )
    code = RequestCode.SEND_BATCH_MESSAGE
    reply = await client.cluster.request(address, code, header, body=batch_body(messages))
    return reply.header(SendMessageResponseHeader).queue_offset


def wait_for_a_broker(names: str) -> None:
    """Wait until a broker has registered at a NameServer: Apache's does so some time after it has started."""

    async def ask() -> None:
        async with AdminClient(ClientOptions(name_servers=names)) as client, asyncio.timeout(REGISTERED_SECONDS):
            while True:
                with suppress(NoRouteError):
                    if await client.masters("TBW102"):
                        break
                await asyncio.sleep(0.1)

    run(ask())


def until(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Wait until a condition holds; return whether it does."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def no_traceback(server: RunningServer) -> None:
    """Check that the log of a server has no traceback."""
    log = server.log.read_text()
    assert "Traceback" not in log, log[-3000:]
