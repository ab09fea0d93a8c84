"""Operators: requests about the broker itself, and who may send which request.

| module | content |
|---|---|
| `listeners` | the two ports at which requests come in |
| `admin` | figures |
| `config_requests` | settings |
| `upkeep` | unused topics and queues, expired files, replicas |
| `access` | who may send which request and read which record |
| `user_requests` | users and policies |
| `parts` | these together |
"""

from __future__ import annotations

from rocketflow.broker.operators.access import Access
from rocketflow.broker.operators.listeners import FAST_PORT_DISTANCE, Listeners
from rocketflow.broker.operators.parts import OperatorParts

__all__ = ["FAST_PORT_DISTANCE", "Access", "Listeners", "OperatorParts"]
