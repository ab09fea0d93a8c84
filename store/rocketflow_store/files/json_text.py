"""The only parser of JSON from outside, with limits. Unreadable input raises ValueError, never RecursionError."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_JSON_BYTES: Final = 256 << 20
"""No file of a store is larger: a larger one is damaged."""
MAX_JSON_DEPTH: Final = 100
"""The most nested objects and lists in a file that is processed recursively (suites, schemas)."""


class DeepJsonError(ValueError):
    """JSON is nested too deeply to be read, although its text may be valid."""


def parse_json(
    data: bytes | str,
    *,
    allow_nan: bool = False,
    max_depth: int | None = None,
    parse_float: Callable[[str], Any] | None = None,
    object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """Parse JSON `data`.

    Raises ValueError if it is invalid, is larger than 256 MiB, or contains NaN or Infinity (unless `allow_nan`), and
    its subclass DeepJsonError if it is nested too deeply for Python or deeper than `max_depth`.
    """
    if len(data) > MAX_JSON_BYTES:
        raise ValueError(f"is larger than {MAX_JSON_BYTES:,} bytes")
    text = data if isinstance(data, str) else data.decode(json.detect_encoding(data), "surrogatepass")
    try:
        value = _decoder(allow_nan, parse_float, object_pairs_hook).decode(text)
    except RecursionError:
        raise DeepJsonError("nested too deeply") from None
    if max_depth is not None and _is_deeper(value, max_depth):
        raise DeepJsonError(f"nested too deeply: more than {max_depth} objects and lists in each other")
    return value


@cache
def _decoder(
    allow_nan: bool,
    parse_float: Callable[[str], Any] | None,
    object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None,
) -> json.JSONDecoder:
    return json.JSONDecoder(
        parse_float=parse_float,
        object_pairs_hook=object_pairs_hook,
        parse_constant=None if allow_nan else _refuse,
    )


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _is_deeper(value: Any, depth: int) -> bool:
    """Return True if more than `depth` containers are nested."""
    level = [value]
    for _ in range(depth):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return any(isinstance(one, dict | list) for one in level)
