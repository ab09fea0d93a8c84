"""Errors of the wire protocol."""

from __future__ import annotations

from rocketflow.errors import RocketFlowError


class RemotingError(RocketFlowError):
    """Base of the errors of the wire protocol."""


class FrameError(RemotingError):
    """The bytes of a connection are not a frame: the connection has to be closed."""


class HeaderError(RemotingError):
    """A header is not one of its type, or lacks a field, or has a field of the wrong type."""


class BodyError(RemotingError):
    """The body of a request or an answer is not what its code prescribes."""
