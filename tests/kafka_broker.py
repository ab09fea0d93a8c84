"""A real Kafka broker (KRaft, one node) from Maven Central, on free ports of 127.0.0.1, stopped by its process id."""

from __future__ import annotations

import base64
import contextlib
import socket
import subprocess
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketflow.runtime import find_java
from tests.maven import JarsNotFetchedError, fetch_jars

if TYPE_CHECKING:
    from typing import Self

KAFKA_VERSION: Final = "4.3.1"
_START_S: Final = 60.0
_QUICK: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_LOGGING: Final = """rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %c %m%n
"""
_PROPERTIES: Final = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
num.partitions=4
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
"""


def kafka_jars() -> Path:
    """The broker's class path; raises JarsNotFetchedError."""
    return fetch_jars(
        f"kafka/{KAFKA_VERSION}",
        [
            f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
            "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3",
            "org.apache.logging.log4j:log4j-core:2.24.3",
            "org.apache.logging.log4j:log4j-api:2.24.3",
        ],
    )


def connector_jars() -> list[Path]:
    """Spark's Kafka connector: the newest set that can be had and runs on Spark 4.3."""
    lib = fetch_jars(
        "kafka/spark-connector-4.2.0",
        [
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
            "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
            "org.apache.kafka:kafka-clients:3.9.2",
            "org.apache.commons:commons-pool2:2.13.1",
        ],
        transitive=False,
    )
    return sorted(lib.glob("*.jar"))


class KafkaBroker:
    """One broker with its own directory; a context manager."""

    def __init__(self, home: Path, heap: str = "1g", *, quick: bool = False) -> None:
        """`quick` starts in half the time, and is slow ever after."""
        java = find_java()
        if java is None:
            raise JarsNotFetchedError("no java of version 17 or newer")
        home.mkdir(parents=True, exist_ok=True)
        self._log = home / "broker.log"
        port, controller = _free_ports(2)
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self._port = port
        properties = home / "server.properties"
        properties.write_text(_PROPERTIES.format(port=port, controller=controller, data=home / "data"))
        logging = home / "log4j2.properties"
        logging.write_text(_LOGGING)
        java_command = [
            str(java),
            *(_QUICK if quick else ()),
            f"-Xms{heap}",
            f"-Xmx{heap}",
            f"-Dlog4j2.configurationFile={logging}",
            "-cp",
            str(kafka_jars() / "*"),
        ]
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = [str(java), *_QUICK, *java_command[1:], "kafka.tools.StorageTool"]
        subprocess.run([*tool, "format", "-t", cluster, "-c", str(properties)], check=True, capture_output=True)
        self.data = home / "data"
        self._command = [*java_command, "kafka.Kafka", str(properties)]
        self.start()

    def start(self) -> None:
        """Start it, or start it again with the same data and address."""
        with self._log.open("a") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self._await_port()

    def kill(self) -> None:
        """SIGKILL, as a machine that goes."""
        self._process.kill()
        self._process.wait()

    def _await_port(self) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"the broker ended: {self._log.read_text()[-2000:]}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
                return
            time.sleep(0.1)
        self.stop()
        raise RuntimeError(f"the broker does not listen after {_START_S} s: {self._log.read_text()[-2000:]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """TERM, and KILL where that takes too long."""
        if self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as open_sockets:
        found = []
        for _ in range(count):
            listening = open_sockets.enter_context(socket.socket())
            listening.bind(("127.0.0.1", 0))
            found.append(listening.getsockname()[1])
        return found
