"""Settings as the text of a properties file, and one of them changed in such a text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rocketflow_store.spi.settings import parse_properties


def properties_text(values: Mapping[str, object]) -> str:
    """Return one line `key=value` for each key, in their order; values are written as RocketMQ writes them."""
    return "".join(f"{key}={property_text(value)}\n" for key, value in sorted(values.items()))


def property_text(value: object) -> str:
    """Return a value as RocketMQ writes it: `true` and `false`, the value of an Enum's member, else its text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(getattr(value, "value", value))


def with_value(text: str, key: str, value: bool | float) -> str:
    """Return a properties text with another value of a key; all other lines stay as they are.

    The last entry of the key is replaced, which is the one that counts; a key that the text does not have is added at
    the end. Raises StoreConfigError if the text has a malformed escape.
    """
    entry = f"{key}={property_text(value)}"
    numbers = [number for number, one, _ in parse_properties(text) if one == key]
    lines = re.split(r"(\r\n|\r|\n)", text)  # lines at even places, their ends between them
    if not numbers:
        end = lines[-2] if len(lines) > 1 else "\n"
        ends = (lines[-1] != "") + _is_continued(text.rstrip("\r\n"))  # a blank line ends what a backslash continues
        return f"{text}{end * ends}{entry}{end}"
    first = last = 2 * (numbers[-1] - 1)
    while last + 2 < len(lines) and _is_continued(lines[last]):
        last += 2
    return "".join([*lines[:first], entry, *lines[last + 1 :]])


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1
