"""Apache RocketMQ's own store in a process of its own, doing the work that our appends do."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.maven import compile_java, fetch_jars, java_and_javac

VERSION: Final = "5.3.3"
_SOURCE: Final = Path(__file__).parent / "java" / "AppendBench.java"
_FLAGS: Final = (
    *("-Xms1g", "-Xmx2g", "-XX:+UseG1GC"),
    *("--add-exports=java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"),
    *("--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED"),
)


class ApacheAppends:
    """Measures appends until queues and index have caught up; raises JarsNotFetchedError where it cannot be had."""

    def __init__(self) -> None:
        self._java = java_and_javac()[0]
        lib = fetch_jars(f"apache/{VERSION}", [f"org.apache.rocketmq:rocketmq-store:{VERSION}"])
        classes = compile_java(_SOURCE, _SOURCE.read_text(), lib)
        self._class_path = f"{lib / '*'}:{classes}"

    def rate(self, threads: int, count: int, body_size: int) -> float:
        """M msg/s of `count` messages from `threads` threads, until the last one is dispatched."""
        with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home:
            arguments = [f"{home}/store", threads, count // threads, body_size, count // 2]
            done = subprocess.run(
                [
                    self._java,
                    *_FLAGS,
                    f"-Duser.home={home}",
                    "-cp",
                    self._class_path,
                    "AppendBench",
                    *map(str, arguments),
                ],
                capture_output=True,
                text=True,
                check=True,
            )
        return count / float(done.stdout.split()[-1]) / 1e6
