"""Options of a job's source and sink, combined from its own arguments and `--option`s."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketflow.spark.shared.option_values import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

_SOURCE: Final = {"path": "--source", "namesrvaddr": "--source", "subscribe": "--subscribe"}
_SINK: Final = {"path": "--sink", "namesrvaddr": "--sink", "topic": "--topic"}
_ADDRESSES: Final = re.compile(r"[^/=;,\s]+:\d{1,5}([;,][^/=;,\s]+:\d{1,5})*[;,]?")
"""NameServers: `host:port`, several separated by `;`."""


def job_source_options(source: str, subscribe: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the source; without a start in `given` it starts at the first message.

    Raises:
        OptionError: `given` (by `--option`) repeats an argument of the job.
    """
    _refuse("--option", given, _SOURCE)
    return {"startingOffsets": "earliest", **given, **_place(source), "subscribe": subscribe}


def job_sink_options(sink: str, topic: str | None, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the sink; raise OptionError if `given` (`--sink-option`) repeats an argument of the job."""
    _refuse("--sink-option", given, _SINK)
    return {**given, **_place(sink), **({"topic": topic} if topic else {})}


def _place(text: str) -> dict[str, str]:
    """Return the option for a store's directory or, for `host:port`, for the NameServers of brokers."""
    is_address = _ADDRESSES.fullmatch(text) is not None and not Path(text).exists()
    return {"namesrvAddr" if is_address else "path": text}


def _refuse(option: str, given: Mapping[str, str], arguments: Mapping[str, str]) -> None:
    for name in (one.lower() for one in given):
        if name in arguments:
            raise OptionError(name, f"{option} {name}: use {arguments[name]} instead")
