"""Queues and index rebuilt from the log, on any engine."""

from __future__ import annotations

from rocketflow_store.format.derived_profile import PROFILES
from rocketflow_store.rebuild.engine import LocalEngine
from rocketflow_store.rebuild.places import check_target_given
from rocketflow_store.rebuild.rebuild import rebuild_store
from rocketflow_store.rebuild.result import RebuildRequest, RebuildResult

__all__ = [
    "PROFILES",
    "LocalEngine",
    "RebuildRequest",
    "RebuildResult",
    "check_target_given",
    "rebuild_store",
]
