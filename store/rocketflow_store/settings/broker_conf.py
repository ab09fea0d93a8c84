"""`broker.conf`: a Java properties file with RocketMQ's keys, and the same keys from the environment.

Escapes, comments and continued lines are those of java.util.Properties, which does not expand `${...}`. RocketMQ
ignores unknown keys; here an unknown key or an unusable value raises StoreConfigError.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.files.os_files import access_error, read_file
from rocketflow_store.model.errors import StoreConfigError
from rocketflow_store.model.status import FlushDiskType
from rocketflow_store.settings.broker_conf_keys import (
    BOOLEAN_KEYS,
    CHOICE_KEYS,
    FLOAT_KEYS,
    INT_KEYS,
    LONG_KEYS,
    TEXT_KEYS,
)
from rocketflow_store.settings.settings_table import BY_KEY, OWN_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ENVIRONMENT_PREFIX: Final = "ROCKETFLOW_"
OWN_KEYS: Final = frozenset(one for one in BY_KEY if one.startswith(OWN_PREFIX))
"""RocketFlow's keys that a file or the environment can set."""
KNOWN_KEYS: Final = frozenset({*BOOLEAN_KEYS, *INT_KEYS, *LONG_KEYS, *FLOAT_KEYS, *TEXT_KEYS, *CHOICE_KEYS})

_BLANKS: Final = " \t\f"
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_JAVA_SUFFIX: Final = re.compile(r"[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?[dDfF]")
"""A number with a type suffix, as Double.parseDouble accepts it."""
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def load_broker_conf(path: Path) -> dict[str, Any]:
    """Return the file's settings by RocketMQ's camelCase keys, values as bool, int, float, str or FlushDiskType.

    Raises:
        StoreAccessError: the file cannot be read.
        StoreConfigError: a key is unknown or its value unusable.
    """
    try:
        raw = read_file(path)
    except OSError as error:
        raise access_error(path, error) from error
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # java.util.Properties reads every file as Latin-1
    return parse_broker_conf(text, source=str(path))


def parse_broker_conf(text: str, source: str = "broker.conf") -> dict[str, Any]:
    """Return the settings of a properties text like `load_broker_conf`; the last value of a repeated key counts."""
    settings: dict[str, Any] = {}
    for number, key, value in parse_properties(text):
        if not key.startswith(OWN_PREFIX) and key not in KNOWN_KEYS:
            raise StoreConfigError(key, value, f"{source} line {number}: unknown key{_nearest(key)}")
        settings[key] = typed_value(key, value, f"{source} line {number}: ")
    return settings


def environment_settings(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings from variables like ROCKETFLOW_flushDiskType.

    Keys begin with a lower-case letter: variables like ROCKETFLOW_DEBUG are not settings.

    Raises:
        StoreConfigError: a key is unknown or its value unusable.
    """
    settings: dict[str, Any] = {}
    for name, value in environ.items():
        key = name.removeprefix(ENVIRONMENT_PREFIX)
        if key == name or not key[:1].islower():
            continue
        if f"{OWN_PREFIX}{key}" in OWN_KEYS:
            key = f"{OWN_PREFIX}{key}"
        if key not in KNOWN_KEYS and key not in OWN_KEYS:
            raise StoreConfigError(key, value, f"environment variable {name}: unknown key{_nearest(key)}")
        settings[key] = typed_value(key, value, f"environment variable {name}: ")
    return settings


def typed_value(key: str, text: str, where: str = "") -> Any:
    """Convert `text` to the type of `key`; the value of a key without a known type stays text."""
    value = text.strip()
    if key in BOOLEAN_KEYS or (key in OWN_KEYS and isinstance(BY_KEY[key].default, bool)):
        if value.lower() not in ("true", "false"):
            raise StoreConfigError(key, text, f"{where}must be true or false")
        return value.lower() == "true"
    if key in INT_KEYS or key in LONG_KEYS:
        bits = 31 if key in INT_KEYS else 63
        if not _INTEGER.fullmatch(value) or not -(1 << bits) <= int(value) < 1 << bits:
            raise StoreConfigError(key, text, f"{where}must be an integer of {bits + 1} bits, digits only")
        return int(value)
    if key in FLOAT_KEYS:
        try:
            return float(value[:-1] if _JAVA_SUFFIX.fullmatch(value) else value)
        except ValueError:
            raise StoreConfigError(key, text, f"{where}must be a number") from None
    choices = CHOICE_KEYS.get(key)
    if choices is not None:
        if value not in choices:
            raise StoreConfigError(key, text, f"{where}must be one of {', '.join(choices)}")
        return FlushDiskType(value) if key == "flushDiskType" else value
    return value


def parse_properties(text: str) -> list[tuple[int, str, str]]:
    """Return (line number from 1, key, value) of every entry, as java.util.Properties reads them.

    Raises:
        StoreConfigError: a \\u escape is malformed.
    """
    entries = []
    for number, line in _logical_lines(text):
        end = _key_end(line)
        rest = line[end:].lstrip(_BLANKS)
        if rest[:1] in ("=", ":") and rest:
            rest = rest[1:].lstrip(_BLANKS)
        entries.append((number, _unescape(line[:end], number), _unescape(rest, number)))
    return entries


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Return (number, line) without comments and leading blanks; an odd number of final backslashes joins the next."""
    lines: list[tuple[int, str]] = []
    parts: list[str] = []
    first = 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = natural.lstrip(_BLANKS)
        if not parts:
            if not line or line[0] in "#!":
                continue
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            parts.append(line[:-1])
            continue
        lines.append((first, "".join([*parts, line])))
        parts = []
    if parts:
        lines.append((first, "".join(parts)))
    return lines


def _key_end(line: str) -> int:
    at = 0
    while at < len(line) and line[at] not in "=: \t\f":
        at += 2 if line[at] == "\\" else 1
    return min(at, len(line))


def _unescape(text: str, number: int) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char != "\\" or at == len(text):
            out.append(char if char != "\\" else "")
            continue
        char = text[at]
        at += 1
        if char == "u":
            digits = text[at : at + 4]
            if not re.fullmatch("[0-9a-fA-F]{4}", digits):
                raise StoreConfigError(text, digits, f"line {number}: \\u needs four hexadecimal digits")
            out.append(chr(int(digits, 16)))
            at += 4
        else:
            out.append(_ESCAPED.get(char, char))
    return "".join(out)


def _nearest(key: str) -> str:
    by_lower = {known.lower(): known for known in KNOWN_KEYS}
    close = difflib.get_close_matches(key.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[close[0]]}?" if close else "; RocketFlow's keys start with 'rocketflow.'"
