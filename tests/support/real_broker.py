"""A real RocketMQ name server and broker over a directory, on free ports of 127.0.0.1."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import pytest

from rocketflow_store import StoreConfig
from tests.support.java_programs import FLAGS, broker_jars, compiled
from tests.support.maven import JarsNotFetchedError, java_and_javac
from tests.support.ports import free_port
from tests.support.processes import end

BOOT_SECONDS = 60.0
STOP_SECONDS = 60.0
CLIENT_SECONDS = 120.0
_NO_TLS = "-Dtls.server.mode=disabled"
"""Else each server makes a key and a certificate at its start, which takes more CPU time than the rest of it."""

_CALM = "transactionMetricFlushInterval=200\ntimerFlushIntervalMs=10000\n"
"""One of the broker's threads waits in a busy loop for the first such interval; the other copies 37 MB in each."""


class RealBroker:
    """A broker that runs within a `with` block; `port` serves the remoting protocol.

    The end of the block waits for its clean stop by SIGTERM, which takes five seconds or more.
    """

    def __init__(
        self,
        version: str,
        store: Path,
        config: StoreConfig,
        work: Path,
        conf: str = "",
        names_port: int = 0,
        flags: Sequence[str] = (*FLAGS, "-XX:MaxDirectMemorySize=512m"),
        *,
        last: bool = False,
    ) -> None:
        """Fetch the jars.

        `conf` holds lines that are added to broker.conf, `names_port` is a name server that runs, `flags` are Java's.
        `last` is for a store without a reader afterwards: the end of the block kills the broker.
        """
        try:
            self._java = java_and_javac()[0]
            self._lib = broker_jars(version)
        except JarsNotFetchedError as error:
            pytest.skip(str(error))
        self._classes = compiled("Client", version, self._lib)
        self._store, self._config, self._work, self._conf = store, config, work, conf
        self._running: list[subprocess.Popen[bytes]] = []
        self._own_names, self._flags, self._last = names_port == 0, flags, last
        self.port, self.names_port = 0, names_port

    def __enter__(self) -> RealBroker:
        (self._work / "conf").mkdir(parents=True, exist_ok=True)
        for one in ("broker", "namesrv"):  # RocketMQ 4 asks for them
            (self._work / "conf" / f"logback_{one}.xml").write_text("<configuration/>")
        self.names_port = names = self.names_port or free_port()
        self.port = free_port((-2, 1))
        try:
            if self._own_names:
                conf = f"listenPort={names}\nbindAddress=127.0.0.1\n"
                self._start("namesrv.NamesrvStartup", "namesrv.conf", conf, names)
            self._start("broker.BrokerStartup", "broker.conf", self._broker_conf(names), self.port)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def ask(self, topic: str, lines: list[str]) -> list[list[str]]:
        """Wait until the broker serves `topic` and return the answers of Apache's client (`java/Client.java`)."""
        done = subprocess.run(
            [
                *(self._java, *FLAGS, f"-Duser.home={self._work}", "-cp", f"{self._lib}/*:{self._classes}"),
                *("Client", f"127.0.0.1:{self.names_port}", self._config.broker_name, topic),
            ],
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            text=True,
            timeout=CLIENT_SECONDS,
            check=False,
        )
        found = [line.split("\t") for line in done.stdout.splitlines()]
        assert ["CLOSED"] in found, (done.stdout[-1000:], done.stderr[-2000:])
        return found

    @property
    def pid(self) -> int:
        """Return the broker's process id."""
        return self._running[-1].pid

    def kill(self) -> None:
        """Kill the broker and its name server with SIGKILL."""
        for process in self._running:
            process.kill()

    def _broker_conf(self, names: int) -> str:
        return (
            f"brokerClusterName=RF\nbrokerName={self._config.broker_name}\nbrokerId=0\nbrokerIP1=127.0.0.1\n"
            f"namesrvAddr=127.0.0.1:{names}\nlistenPort={self.port}\nhaListenPort={self.port + 1}\n"
            f"storePathRootDir={self._store}\nstorePathCommitLog={self._store}/commitlog\n"
            f"mappedFileSizeCommitLog={self._config.mapped_file_size_commit_log}\n"
            f"mappedFileSizeConsumeQueue={self._config.mapped_file_size_consume_queue}\n"
            f"maxHashSlotNum={self._config.max_hash_slot_num}\nmaxIndexNum={self._config.max_index_num}\n"
            f"bindAddress=127.0.0.1\nmappedFileSizeTimerLog=1048576\ndiskMaxUsedSpaceRatio=95\nflushDiskType=ASYNC_FLUSH\n"
            f"{_CALM}{self._conf}"
        )

    def _start(self, main: str, name: str, conf: str, port: int) -> None:
        (self._work / name).write_text(conf)
        log = self._work / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    *(self._java, *self._flags, _NO_TLS, f"-Duser.home={self._work}"),
                    *(f"-Drocketmq.home.dir={self._work}", "-cp", f"{self._lib}/*"),
                    *(f"org.apache.rocketmq.{main}", "-c", str(self._work / name)),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._running.append(process)
        latest = time.monotonic() + BOOT_SECONDS
        while b"boot success" not in log.read_bytes() or not answers(port):
            assert process.poll() is None, f"{main} ended with {process.returncode}: {log.read_text()[-2000:]}"
            assert time.monotonic() < latest, f"{main} is not up after {BOOT_SECONDS} s: {log.read_text()[-2000:]}"
            time.sleep(0.05)

    def _stop(self) -> None:
        for process in reversed(self._running):
            if self._last or (self._own_names and process is self._running[0]):  # a name server keeps nothing
                process.kill()
                process.wait()
            else:
                end(process, STOP_SECONDS)
        self._running.clear()


def answers(port: int) -> bool:
    """Return True if a server accepts connections on the port."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
