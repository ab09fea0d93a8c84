"""What `store verify` found and did, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow_store.fsck.findings import VerifyResult
    from rocketflow_store.fsck.repair import RepairStep


def print_findings(found: VerifyResult) -> None:
    """One line a finding, and what they come to."""
    speed = found.bytes / 1e6 / found.seconds if found.seconds else 0.0
    print(f"{found.records} records, {found.bytes} bytes in {found.seconds:.2f} s ({speed:.0f} MB/s)")
    for one in found.findings:
        print(f"{one.kind}\t{one.file}\t{one.offset}\t{one.length}\t{printable(one.detail)}")
    if found.unlisted:
        print(f"... and {found.unlisted} more")
    if found.clean:
        print("clean")
        return
    count = len(found.findings) + found.unlisted
    print(f"{count} finding{'s' if count != 1 else ''}, {found.lost_records} records lost")


def print_steps(steps: Sequence[RepairStep]) -> None:
    """One line a step of a repair."""
    for one in steps:
        print(f"{one.action}\t{one.target}\t{printable(one.why)}")
    if not steps:
        print("nothing to repair")
