"""Maintenance: verify and repair, back up, dump a file, preview a recovery or a clean-up."""

from __future__ import annotations

from rocketflow_store.backup.backup import backup_store
from rocketflow_store.engine.clean_service import preview_clean
from rocketflow_store.fsck.accepted import AcceptedFindings
from rocketflow_store.fsck.dump_file import dump_file
from rocketflow_store.fsck.findings import Finding, VerifyResult
from rocketflow_store.fsck.put_back import put_back
from rocketflow_store.fsck.repair import RepairResult, RepairStep, next_steps, repair_store
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.recovery.preview import explain_recovery, preview_recovery

__all__ = [
    "AcceptedFindings",
    "Finding",
    "RepairResult",
    "RepairStep",
    "VerifyResult",
    "backup_store",
    "dump_file",
    "explain_recovery",
    "next_steps",
    "preview_clean",
    "preview_recovery",
    "put_back",
    "repair_store",
    "verify_store",
]
