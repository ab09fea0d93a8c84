"""Hooks that run before each request of a connection and after its answer.

RocketMQ's source: remoting/RPCHook.java, acl/common/AclClientRPCHook.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow.remoting.signature import Credentials, sign

if TYPE_CHECKING:
    from rocketflow.remoting.command import Command


class RpcHook:
    """A hook of requests; a subclass overrides what it needs. An exception of a hook reaches the sender."""

    def before_request(self, address: str, request: Command) -> None:
        """Look at a request to `host:port` before it is sent, or change its fields; one-way requests too."""

    def after_response(self, address: str, request: Command, response: Command) -> None:
        """Look at the answer that `host:port` gave to a request."""


class SigningHook(RpcHook):
    """A hook that adds the account and the signature, which covers all fields: it has to be the last hook."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def before_request(self, address: str, request: Command) -> None:
        """Add account and signature to the request."""
        sign(request, self._credentials)


def signing_hooks(credentials: Credentials | None) -> tuple[RpcHook, ...]:
    """Return the hook that signs with credentials, none without them."""
    return () if credentials is None else (SigningHook(credentials),)
