"""Reads: every request whose answer holds stored messages.

| module | content |
|---|---|
| `pulls`, `held_pulls` | pulls, and those that wait for messages |
| `range_pulls` | records of many messages in one answer |
| `queries` | messages by key and by place |
| `parts` | these together |
"""

from __future__ import annotations

from rocketflow.broker.reads.parts import ReadParts

__all__ = ["ReadParts"]
