"""Remedies for Spark's errors about a save mode or output mode that a log cannot have.

Spark refuses the save modes `errorifexists` (`df.write`'s default) and `ignore`, and output mode `update`, before it
calls the data source, and its text names no remedy. So the remedy is added to the error as a note (PEP 678), which
tracebacks print.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.errors.exceptions import captured

if TYPE_CHECKING:
    from collections.abc import Callable

_NOTES: Final = {
    'data source "rocketflow" cannot be written in the "': (
        'rocketflow: a store is append-only, and its messages stay: use df.write.mode("append")'
    ),
    "rocketflow does not support Update mode": (
        'rocketflow: a store is append-only: use writeStream.outputMode("append"); an aggregation needs '
        "withWatermark then. To write each changed row as a message: foreachBatch with df.write.mode('append')"
    ),
}


def note_modes() -> None:
    """Patch PySpark, once per process, to add a note to its errors of such modes."""
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
