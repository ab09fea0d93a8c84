"""The error of an executor that does not see the driver's store under the same path."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rocketflow.errors import RocketFlowError
from rocketflow_store import NotAStoreError, StoreAccessError

if TYPE_CHECKING:
    from collections.abc import Iterator


class PathNotSharedError(RocketFlowError):
    """An executor does not see the store."""

    exit_code = 2


@contextmanager
def shared_paths() -> Iterator[None]:
    """Raise PathNotSharedError, which names the machine, if a file of the store does not exist in this task."""
    try:
        yield
    except (NotAStoreError, StoreAccessError, FileNotFoundError) as error:
        raise PathNotSharedError(
            f"{error}; on {socket.gethostname()}: every executor must see the store under the path that the "
            "driver names; put it in a directory that all of them share"
        ) from error
