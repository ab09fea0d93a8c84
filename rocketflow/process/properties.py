"""Settings as the text of a properties file."""

from __future__ import annotations

from collections.abc import Mapping


def properties_text(values: Mapping[str, object]) -> str:
    """Return one line `key=value` for each key, in their order; values are written as RocketMQ writes them."""
    return "".join(f"{key}={property_text(value)}\n" for key, value in sorted(values.items()))


def property_text(value: object) -> str:
    """Return a value as RocketMQ writes it: `true` and `false`, the value of an Enum's member, else its text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(getattr(value, "value", value))
