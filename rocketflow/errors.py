"""Errors of everything around the store; those of the store itself derive from `StoreError`."""

from __future__ import annotations

from rocketflow_store.spi.messages import RocketFlowError as RocketFlowError


class UsageError(RocketFlowError):
    """A command or an option was used wrongly."""

    exit_code = 2


class JavaNotFoundError(RocketFlowError):
    """Spark needs Java 17 or newer and none was found."""

    exit_code = 2


class AddressInUseError(RocketFlowError):
    """A server cannot listen at its address, because another process does."""

    exit_code = 75
