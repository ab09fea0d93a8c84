"""Hooks that run before each request of a connection and after its answer.

RocketMQ's source: remoting/RPCHook.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketflow.remoting.command import Command


class RpcHook:
    """A hook of requests; a subclass overrides what it needs. An exception of a hook reaches the sender."""

    def before_request(self, address: str, request: Command) -> None:
        """Look at a request to `host:port` before it is sent, or change its fields; one-way requests too."""

    def after_response(self, address: str, request: Command, response: Command) -> None:
        """Look at the answer that `host:port` gave to a request."""
