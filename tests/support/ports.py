"""Ports for the servers that tests start."""

from __future__ import annotations

from rocketflow.testing.ports import free_port

__all__ = ["free_port"]
