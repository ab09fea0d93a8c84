"""Settings of RocketMQ whose promise a server would not keep: they are refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from rocketflow.errors import UsageError
from rocketflow.process.properties import property_text


class Kept(NamedTuple):
    """The values of a setting that are accepted, in lower case, and what to do with another one."""

    values: tuple[str, ...]
    remedy: str


OFF: Final = ("false",)
UNSET: Final = ("",)


def check_promises(given: Mapping[str, object], kept: Mapping[str, Kept]) -> None:
    """Refuse values that promise what the server does not do. Raises UsageError, which names key and remedy."""
    for key, (values, remedy) in kept.items():
        if key in given and property_text(given[key]).strip().lower() not in values:
            raise UsageError(f"{key}={property_text(given[key])}: {remedy}")
