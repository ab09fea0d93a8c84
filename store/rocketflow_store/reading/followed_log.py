"""The CommitLog of a store that another process may be writing: its current files and end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.metadata.native.confirm import read_confirm

if TYPE_CHECKING:
    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.views.queues.batch_consume_queue import BatchQueueTable
    from rocketflow_store.views.queues.queue_table import FileQueueTable


class FollowedLog:
    """Follows the log of one store. If its files were replaced, the bounds of `table` are read again."""

    def __init__(
        self,
        paths: StorePaths,
        files: MappedFileQueue,
        view: CommitLogView,
        table: FileQueueTable,
        batch_table: BatchQueueTable,
    ) -> None:
        self._paths, self._files, self.view = paths, files, view
        self._table, self._batch_table = table, batch_table
        self._known_end, self._known_end_for = -1, -1
        self.replacements = 0
        """How often files of the log were found replaced."""

    def look(self) -> None:
        """Open the CommitLog files that the directory has now; if some were replaced, read everything again."""
        self._files.refresh()
        if self._files.replacements != self.replacements:
            self.replacements = self._files.replacements
            self._known_end = -1
            self._table.reopen()

    def confirm_offset(self) -> int | None:
        """Return the end of the log that a writer lets readers see; None if no RocketFlow writer runs."""
        confirmed = read_confirm(self._paths)
        return None if confirmed is None else confirmed.confirm_offset

    def begin(self) -> int:
        """Return the first byte of the log that still exists."""
        self.look()
        return self.view.min_phy_offset

    def end(self) -> int:
        """Return the physical offset after the last record."""
        self.look()
        if len(self._files) == 0:
            return 0
        confirmed = self.confirm_offset()
        if confirmed is not None:
            return confirmed
        start, writer = self._known_end, self._paths.writer_mark()
        cut = writer != self._known_end_for  # a writer that started since may have cut the log
        if cut or start < self.view.min_phy_offset or self._files.find(start) is None:
            self._batch_table.refresh()
            start = max(self._table.max_unit_end(), self._batch_table.max_unit_end(), self.view.min_phy_offset)
        self._known_end, self._known_end_for = self.view.end_from(start), writer
        return self._known_end
