"""Typed access to the fields of a parsed config file; every mismatch is a ValueError that names the field."""

from __future__ import annotations

from typing import Any, Final

_INT32: Final = (-(1 << 31), (1 << 31) - 1)
_INT64: Final = (-(1 << 63), (1 << 63) - 1)


def int32_field(entry: dict[str, Any], name: str, default: int) -> int:
    """Return a Java int; numbers as strings are accepted, as by fastjson."""
    return _integer(entry.get(name), name, default, _INT32)


def int64_field(entry: dict[str, Any], name: str, default: int) -> int:
    """Return a Java long."""
    return _integer(entry.get(name), name, default, _INT64)


def bool_field(entry: dict[str, Any], name: str, default: bool) -> bool:
    value = entry.get(name)
    if value is None:
        return default
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}, not true or false")
    return value


def text_field(entry: dict[str, Any], name: str, default: str) -> str:
    value = entry.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise ValueError(f"{name} is {value!r}, not a string")
    return value


def object_field(entry: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a nested object; absent and null mean empty."""
    value = entry.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not an object")
    return value


def offset_field(entry: dict[str, Any], name: str) -> int:
    """Return an offset in a queue: a Java long that is not negative."""
    return _integer(entry.get(name), name, 0, (0, _INT64[1]))


def offset_map(entry: dict[str, Any], what: str) -> dict[int, int]:
    """Return a map of small integers (queue ids, delay levels) to offsets, both not negative."""
    return {
        _integer(key, f"key of {what}", 0, (0, _INT32[1])): _integer(value, f"{what}[{key}]", 0, (0, _INT64[1]))
        for key, value in entry.items()
    }


def _integer(value: Any, name: str, default: int, limits: tuple[int, int]) -> int:
    if value is None:
        return default
    if isinstance(value, str):
        digits = value[1:] if value[:1] == "-" else value
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
            raise ValueError(f"{name} is {value[:40]!r}, not an integer")
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}, not an integer")
    if not limits[0] <= value <= limits[1]:
        raise ValueError(f"{name} is {value}, outside [{limits[0]}, {limits[1]}]")
    return value
