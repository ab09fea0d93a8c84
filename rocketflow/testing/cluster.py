"""A NameServer and a broker, as two processes, on free ports of 127.0.0.1."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow.testing.errors import ServerStartError
from rocketflow.testing.ports import free_port
from rocketflow.testing.server_process import START_SECONDS, ServerProcess, set_options

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

    from rocketflow.client.admin.admin_client import AdminClient

NEIGHBOURS: Final = (-2, 1)
"""Distances of the other ports that a broker uses."""

SMALL_FILES: Final = {"mappedFileSizeCommitLog": "16777216", "maxHashSlotNum": "1000", "maxIndexNum": "4000"}
"""Sizes of the broker's files; those of RocketMQ are made for gigabytes of messages."""

_BUSY: Final = 75
_ATTEMPTS: Final = 3
_AGAIN_SECONDS: Final = 0.02


class Cluster:
    """A running NameServer and broker. A `with` block stops both at its end; they end with this process anyway."""

    def __init__(self, settings: Mapping[str, str], directory: Path | None) -> None:
        """Choose ports and a directory; `start` starts the servers, and `start_cluster` does both."""
        self._owns_directory = directory is None
        self._directory = directory = directory or Path(tempfile.mkdtemp(prefix="rocketmq-"))
        names = set_options([f"kvConfigPath={directory}/kv.json"])
        self._names = ServerProcess("namesrv", directory / "namesrv.log", free_port(), names)
        given = {
            **SMALL_FILES,
            "storePathRootDir": f"{directory}/store",
            "namesrvAddr": self._names.address,
            **settings,
        }
        options = set_options(f"{key}={value}" for key, value in given.items())
        self._broker = ServerProcess("broker", directory / "broker.log", free_port(NEIGHBOURS), options)

    @property
    def name_server_address(self) -> str:
        """Return `host:port` of the NameServer: what clients are given, or NAMESRV_ADDR is set to."""
        return self._names.address

    @property
    def broker_address(self) -> str:
        """Return `host:port` of the broker."""
        return self._broker.address

    @property
    def directory(self) -> Path:
        """Return the directory of the broker's store (`store`) and of the logs (`broker.log`, `namesrv.log`)."""
        return self._directory

    def start(self) -> None:
        """Start both servers and wait until the broker has registered. Raises ServerStartError."""
        try:
            self._broker.start()
            self._names.start()
            from rocketflow.client.admin import admin_client  # noqa: F401 - is loaded while the servers start

            self._names.wait_until_ready()
            self._wait_for_broker()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop both servers; the temporary directory is deleted."""
        for one in (self._broker, self._names):
            if one.was_started:
                one.stop()
        if self._owns_directory:
            shutil.rmtree(self._directory, ignore_errors=True)

    def kill_broker(self) -> None:
        """Kill the broker by SIGKILL. Messages that it acknowledged are stored."""
        self._broker.kill()

    def restart_broker(self) -> None:
        """Stop the broker if it runs, and start it with the same address and messages. Raises ServerStartError."""
        self._broker.stop()
        self._broker.start()
        self._wait_for_broker()

    def create_topic(self, name: str = "", *, queues: int = 4) -> str:
        """Create a topic, or change the number of its queues, and return its name; without a name a new one.

        The NameServer has its route then. Raises ClientError.
        """
        from rocketflow_store.spi.table_rows import TopicConfig

        topic = name or f"topic-{secrets.token_hex(4)}"
        config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
        self._ask(lambda admin: admin.create_topic(self.broker_address, config))
        return topic

    def __enter__(self) -> Cluster:
        """Return the cluster."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop both servers."""
        self.stop()

    def _wait_for_broker(self) -> None:
        self._broker.wait_until_ready()
        latest = time.monotonic() + START_SECONDS
        while not self._is_registered():
            if time.monotonic() > latest:
                raise ServerStartError(
                    f"the broker {self.broker_address} has not registered at {self.name_server_address}: see "
                    f"{self._broker.log}"
                )
            time.sleep(_AGAIN_SECONDS)

    def _is_registered(self) -> bool:
        known = self._ask(lambda admin: admin.cluster_info()).broker_addr_table
        return any(self.broker_address in one.broker_addrs.values() for one in known.values())

    def _ask(self, request: Callable[[AdminClient], Coroutine[Any, Any, Any]]) -> Any:
        """Send an operator's request from any thread, that of an event loop too."""
        from rocketflow.client.admin.admin_client import AdminClient
        from rocketflow.client.options import ClientOptions
        from rocketflow.client.sync.bridge import LOOP

        async def asked() -> Any:
            async with AdminClient(ClientOptions(name_servers=self.name_server_address)) as admin:
                return await request(admin)

        return LOOP.wait(asked())


def start_cluster(settings: Mapping[str, str] | None = None, *, directory: Path | None = None) -> Cluster:
    """Start a NameServer and a broker.

    `settings` are the broker's, by RocketMQ's keys ("autoCreateTopicEnable": "false"). Without `directory` they use a
    temporary one, which is deleted when they stop.

    Raises ServerStartError, whose text has the end of a server's log.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        cluster = Cluster(settings or {}, directory)
        try:
            cluster.start()
            return cluster
        except ServerStartError as error:
            if error.code != _BUSY or attempt == _ATTEMPTS:  # another process has taken a port meanwhile
                raise
    raise AssertionError
