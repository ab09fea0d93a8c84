"""What to do about Spark's errors of a save mode or output mode that a log cannot have.

Spark refuses the save modes `errorifexists` (`df.write`'s default) and `ignore`, and output mode `update`, before it
asks the data source, and its text names no way round. A note with one is put under the error (PEP 678), which
tracebacks print.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.errors.exceptions import captured

if TYPE_CHECKING:
    from collections.abc import Callable

_NOTES: Final = {
    'data source "rocketflow" cannot be written in the "': (
        'rocketflow: a store is only appended to, and what it holds stays: use df.write.mode("append")'
    ),
    "rocketflow does not support Update mode": (
        'rocketflow: a store is only appended to: use writeStream.outputMode("append"); an aggregation needs '
        "withWatermark then. Each changed row as a message of its own: foreachBatch, with df.write.mode('append')"
    ),
}


def note_modes() -> None:
    """Have PySpark put a note under its errors of such modes, once a process."""
    convert: Callable[[Any], BaseException] = captured.convert_exception
    if getattr(convert, "notes_modes", False):
        return

    def noted(origin: Any) -> BaseException:
        error = convert(origin)
        text = str(error)
        for part, note in _NOTES.items():
            if part in text:
                error.add_note(note)
        return error

    noted.notes_modes = True  # type: ignore[attr-defined]
    captured.convert_exception = noted  # type: ignore[assignment]
