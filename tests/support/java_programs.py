"""RocketMQ's jars, and programs of `tests/apache/java` compiled against those of a version."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support.maven import SHORT_RUN, compile_java, fetch_jars

SOURCES: Final = Path(__file__).parents[1] / "apache" / "java"
FLAGS: Final = (
    *("-Xms64m", "-Xmx512m", *SHORT_RUN, "-XX:-UsePerfData"),
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"),  # of published jars
    *("--add-exports=java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"),
    *("--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED"),
)
"""Options of Java for a short run."""


def broker_jars(version: str) -> Path:
    """Return the folder with the jars of RocketMQ's NameServer, broker and clients. Raises JarsNotFetchedError."""
    parts = ("store", "broker", "namesrv")
    return fetch_jars(f"apache/{version}-broker", [f"org.apache.rocketmq:rocketmq-{one}:{version}" for one in parts])


def compiled(name: str, version: str, lib: Path) -> Path:
    """Compile `java/NAME.java` and return the folder of its classes."""
    source = SOURCES / f"{name}.java"
    text = source.read_text()
    if version.startswith("5."):  # classes moved between the versions
        text = text.replace("org.apache.rocketmq.store.MessageExt", "org.apache.rocketmq.common.message.MessageExt")
        moved = "protocol.heartbeat.MessageModel"
        text = text.replace(f"org.apache.rocketmq.common.{moved}", f"org.apache.rocketmq.remoting.{moved}")
    return compile_java(source, text, lib)
