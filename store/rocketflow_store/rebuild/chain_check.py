"""The check of an index file while it is written: every entry leads to an older entry of its slot, or to none."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.errors import RebuildFailedError
from rocketflow_store.views.index.index_file import IndexFile

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

_ENTRIES_AT_ONCE: Final = 1 << 18


class ChainCheck:
    """Follows the writer of the index file `made` in a thread of its own, and checks the entries that it has written.

    Errors name `path`, the final name of the file.
    """

    def __init__(self, made: Path, path: Path, hash_slot_num: int, index_num: int) -> None:
        self._made, self._path, self._sizes = made, path, (hash_slot_num, index_num)
        self._written: SimpleQueue[int | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._begins = 0
        """Entries without a predecessor: as many as slots are used."""
        self._newest: npt.NDArray[np.int32] | None = None
        """The newest entry of every slot, for the kernel."""
        self._error: BaseException | None = None

    def written(self, entries: int) -> None:
        """Note that the file now holds `entries` entries."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="chain-check", daemon=True)
            self._thread.start()
        self._written.put(entries)

    def stop(self) -> None:
        """End the check, after everything that was written is checked."""
        if self._thread is not None:
            self._written.put(None)
            self._thread.join()
            self._thread = None

    def finish(self, count: int) -> None:
        """End the check of a file of `count` entries.

        Raises:
            RebuildFailedError: the file has another number of entries or slots, or a wrong chain.
        """
        self.stop()
        if self._error is not None:
            raise self._error
        index = IndexFile(self._made, *self._sizes, write=False)
        try:
            if index.entries != count:
                raise RebuildFailedError(self._path, f"has {index.entries} of {count} entries")
            used = int(np.count_nonzero(index.slots()))
            if not self._begins == index.header.hash_slot_count == used:
                raise RebuildFailedError(self._path, "counts other slots than it uses")
        finally:
            index.close()

    def _run(self) -> None:
        try:
            index = IndexFile(self._made, *self._sizes, write=False)
            try:
                self._follow(index)
            finally:
                index.close()
        except BaseException as error:  # raised by `finish`
            self._error = error

    def _follow(self, index: IndexFile) -> None:
        checked = written = 0
        while (found := self._written.get()) is not None:
            written = found
            if written - checked >= _ENTRIES_AT_ONCE:
                self._check(index, checked, written)
                checked = written
        self._check(index, checked, written)

    def _check(self, index: IndexFile, checked: int, written: int) -> None:
        table = index.entry_table(written)
        for first in range(checked + 1, written + 1, _ENTRIES_AT_ONCE):
            some = table[first : first + _ENTRIES_AT_ONCE]
            if COMPILED is not None and self._names_newest(some, first, index.hash_slot_num):
                continue
            previous = some["prev_index"].astype(np.int64)
            linked = np.flatnonzero(previous)
            self._begins += len(some) - len(linked)
            numbers = np.arange(first, first + len(some))
            if not ((previous >= 0) & (previous < numbers)).all():
                raise RebuildFailedError(self._path, "has a chain that leads nowhere")
            slot = some["key_hash"][linked].astype(np.int64) % index.hash_slot_num
            older = table["key_hash"][previous[linked]].astype(np.int64) % index.hash_slot_num
            if not (older == slot).all():
                raise RebuildFailedError(self._path, "has a chain that leaves its slot")

    def _names_newest(self, entries: npt.NDArray[np.void], first: int, slots: int) -> bool:
        """Return True if all entries from number `first` on lead to the newest one of their slot before them."""
        assert COMPILED is not None
        if self._newest is None:
            self._newest = np.zeros(slots, np.int32)
        wrong = np.empty(len(entries), np.bool_)
        COMPILED.follow_chain(entries.view(np.uint8), first, self._newest, wrong.view(np.uint8))
        if wrong.any():
            return False
        self._begins += len(entries) - int(np.count_nonzero(entries["prev_index"]))
        return True
