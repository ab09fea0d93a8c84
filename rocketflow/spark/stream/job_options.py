"""Options of a job's source and sink, combined from its own arguments and `--option`s."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow.spark.shared.option_values import OptionError
from rocketflow.spark.shared.store_locations import source_place

if TYPE_CHECKING:
    from collections.abc import Mapping

_SOURCE: Final = {"path": "--source", "namesrvaddr": "--source", "subscribe": "--subscribe"}
_SINK: Final = {"path": "--sink", "namesrvaddr": "--sink", "topic": "--topic"}


def job_source_options(source: str, subscribe: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the source; without a start in `given` it starts at the first message.

    Raises:
        OptionError: `given` (by `--option`) repeats an argument of the job.
    """
    _refuse("--option", given, _SOURCE)
    return {"startingOffsets": "earliest", **given, **source_place(source), "subscribe": subscribe}


def job_sink_options(sink: str, topic: str | None, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the sink; raise OptionError if `given` (`--sink-option`) repeats an argument of the job."""
    _refuse("--sink-option", given, _SINK)
    return {**given, **source_place(sink), **({"topic": topic} if topic else {})}


def _refuse(option: str, given: Mapping[str, str], arguments: Mapping[str, str]) -> None:
    for name in (one.lower() for one in given):
        if name in arguments:
            raise OptionError(name, f"{option} {name}: use {arguments[name]} instead")
