"""Settings as the text of a properties file."""

from __future__ import annotations

from collections.abc import Mapping


def properties_text(values: Mapping[str, object]) -> str:
    """Return one line `key=value` for each key, in their order; values are written as RocketMQ writes them."""
    return "".join(f"{key}={_text(value)}\n" for key, value in sorted(values.items()))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(getattr(value, "value", value))
