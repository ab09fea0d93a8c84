"""The gate before every write: it refuses while the store is fenced, full, or closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.model.errors import StoreClosedError, StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocketflow_store.log.commit_log import CommitLog
    from rocketflow_store.log.fence import Fence
    from rocketflow_store.settings.store_config import StoreConfig
    from rocketflow_store.views.dispatch.confirmed_dispatch import ConfirmedDispatch


class WriteGate:
    """Refuses writes after a failed sync, commit or dispatch, on a full disk, and after `close`."""

    def __init__(
        self,
        path: Path,
        config: StoreConfig,
        commit_log: CommitLog,
        fence: Fence,
        dispatch: ConfirmedDispatch,
        is_disk_full: Callable[[], bool],
    ) -> None:
        self._path, self._config = path, config
        self._commit_log, self._fence, self._dispatch = commit_log, fence, dispatch
        self._is_disk_full = is_disk_full
        self._closed = False

    def close(self) -> None:
        """Refuse every later write with StoreClosedError."""
        self._closed = True

    @property
    def is_closed(self) -> bool:
        """True after `close`."""
        return self._closed

    @property
    def is_fenced(self) -> bool:
        """True after a failed sync: the store takes no write until it is opened again."""
        return self._fence.error is not None

    @property
    def is_full(self) -> bool:
        """True while the disk is too full, or a failed commit or dispatch has to be retried."""
        return self._is_disk_full() or self._commit_log.commit_error is not None or self._dispatch.failure is not None

    @property
    def refusal(self) -> str:
        """The reason for which writes are refused now; empty if they are not."""
        if self._closed:
            return str(StoreClosedError(self._path))
        for error in (self._fence.error, self._dispatch.failure, self._commit_log.commit_error):
            if error is not None:
                return str(error) or repr(error)
        return str(self._full_error()) if self._is_disk_full() else ""

    @property
    def is_shut(self) -> bool:
        """True if `check` may raise."""
        return (
            self._fence.error is not None
            or self._commit_log.commit_error is not None
            or self._dispatch.failure is not None
            or self._closed
            or self._is_disk_full()
        )

    def check(self) -> None:
        """Raise if writes are refused now; a failed dispatch is retried first."""
        if self._closed:
            raise StoreClosedError(self._path)
        self._fence.check()
        if self._dispatch.failure is not None:
            self._dispatch.follow()
        if self._commit_log.commit_error is not None:
            raise self._commit_log.commit_error
        if self._is_disk_full():
            raise self._full_error()

    def _full_error(self) -> StoreFullError:
        limit = self._config.disk_space_warning_level_ratio
        return StoreFullError(self._path, f"disk usage is above diskSpaceWarningLevelRatio ({limit} %)")
