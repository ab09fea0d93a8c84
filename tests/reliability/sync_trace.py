"""A check of a trace: does each SYNC_FLUSH ack follow a sync that began after the write of its record (A1)?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CALLS = "pwrite64,fdatasync,fsync,msync,write"
_LOG_FILE = re.compile(r"\(\d+<[^>]*/commitlog/(\d{20})>")
_STARTED = re.compile(r"(\d+) +(\w+)(\(.*)")
_RESUMED = re.compile(r"(\d+) +<\.\.\. \w+ resumed>(.*)")
_UNFINISHED = " <unfinished ...>"
_WRITTEN = re.compile(r", \d+, (\d+)\) += \d+$")
_ACK = re.compile(r'\(1<[^>]*>, "acked (\d+)\\n"')


@dataclass(frozen=True)
class Traced:
    """One system call; `began` and `ended` are line numbers of the trace."""

    name: str
    arguments: str
    began: int
    ended: int
    worked: bool


def calls_of(trace: Path) -> Iterator[Traced]:
    """Yield the calls of a trace (strace -f -y), in the order in which they ended."""
    under_way: dict[str, tuple[str, str, int]] = {}
    for number, line in enumerate(trace.read_text("ascii", "replace").splitlines()):
        resumed, started = _RESUMED.match(line), _STARTED.match(line)
        if resumed is not None and resumed[1] in under_way:
            name, arguments, began = under_way.pop(resumed[1])
            rest = arguments + resumed[2]
        elif started is not None:
            name, rest, began = started[2], started[3], number
            if rest.endswith(_UNFINISHED):
                under_way[started[1]] = name, rest.removesuffix(_UNFINISHED), number
                continue
        else:
            continue
        yield Traced(name, rest, began, number, re.search(r"\) += -1 ", rest) is None)


@dataclass
class Acks:
    """Acknowledgements of a trace, syncs of the log from its first record on, acks without a sync that covers them."""

    acks: int = 0
    syncs: int = 0
    uncovered: int = 0


def judge(trace: Path) -> Acks:
    """Find for each ack a successful sync of its log file that began after the write and ended before the ack."""
    written: dict[int, int] = {}  # where a record begins: when its write ended
    files: dict[int, int] = {}  # ... and its file
    syncs: dict[int, list[Traced]] = {}
    found = Acks()
    for call in calls_of(trace):
        log_file = _LOG_FILE.match(call.arguments)
        if call.name == "pwrite64" and log_file is not None:
            place = _WRITTEN.search(call.arguments)
            assert place is not None, call
            at = int(log_file[1]) + int(place[1])
            written[at], files[at] = call.ended, int(log_file[1])
        elif call.name in ("fdatasync", "fsync") and log_file is not None:
            syncs.setdefault(int(log_file[1]), []).append(call)
            found.syncs += bool(written)
        elif call.name == "write" and (said := _ACK.match(call.arguments)) is not None:
            found.acks += 1
            found.uncovered += not _is_covered(int(said[1]), call, written, files, syncs)
    return found


def _is_covered(
    phy_offset: int, ack: Traced, written: dict[int, int], files: dict[int, int], syncs: dict[int, list[Traced]]
) -> bool:
    at = max((one for one in written if one <= phy_offset), default=-1)  # records of one run are written at once
    return at >= 0 and any(
        one.worked and one.began > written[at] and one.ended < ack.began for one in syncs.get(files[at], [])
    )
