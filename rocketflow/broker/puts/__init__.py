"""Puts: every request that stores messages of clients, and one append to the store for those that wait together.

| module | content |
|---|---|
| `sends` | sends: from the request to the store, and from its result to the answer |
| `client_properties` | what becomes of properties that are the broker's when a client sends them |
| `send_back` | messages that a consumer could not handle |
| `replies`, `awaited_replies` | replies of request-reply, to the client that waits; with accounts, who waits |
| `recalls` | timer messages taken back before they are delivered |
| `put_gatherer`, `waiting_puts` | one append to the store for the messages that arrive together |
| `deliveries` | services that put delayed and timer messages when they are due |
| `parts` | these together |
"""

from __future__ import annotations

from rocketflow.broker.puts.deliveries import Deliveries
from rocketflow.broker.puts.parts import PutParts
from rocketflow.broker.puts.put_gatherer import PutGatherer
from rocketflow.broker.puts.sends import check_writable

__all__ = ["Deliveries", "PutGatherer", "PutParts", "check_writable"]
