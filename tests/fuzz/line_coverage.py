"""The line coverage of the inputs that fuzzing kept: `python -m tests.fuzz.line_coverage TARGET [--missing]`.

Every input runs once for its time and once under a trace. Every function of the store or of `remoting` that an input
enters counts as a decoder, except in packages that only move bytes; its lines that no input reached are missing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import rocketflow_store
from rocketflow import remoting
from rocketflow.spark.java_runtime import cache_directory
from tests.fuzz.targets import TARGETS, Target

_STORE: Final = Path(rocketflow_store.__file__).parent
_REMOTING: Final = Path(remoting.__file__).parent
_NO_DECODERS: Final = ("files", "mapped_files", "config.py", "layout/file_sizes.py")
_MOST_TRACED: Final = 3_000
"""The number of inputs that run under the trace: the smallest ones."""
_SECONDS: Final = 600


@dataclass
class Coverage:
    """Lines are `file:number` with the file relative to the folder of the store, or to that of `remoting`."""

    slowest_ms: float = 0.0
    ran: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)

    def add(self, other: Coverage) -> None:
        """Add the coverage of another target."""
        self.slowest_ms = max(self.slowest_ms, other.slowest_ms)
        self.ran |= other.ran
        self.missing = (self.missing | other.missing) - self.ran

    @property
    def share(self) -> float:
        """The share of all lines that ran."""
        return len(self.ran) / max(len(self.ran) + len(self.missing), 1)


def measure(name: str) -> Coverage:
    """Measure the coverage of a target's inputs in a child process."""
    command = [sys.executable, "-m", "tests.fuzz.line_coverage", name]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, timeout=_SECONDS, check=True).stdout)
    return Coverage(found["slowestMs"], set(found["ran"]), set(found["missing"]))


def inputs(target: Target) -> list[bytes]:
    """Return the seeds, and the inputs that fuzzing kept because they reached new lines."""
    kept = cache_directory() / "fuzz" / "corpus" / target.name
    files = sorted(kept.iterdir(), key=lambda path: path.stat().st_size) if kept.is_dir() else []
    return [*target.seeds(), *(path.read_bytes() for path in files)]


def slowest_ms(target: Target, data: list[bytes]) -> float:
    """Return the time of the slowest input in ms; of two runs of an input the faster one counts."""
    longest = 0.0
    for one in data:
        times = []
        for _ in range(2):
            began = time.perf_counter()
            target.run(one)
            times.append(time.perf_counter() - began)
        longest = max(longest, min(times))
    return longest * 1000


def lines(target: Target, data: list[bytes]) -> tuple[set[str], set[str]]:
    """Return (lines that ran, lines of all functions that were entered)."""
    ran: set[tuple[str, int]] = set()
    entered: set[CodeType] = set()

    def in_function(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            ran.add((frame.f_code.co_filename, frame.f_lineno))
        return in_function

    def on_call(frame: FrameType, event: str, _: Any) -> Any:
        if event != "call" or not _decodes(frame.f_code.co_filename):
            return None
        entered.add(frame.f_code)
        return in_function

    for one in data[:_MOST_TRACED]:
        sys.settrace(on_call)
        try:
            target.run(one)
        finally:
            sys.settrace(None)
    entered_lines = {(code.co_filename, line) for code in entered for line in _lines_of(code)}
    return {_named(*line) for line in entered_lines & ran}, {_named(*line) for line in entered_lines}


def _decodes(file: str) -> bool:
    path = Path(file)
    if path.is_relative_to(_REMOTING):
        return True
    return path.is_relative_to(_STORE) and not path.relative_to(_STORE).as_posix().startswith(_NO_DECODERS)


def _named(file: str, line: int) -> str:
    path = Path(file)
    return f"{path.relative_to(_STORE if path.is_relative_to(_STORE) else _REMOTING.parent)}:{line}"


def _lines_of(code: CodeType) -> Iterator[int]:
    """Yield the lines of a function's body, without its head and nested functions."""
    for _, _, line in code.co_lines():
        if line is not None and line != code.co_firstlineno:
            yield line


def main() -> None:
    """Print one JSON object, or with --missing the lines that no input reached."""
    target = TARGETS[sys.argv[1]]
    data = inputs(target)
    for one in target.seeds():
        target.run(one)
    slowest = slowest_ms(target, data)
    ran, entered_lines = lines(target, data)
    if "--missing" in sys.argv:
        print("\n".join(sorted(entered_lines - ran)))
    else:
        print(json.dumps({"slowestMs": slowest, "ran": sorted(ran), "missing": sorted(entered_lines - ran)}))


if __name__ == "__main__":
    main()
