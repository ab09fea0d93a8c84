"""The reason why a body could not be read, found in the tasks, for these bodies alone, by a parser that reports it."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from rocketflow.quality.bodies.csv_bodies import CsvDialect
from rocketflow_store.spi.json_text import DeepJsonError, parse_json

_MOST: Final = 200
_UNREADABLE: Final = "could not be read with the body schema"
_OWN_LIMITS: Final = ("field limit", "no single character")
"""Parts of errors of Python's CSV reader about lines that Spark may accept."""
_INTEGERS: Final = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_REALS: Final = frozenset({"float", "double"})


@dataclass(frozen=True, slots=True)
class BodyReasons:
    """Finds why Spark's parser refused bodies of this format with these fields ((name, Spark type), ...)."""

    format: str
    fields: tuple[tuple[str, str], ...]
    required: tuple[tuple[str, ...], ...] = ()
    dialect: CsvDialect = field(default_factory=CsvDialect)
    closed: bool = False
    strings: tuple[tuple[str, ...], ...] = ()
    present: tuple[tuple[str, ...], ...] = ()

    def why(self, body: bytes) -> str:
        """Return the reason in one line of at most 200 characters, for any body."""
        try:
            return self._why(body)[:_MOST]
        except (ValueError, TypeError, RecursionError, csv.Error):  # these parsers do not accept it either
            return _UNREADABLE

    def _why(self, body: bytes) -> str:
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError as error:
            return f"is not UTF-8: byte {error.start} is 0x{body[error.start]:02x}"
        if self.format == "json":
            return self._json(text)
        if self.format == "csv":
            return self._csv(text)
        return "is no text"

    def _json(self, text: str) -> str:
        if not text.strip():
            return "is empty"
        try:
            value = parse_json(text, allow_nan=True)
        except DeepJsonError:
            return _UNREADABLE
        except ValueError as error:
            return f"is not JSON: {error}"
        if not isinstance(value, dict):
            return f"is no JSON object but {_short(value)}"
        for path in (*self.required, *self.present):
            if _lacks(value, path, nullable=path in self.present):
                return f"has no field {'.'.join(path)}, which is required"
        if self.closed and (more := sorted(value.keys() - {name for name, _ in self.fields})):
            return f"has a field that the schema does not have: {_short(more[0])}"
        for name, kind in self.fields:
            if value.get(name) is not None and not _fits(value[name], kind):
                return f"field {name} is no {kind}: {_short(value[name])}"
        for path in self.strings:
            found = _at(value, path)
            if found is not None and not isinstance(found, str):
                return f"field {'.'.join(path)} is no string: {_short(found)}"
        return _UNREADABLE

    def _csv(self, text: str) -> str:
        if not text.strip():
            return "is empty"
        try:
            lines = self.dialect.lines(text)
        except csv.Error as error:
            if any(one in str(error) for one in _OWN_LIMITS):
                return _UNREADABLE
            return f"is not CSV: {error}"
        if len(lines) != 1:
            return f"has {len(lines)} lines, a body is one"
        (values,) = lines
        if len(values) != len(self.fields):
            return f"has {len(values)} fields, the body schema has {len(self.fields)}"
        for (name, kind), value in zip(self.fields, values, strict=True):
            if value not in ("", self.dialect.null) and not _parses(value, kind):
                return f"field {name} is no {kind}: {_short(value)}"
        return _UNREADABLE


def _lacks(value: dict[str, Any], path: tuple[str, ...], *, nullable: bool) -> bool:
    """Return True if the object around `path` exists without the field; a null counts as a field if `nullable`."""
    holder = _at(value, path[:-1])
    return isinstance(holder, dict) and (path[-1] not in holder if nullable else holder.get(path[-1]) is None)


def _at(value: dict[str, Any], path: tuple[str, ...]) -> Any:
    """Return the field at `path`, or None if it, or an object around it, does not exist."""
    found: Any = value
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _fits(value: Any, kind: str) -> bool:
    if kind in _INTEGERS:
        return type(value) is int and -(1 << _INTEGERS[kind]) <= value < 1 << _INTEGERS[kind]
    if kind in _REALS:
        return type(value) in (int, float) or value in ("NaN", "Infinity", "-Infinity", "INF", "-INF", "+INF")
    if kind.startswith("decimal"):
        return type(value) in (int, float) and _fits_decimal(repr(value), kind)
    if kind == "boolean":
        return type(value) is bool
    if kind in ("date", "timestamp"):
        return isinstance(value, str) and value[:4].isdigit()
    if kind.startswith("array"):
        return isinstance(value, list)
    if kind.startswith(("struct", "map")):
        return isinstance(value, dict)
    return True


def _fits_decimal(text: str, kind: str) -> bool:
    """Return True if decimal(p,s) has room for the digits before the point; further decimal places are rounded."""
    precision, scale = map(int, kind.removeprefix("decimal(").removesuffix(")").split(","))
    try:
        number = Decimal(text)
        return number.is_finite() and abs(round(number, scale)) < 10 ** (precision - scale)
    except InvalidOperation:
        return False


def _parses(value: str, kind: str) -> bool:
    try:
        if kind in _INTEGERS:
            return _fits(int(value), kind)
        if kind in _REALS:
            float(value)
        if kind.startswith("decimal"):
            return _fits_decimal(value, kind)
        if kind == "boolean":
            return value.lower() in ("true", "false")
    except ValueError:
        return False
    return True


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
