"""A broker that does not know the request for queue units (321, QUERY_CONSUME_QUEUE)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow.client.cluster import Cluster
from rocketflow.remoting.codes import RequestCode

if TYPE_CHECKING:
    import pytest

    from rocketflow.remoting.command import Command
    from rocketflow.remoting.headers.header import Header

UNKNOWN_CODE = 31_999
"""A request that no broker knows: it answers that it does not support it."""


def without_queue_units(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ask brokers for UNKNOWN_CODE instead of queue units until the end of a test; return the codes of the answers."""
    asked = Cluster.ask
    answers: list[int] = []

    async def ask(
        cluster: Cluster,
        address: str,
        code: int,
        header: Header | None = None,
        *,
        body: bytes = b"",
        timeout_s: float = 0,
    ) -> Command:
        units = code == RequestCode.QUERY_CONSUME_QUEUE
        found = await asked(cluster, address, UNKNOWN_CODE if units else code, header, body=body, timeout_s=timeout_s)
        if units:
            answers.append(found.code)
        return found

    monkeypatch.setattr(Cluster, "ask", ask)
    return answers
