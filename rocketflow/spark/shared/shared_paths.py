"""Paths that the driver names are those of every executor: what they are told where that is not so."""

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
    """In a task: PathNotSharedError, which names the machine, where the store or one of its files is not there."""
    try:
        yield
    except (NotAStoreError, StoreAccessError, FileNotFoundError) as error:
        raise PathNotSharedError(
            f"{error}; on {socket.gethostname()}: every executor has to see the store under the path that the "
            "driver names; put it on a directory that all of them share"
        ) from error
