"""Errors of everything around the store; those of the store itself derive from `StoreError`."""

from __future__ import annotations

from typing import ClassVar


class RocketFlowError(Exception):
    """Base of RocketFlow's own errors; `exit_code` is what a command ends with."""

    exit_code: ClassVar[int] = 1


class UsageError(RocketFlowError):
    """A command or an option was used wrongly."""

    exit_code = 2


class JavaNotFoundError(RocketFlowError):
    """Spark needs Java 17 or newer and none was found."""

    exit_code = 2


class AddressInUseError(RocketFlowError):
    """A server cannot listen at its address, because another process does."""

    exit_code = 75
