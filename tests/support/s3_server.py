"""A real S3 server for tests: S3Proxy from Maven Central, over a directory of this machine."""

from __future__ import annotations

import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.request import Request, urlopen

from rocketflow.spark.java_runtime import find_java
from tests.support.maven import JarsNotFetchedError, fetch_jars
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IDENTITY: Final = "backup-user"
SECRET: Final = "s3-secret-for-tests"
BUCKET: Final = "backup"
_VERSION: Final = "3.0.0"
_DEADLINE_S: Final = 60


class S3Server:
    """A running server; a test may stop it early."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process, self.port = process, port

    def uri(self, below: str, *, secret: str = SECRET) -> str:
        """Return the URI of a directory of the bucket, with credentials."""
        where = f"scheme=http&endpoint_override=127.0.0.1%3A{self.port}&region=us-east-1"
        return f"s3://{IDENTITY}:{secret}@{BUCKET}/{below}?{where}"

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(_DEADLINE_S)


@contextmanager
def s3_server(home: Path) -> Iterator[S3Server]:
    """Run a server with an empty bucket, stored in `home`; raise JarsNotFetchedError if it is not available."""
    java = find_java()
    if java is None:
        raise JarsNotFetchedError("no java of version 17 or newer")
    wanted = [f"org.gaul:s3proxy:{_VERSION}", "ch.qos.logback:logback-classic:1.5.18"]
    lib = fetch_jars(f"s3proxy/{_VERSION}", wanted)
    port = free_port()
    (home / "data" / BUCKET).mkdir(parents=True)
    settings = home / "s3.conf"
    settings.write_text(
        f"s3proxy.authorization=aws-v2-or-v4\ns3proxy.identity={IDENTITY}\ns3proxy.credential={SECRET}\n"
        f"s3proxy.endpoint=http://127.0.0.1:{port}\njclouds.provider=filesystem-nio2\n"
        f"jclouds.filesystem.basedir={home / 'data'}\njclouds.identity=unused\njclouds.credential=unused\n"
    )
    logging = home / "logback.xml"
    logging.write_text('<configuration><root level="OFF"/></configuration>')
    flags = ["-XX:TieredStopAtLevel=1", "-Xmx256m", f"-Dlogback.configurationFile={logging}"]
    command = [java, *flags, "-cp", f"{lib}/*", "org.gaul.s3proxy.Main", "--properties", str(settings)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server = S3Server(process, port)
    try:
        _wait(server, process)
        yield server
    finally:
        server.stop()


def _wait(server: S3Server, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urlopen(Request(f"http://127.0.0.1:{server.port}/healthz"), timeout=5).close()
            return
        except OSError as error:
            if getattr(error, "code", None) is not None:  # it answers: that is enough
                return
            time.sleep(0.05)
    raise AssertionError(f"S3Proxy ended with {process.poll()}, or does not answer")
