"""The report of `store verify`, for people and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow.cli.shared.tables import print_table
from rocketflow_store.spi.maintenance import AcceptedFindings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocketflow_store.spi.maintenance import Finding, RepairResult, RepairStep, VerifyResult

LOST_KINDS: Final = frozenset({"record", "missing-file", "lost-message"})
"""Kinds of findings of the log itself: its bytes are nowhere else in the store."""
NOT_REPAIRED: Final = LOST_KINDS | {"bad-body"}

_COLUMNS = ("kind", "file", "offset", "length", "detail")


_VERIFY: Final = {
    "records": "records that were checked",
    "bytes": "their bytes",
    "recordsWithoutRecordCrc": "records without a CRC of the complete record",
    "findings": "what is wrong: kind, file, offset, length, detail",
    "unlistedFindings": "findings above the number that is listed",
    "lostRecords": "records that are lost",
    "seconds": "time it took",
}
_FINDING: Final = {
    "kind": "kind of the finding",
    "file": "file, or queue",
    "offset": "where it begins in the file, bytes",
    "length": "its bytes",
    "detail": "what is wrong",
}
FIELDS: Final[dict[str, dict[str, str]]] = {
    "store verify": _VERIFY,
    "store verify --accept": {
        **_VERIFY,
        **{f"findings.{name}": about for name, about in _FINDING.items()},
        "findings.accepted": "whether the file of accepted findings has it",
        "acceptedFindings": "number of accepted findings",
        "newFindings": "number of other findings",
        "appendedFindings": "number of findings that this run added to the file",
    },
    "store verify --repair": {
        **_VERIFY,
        "findings": "what is still wrong after the repair",
        "repaired": "the steps of the repair",
        "repaired.action": "kind of the step",
        "repaired.target": "path, or TOPIC/QUEUE",
        "repaired.why": "what it repairs",
        "findingsBefore": "what was wrong before",
        **{f"findingsBefore.{name}": about for name, about in _FINDING.items()},
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


class VerifyReport:
    """The outcome of one run on the store at `path`; `accept` is the file of accepted findings."""

    def __init__(self, path: str, accept: str | None, *, accept_new: bool = False) -> None:
        self._path = path
        self._accepted = AcceptedFindings.load(accept, Path(path)) if accept is not None else None
        self._accept_new = accept_new
        self._steps: list[RepairStep] | None = None
        self._repairable = self._restored = False
        self._fields: dict[str, Any] = {}
        self._fresh: list[Finding] = []
        self._known: list[Finding] = []
        self._appended = 0

    def take_repair(self, repaired: RepairResult) -> int:
        """Take the steps of a repair and the remaining findings; return the exit code."""
        self._steps = repaired.steps
        code = self._take(repaired.left, repaired.exit_code)
        self._fields = repaired.as_dict()
        return repaired.exit_code if repaired.cut else code

    def take(self, found: VerifyResult, repairable: bool, *, restored: bool = False) -> int:
        """Take the findings, whether a repair would repair any, and whether a backup was used; return the exit code."""
        self._repairable, self._restored = repairable, restored
        code = self._take(found, found.exit_code)
        self._fields = found.as_dict()
        return code

    def _take(self, found: VerifyResult, code: int) -> int:
        self._found, accepted = found, self._accepted
        self._fresh = list(found.findings)
        if accepted is None:
            return code
        self._known = [one for one in found.findings if accepted.is_accepted(one)]
        self._fresh = [one for one in found.findings if not accepted.is_accepted(one)]
        if self._accept_new or not accepted.begun:
            accepted.add(self._fresh)
            self._appended = len(self._fresh)
        return accepted.exit_code(found, self._fresh)

    def as_dict(self) -> dict[str, Any]:
        """Return the run as one JSON object; with a file of accepted findings each has `accepted`."""
        if self._accepted is None:
            return self._fields
        known = set(self._known)
        findings = [{**one.as_dict(), "accepted": one in known} for one in self._found.findings]
        counts = {"acceptedFindings": len(known), "newFindings": len(self._fresh), "appendedFindings": self._appended}
        return {**self._fields, "findings": findings, **counts}

    def print(self) -> None:
        """Print the run for people."""
        if self._steps is not None:
            print_steps(self._steps)
        print_findings(self._found, self._fresh, self._known)
        if self._appended and self._accepted is not None:
            print(f"{self._appended} findings were added to {self._accepted.path}: later runs take them as accepted")
            return
        for line in self._next_steps():
            print(f"next: {line}")

    def _next_steps(self) -> Iterator[str]:
        """Yield what to do about the new findings, a line for each remedy."""
        verify, kinds = f"`rocketflow store verify {self._path}", {one.kind for one in self._fresh}
        if kinds & LOST_KINDS and not self._restored:
            yield f"`rocketflow store restore BACKUP {self._path}` puts back what a backup or a replica still has"
        if self._repairable and kinds - NOT_REPAIRED:
            yield f"{verify} --repair` rebuilds queues, index and the like"
        if kinds & LOST_KINDS:
            yield f"{verify} --accept FILE` records losses that are known"
        if "bad-body" in kinds:
            yield (
                "onBadBody=raw (--on-bad-body raw) reads such bodies as they are stored, quarantine skips them; "
                f"{verify} --accept FILE` records that they are known"
            )
        if kinds and not (self._repairable or kinds <= NOT_REPAIRED):
            yield "a repair cannot correct the rest: do what its details say, or restore the store from a backup"


def print_findings(found: VerifyResult, fresh: Sequence[Finding], known: Sequence[Finding]) -> None:
    """Print a line for each finding, and their totals."""
    speed = found.bytes / 1e6 / found.seconds if found.seconds else 0.0
    print(f"{found.records} records, {found.bytes} bytes in {found.seconds:.2f} s ({speed:.0f} MB/s)")
    rows = [(one.kind, one.file, one.offset, one.length, one.detail) for one in fresh]
    rows += [(f"accepted {one.kind}", one.file, one.offset, one.length, one.detail) for one in known]
    if rows:
        print_table(_COLUMNS, rows)
    if found.unlisted:
        print(f"... and {found.unlisted} more")
    if found.clean:
        print("clean")
        return
    count = len(fresh) + found.unlisted
    accepted = f", {len(known)} accepted" if known else ""
    print(f"{count} finding{'s' if count != 1 else ''}{accepted}, {found.lost_records} records lost")


def print_steps(steps: Sequence[RepairStep]) -> None:
    """Print a line for each step of a repair."""
    if steps:
        print_table(("action", "target", "why"), ((one.action, one.target, one.why) for one in steps))
    else:
        print("nothing to repair")
