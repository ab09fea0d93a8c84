"""Errors of servers for tests."""

from __future__ import annotations

from rocketflow.errors import RocketFlowError


class ServerStartError(RocketFlowError):
    """A server does not serve; the text has the end of its log. `code` is its exit code, None while it runs."""

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code
