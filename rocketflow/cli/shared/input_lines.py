"""Lines of input, as they come, and the fields of messages in JSON lines."""

from __future__ import annotations

import base64
import binascii
import codecs
import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any, Final, cast

from rocketflow.errors import UsageError
from rocketflow.process.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from contextlib import AbstractContextManager
    from io import BufferedReader

_READ_BYTES: Final = 1 << 16


def opened_input(source: str) -> AbstractContextManager[BufferedReader]:
    """Return an open file, or stdin for `-`. Raises UsageError."""
    if source == "-":
        if sys.stdin is None:
            raise UsageError("--input -: there is no standard input")
        return contextlib.nullcontext(cast("BufferedReader", sys.stdin.buffer))
    try:
        return open(source, "rb")
    except OSError as error:
        raise UsageError(f"--input {source}: {error.strerror}") from error


def lines_as_they_come(read: Callable[[int], bytes]) -> Iterator[list[bytes]]:
    """Call `read`, which returns what has arrived, until it returns nothing.

    Yield the lines that have arrived, then those that arrived meanwhile, and so on; the last may lack its end.
    """
    mark = codecs.BOM_UTF8
    begun: list[bytes] = []
    while data := read(_READ_BYTES):
        first, *following = data.split(b"\n")
        begun.append(first)
        if following:
            lines = [b"".join(begun), *following[:-1]]
            begun = [following[-1]]
            yield [lines[0].removeprefix(mark), *lines[1:]]
            mark = b""
    if last := b"".join(begun).removeprefix(mark):
        yield [last]


def json_fields(line: bytes, known: Collection[str]) -> dict[str, Any]:
    """Return the object of a JSON line, which has no other fields than these. Raises ValueError."""
    from rocketflow_store.spi.json_text import parse_json

    fields = parse_json(line.decode("utf-8"))
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    unknown = sorted(fields.keys() - set(known))
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}; known are {', '.join(sorted(known))}")
    return fields


def properties_field(fields: dict[str, Any]) -> dict[str, str]:
    """Return the field `properties`. Raises ValueError."""
    properties = fields.get("properties") or {}
    if not isinstance(properties, dict) or not all(isinstance(value, str) for value in properties.values()):
        raise ValueError("properties must be an object of strings")
    return properties


def keys_field(fields: dict[str, Any]) -> list[str]:
    """Return the field `keys`. Raises ValueError."""
    keys = fields.get("keys") or []
    if not isinstance(keys, (str, list)) or not all(isinstance(one, str) for one in keys):
        raise ValueError("keys must be a string or a list of strings")
    return keys.split(" ") if isinstance(keys, str) else keys


def typed(fields: dict[str, Any], name: str, kind: type) -> Any:
    """Return a field of a type, None if it is missing. Raises ValueError."""
    value = fields.get(name)
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise ValueError(f"{name} must be {'a string' if kind is str else 'a whole number'}")
    return value


def time_field(fields: dict[str, Any], name: str) -> int | None:
    """Return a time in ms since 1970, None if it is missing. Raises ValueError."""
    value = fields.get(name)
    if not isinstance(value, str):
        found: int | None = typed(fields, name, int)
        return found
    try:
        return parse_time(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def body_field(fields: dict[str, Any]) -> bytes:
    """Return the field `body` (text, or a JSON value as text) or `bodyBase64`. Raises ValueError."""
    if "bodyBase64" in fields:
        if fields.get("body") is not None:
            raise ValueError("body and bodyBase64: give one of them")
        try:
            return base64.b64decode(fields["bodyBase64"], validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise ValueError(f"bodyBase64: {error}") from error
    if "body" not in fields or fields["body"] is None:
        raise ValueError("no body: give body or bodyBase64")
    body = fields["body"]
    return body.encode() if isinstance(body, str) else json.dumps(body, ensure_ascii=False).encode()
