"""What a job reads: its own arguments and the options of the source that it was given besides, as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow.spark.option_values import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

_ARGUMENTS: Final = {"path": "--source", "subscribe": "--subscribe"}


def job_source_options(source: str, subscribe: str, given: Mapping[str, str]) -> dict[str, str]:
    """Options of the source, from the first message on where `given` does not say where to begin.

    OptionError where `given` (by `--option`) says what an argument of the job does.
    """
    for name in (one.lower() for one in given):
        if name in _ARGUMENTS:
            raise OptionError(name, f"--option {name}: {_ARGUMENTS[name]} says that")
    return {"startingOffsets": "earliest", **given, "path": source, "subscribe": subscribe}
