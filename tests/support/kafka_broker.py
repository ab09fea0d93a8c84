"""A real Kafka broker (KRaft, one node) from Maven Central, on free ports of 127.0.0.1."""

from __future__ import annotations

import base64
import contextlib
import secrets
import shutil
import socket
import subprocess
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketflow.spark.java_runtime import find_java
from tests.support.maven import JarsNotFetchedError, fetch_jars
from tests.support.ports import free_port
from tests.support.processes import end

if TYPE_CHECKING:
    from typing import Self

KAFKA_VERSION: Final = "4.3.1"
_START_S: Final = 60.0
_QUICK: Final = (
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"),
)
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


_SECURED: Final = """listeners=PLAINTEXT://127.0.0.1:{port},SECURED://127.0.0.1:{secured},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SECURED://127.0.0.1:{secured}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURED:SASL_SSL,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.secured.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  user_{user}="{password}";
listener.name.secured.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.secured.ssl.keystore.type=PEM
listener.name.secured.ssl.keystore.location={keystore}
"""


@dataclass
class SecuredListener:
    """A second listener: TLS with a certificate from openssl, and one user."""

    home: Path
    user: str = "bridge"
    password: str = field(default_factory=lambda: secrets.token_hex(16))
    bootstrap_servers: str = ""

    @property
    def certificate(self) -> Path:
        """The certificate that a client has to trust."""
        return self.home / "certificate.pem"

    def make(self) -> Path:
        """Create key and certificate and return one file with both; raise JarsNotFetchedError without openssl."""
        openssl = shutil.which("openssl")
        if openssl is None:
            raise JarsNotFetchedError("no openssl to make a certificate")
        self.home.mkdir(parents=True, exist_ok=True)
        key, both = self.home / "key.pem", self.home / "keystore.pem"
        command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
        command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(self.certificate)]
        subprocess.run(command, check=True, capture_output=True)
        both.write_text(key.read_text() + self.certificate.read_text())
        return both


def kafka_jars() -> Path:
    """Return the folder of the broker's jars; raise JarsNotFetchedError if they cannot be fetched."""
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
    """Return the jars of Spark's Kafka connector: the newest available set that runs on Spark 4.3."""
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

    def __init__(
        self, home: Path, heap: str = "1g", *, quick: bool = False, secured: SecuredListener | None = None
    ) -> None:
        """Format the data directory and start the broker; `quick` halves the start time but makes it slower later."""
        java = find_java()
        if java is None:
            raise JarsNotFetchedError("no java of version 17 or newer")
        home.mkdir(parents=True, exist_ok=True)
        self._log = home / "broker.log"
        port = free_port((1, 2))
        controller, secured_port = port + 1, port + 2
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self._port = port
        properties = home / "server.properties"
        text = _PROPERTIES.format(port=port, controller=controller, data=home / "data")
        users: list[str] = []
        if secured is not None:
            secured.bootstrap_servers = f"127.0.0.1:{secured_port}"
            ports = {"port": port, "controller": controller, "secured": secured_port}
            text += _SECURED.format(**ports, user=secured.user, password=secured.password, keystore=secured.make())
            users = ["--add-scram", f"SCRAM-SHA-256=[name={secured.user},password={secured.password}]"]
        properties.write_text(text)
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
        cluster = base64.urlsafe_b64encode(b"\x00" + uuid.uuid4().bytes[1:]).decode().rstrip("=")  # never begins with -
        tool = [str(java), *_QUICK, *java_command[1:], "kafka.tools.StorageTool"]
        subprocess.run([*tool, "format", "-t", cluster, "-c", str(properties), *users], check=True, capture_output=True)
        self.data = home / "data"
        self._command = [*java_command, "kafka.Kafka", str(properties)]
        self.start()

    def start(self) -> None:
        """Start or restart the broker with the same data and address, and wait until it listens."""
        with self._log.open("a") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self._await_port()

    def kill(self) -> None:
        """Kill the process with SIGKILL, as a machine failure does."""
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
        """Stop the process with SIGTERM, and after 30 s with SIGKILL."""
        if self._process.poll() is not None:
            return
        end(self._process, 30)
