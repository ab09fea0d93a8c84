"""What a job reads and writes: its own arguments and the options that it was given besides, as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow.spark.shared.option_values import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

_SOURCE: Final = {"path": "--source", "subscribe": "--subscribe"}
_SINK: Final = {"path": "--sink", "topic": "--topic"}


def job_source_options(source: str, subscribe: str, given: Mapping[str, str]) -> dict[str, str]:
    """Options of the source, from the first message on where `given` does not say where to begin.

    OptionError where `given` (by `--option`) says what an argument of the job does.
    """
    _refuse("--option", given, _SOURCE)
    return {"startingOffsets": "earliest", **given, "path": source, "subscribe": subscribe}


def job_sink_options(sink: str, topic: str | None, given: Mapping[str, str]) -> dict[str, str]:
    """Options of the sink; OptionError where `given` (by `--sink-option`) says what an argument of the job does."""
    _refuse("--sink-option", given, _SINK)
    return {**given, "path": sink, **({"topic": topic} if topic else {})}


def _refuse(option: str, given: Mapping[str, str], arguments: Mapping[str, str]) -> None:
    for name in (one.lower() for one in given):
        if name in arguments:
            raise OptionError(name, f"{option} {name}: {arguments[name]} says that")
