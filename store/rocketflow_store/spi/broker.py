"""The door of a broker: a store that takes and gives the wire's bytes."""

from __future__ import annotations

from rocketflow_store.engine.writing_store import WritingStore, open_store
from rocketflow_store.model.broker_requests import AppendedRun, Arrival, PutState, RawMessage

__all__ = [
    "AppendedRun",
    "Arrival",
    "PutState",
    "RawMessage",
    "WritingStore",
    "open_store",
]
