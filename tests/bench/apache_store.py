"""Apache RocketMQ's store in a child process, doing the same work as RocketFlow's appends."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.support.maven import compile_java, fetch_jars, java_and_javac

VERSION: Final = "5.3.3"
_SOURCES: Final = Path(__file__).parent / "java"
_FLAGS: Final = (
    *("-Xms1g", "-Xmx2g", "-XX:+UseG1GC"),
    *("--add-exports=java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"),
    *("--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED"),
)


class ApacheStore:
    """Runs Apache's store; raises JarsNotFetchedError if it is not available."""

    def __init__(self) -> None:
        self._java = java_and_javac()[0]
        self._lib = fetch_jars(f"apache/{VERSION}", [f"org.apache.rocketmq:rocketmq-store:{VERSION}"])

    def append_rate(self, threads: int, count: int, body_size: int) -> float:
        """Return the M msg/s of `count` messages from `threads` threads, until queues and index have the last one."""
        with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home:
            answer = self._run("AppendBench", f"{home}/store", threads, count // threads, body_size, count // 2)
        return count / float(answer[-1]) / 1e6

    def recovery_seconds(self, directory: Path) -> tuple[float, int]:
        """Return (seconds until a store directory is open and queues and index have caught up, end of its log)."""
        seconds, end = self._run("RecoveryBench", directory)
        return float(seconds), int(end)

    def _run(self, program: str, *arguments: object) -> list[str]:
        source = _SOURCES / f"{program}.java"
        classes = compile_java(source, source.read_text(), self._lib)
        with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home:
            command = [self._java, *_FLAGS, f"-Duser.home={home}", "-cp", f"{self._lib / '*'}:{classes}", program]
            done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, check=True)
        return done.stdout.split()[-2:]
