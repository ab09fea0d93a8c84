"""The schema of bodies, `carrier string, delay int` or a JSON Schema file, and their format."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow.quality.bodies.body_options import check_options
from rocketflow.quality.bodies.csv_bodies import csv_dialect
from rocketflow.quality.errors import BodySchemaError
from rocketflow.quality.projection import quoted
from rocketflow_store.spi.json_text import MAX_JSON_DEPTH, parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMATS: Final = ("json", "csv", "text", "none")
_JSON_TYPES: Final = {"string": "string", "integer": "bigint", "number": "double", "boolean": "boolean"}
_STRING_FORMATS: Final = {"date-time": "timestamp", "date": "date"}
_ANNOTATIONS: Final = frozenset(
    {"type", "format", "title", "description", "default", "examples", "$comment", "$id", "$schema", "$anchor"}
    | {"deprecated", "readOnly", "writeOnly"}
)


@dataclass(frozen=True, slots=True)
class BodySpec:
    """The form of bodies: `ddl` are their fields, `options` the parser's.

    `required` are the fields that a JSON Schema requires, as paths: ("a", "b") must exist if "a" exists. `present` are
    required fields that may be null. `strings` are fields, outside of arrays, that must be JSON strings: Spark's parser
    would convert any value. With `closed` a body may have no other fields than those of the schema.
    """

    format: str
    ddl: str
    required: tuple[tuple[str, ...], ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    closed: bool = False
    strings: tuple[tuple[str, ...], ...] = ()
    present: tuple[tuple[str, ...], ...] = ()


def body_spec(schema: str | None, body_format: str | None = None, options: dict[str, str] | None = None) -> BodySpec:
    """Return the spec of `--body-schema` and `--body-format`; raise BodySchemaError if they do not fit together."""
    known = ", ".join(FORMATS)
    chosen = body_format or ("json" if schema else "none")
    if chosen not in FORMATS:
        raise BodySchemaError(f"--body-format {chosen!r}: one of {known}")
    check_options(chosen, options or {})
    if chosen == "csv":
        csv_dialect(options or {})
    if chosen == "none":
        if schema:
            raise BodySchemaError("--body-schema needs --body-format json, csv or text")
        return BodySpec("none", "")
    if chosen == "text":
        line = schema or "body string"
        parts = line.split()
        if len(parts) != 2 or parts[1].lower() != "string":
            raise BodySchemaError(f"--body-schema {line!r}: a text is one column, such as 'line string'")
        return BodySpec("text", line)
    if not schema:
        raise BodySchemaError(f"--body-format {chosen} needs --body-schema, e.g. 'carrier string, delay int'")
    if schema.endswith(".json") or os.path.isfile(schema):
        if chosen != "json":
            raise BodySchemaError(f"--body-schema {schema}: a JSON Schema describes bodies of format json")
        return _of_json_schema(Path(schema), dict(options or {}))
    return BodySpec(chosen, schema, options=dict(options or {}))


def _of_json_schema(path: Path, options: dict[str, str]) -> BodySpec:
    try:
        raw = parse_json(path.read_bytes().decode("utf-8"), allow_nan=True, max_depth=MAX_JSON_DEPTH)
    except (OSError, ValueError) as error:
        raise BodySchemaError(f"--body-schema {path}: {error}") from error
    problems: list[str] = []
    if not isinstance(raw, dict) or _one_type(raw) != "object":
        raise BodySchemaError(f'--body-schema {path}: is no JSON Schema of "type": "object"')
    fields = _fields(raw, "", problems)
    asked = list(_required(raw, (), problems)) if not problems else []
    if problems:
        raise BodySchemaError(f"--body-schema {path}: " + "; ".join(problems))
    ddl = ", ".join(f"{name} {kind}" for name, kind in fields)
    closed = raw.get("additionalProperties") is False
    required = tuple(path for path, nullable in asked if not nullable)
    present = tuple(path for path, nullable in asked if nullable)
    return BodySpec("json", ddl, required, options, closed, tuple(_strings(raw, ())), present)


def _strings(schema: dict[str, Any], where: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the fields that must be strings, outside of arrays."""
    for name, one in schema["properties"].items():
        if _one_type(one) == "object":
            yield from _strings(one, (*where, name))
        elif _one_type(one) == "string":
            yield (*where, name)


def _required(
    schema: dict[str, Any], where: tuple[str, ...], problems: list[str]
) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield (path, True if it may be null) of the fields that a body must have, outside of arrays."""
    names = schema.get("required", [])
    if not isinstance(names, list) or not set(map(str, names)) <= set(schema["properties"]):
        problems.append(f"{'.'.join([*where, 'required'])} names a field that properties does not have")
        return
    yield from (((*where, str(name)), _nullable(schema["properties"][name])) for name in names)
    for name, one in schema["properties"].items():
        if _one_type(one) == "object":
            yield from _required(one, (*where, name), problems)


def _nullable(schema: dict[str, Any]) -> bool:
    given = schema.get("type")
    return isinstance(given, list) and "null" in given


def _one_type(schema: dict[str, Any]) -> str | None:
    given = schema.get("type")
    kinds = [one for one in (given if isinstance(given, list) else [given]) if one != "null"]
    return kinds[0] if len(kinds) == 1 and isinstance(kinds[0], str) else None


def _fields(schema: dict[str, Any], where: str, problems: list[str]) -> list[tuple[str, str]]:
    """Return (quoted name, Spark type) of every property."""
    allowed = {"properties"} if "[]" in where else {"properties", "required"}
    more = schema.get("additionalProperties")
    if more in (True, {}) or (more is False and not where):  # other fields are ignored
        allowed.add("additionalProperties")
    _check_keywords(schema, where, allowed, problems)
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        problems.append(f"{where or 'the schema'} has no properties")
        return []
    return [
        (quoted(name), _type(one, f"{where}.{name}" if where else name, problems)) for name, one in properties.items()
    ]


def _type(schema: Any, where: str, problems: list[str]) -> str:
    kind = _one_type(schema) if isinstance(schema, dict) else None
    if kind == "object":
        return f"struct<{', '.join(f'{name}: {one}' for name, one in _fields(schema, where, problems))}>"
    if kind == "array":
        _check_keywords(schema, where, {"items"}, problems)
        return f"array<{_type(schema.get('items'), f'{where}[]', problems)}>"
    if kind not in _JSON_TYPES:
        problems.append(f"{where} has no type that a column can have: {json.dumps(schema)[:80]}")
        return "string"
    _check_keywords(schema, where, set(), problems)
    if kind == "string":
        return _STRING_FORMATS.get(str(schema.get("format")), "string")
    return _JSON_TYPES[kind]


def _check_keywords(schema: dict[str, Any], where: str, allowed: set[str], problems: list[str]) -> None:
    for key in sorted(set(schema) - _ANNOTATIONS - allowed):
        problems.append(f"{where or 'the schema'}: {key} is a check, not a type; write it as an expectation")
