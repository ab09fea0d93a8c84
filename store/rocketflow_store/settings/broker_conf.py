"""`broker.conf`: a Java properties file with RocketMQ's keys, and the same keys from the environment.

Escapes, comments and continued lines are those of java.util.Properties, which does not expand `${...}`. RocketMQ
ignores unknown keys; here an unknown key or an unusable value raises StoreConfigError.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.files.os_files import access_error, read_file
from rocketflow_store.model.errors import StoreConfigError
from rocketflow_store.model.setting import OWN_PREFIX, VARIABLE_PREFIX, Setting, ValueNotAllowedError, nearest_name
from rocketflow_store.settings.broker_conf_keys import OTHER_KEYS
from rocketflow_store.settings.settings_table import SETTINGS

if TYPE_CHECKING:
    from pathlib import Path

_BLANKS: Final = " \t\f"
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_NEAR: Final = 0.6
_MADE_UP: Final = "storeHost"
"""A setting that other keys make up: a file cannot give it."""


class SettingTable(Mapping[str, Setting]):
    """The keys that a properties file and the environment may have, by key; a later row of a key counts.

    With `shared` the file is a server's too, whose keys `rocketflow.<key>` are accepted as text.
    """

    def __init__(self, rows: Iterable[Setting], *, shared: bool = False) -> None:
        self._rows = {one.key: one for one in rows}
        self._by_variable = {one.variable: one.key for one in self._rows.values()}
        self._shared = shared

    def __getitem__(self, key: str) -> Setting:
        return self._rows[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def typed(self, key: str, text: str, where: str) -> Any:
        """Return the value of a key that has this text; `where` it stands begins an error. Raises StoreConfigError."""
        where = f"{where}: " if where else ""
        row = self._rows.get(key)
        if row is None:
            if self._shared and key.startswith(OWN_PREFIX):
                return text.strip()
            nearest = nearest_name(key, self._rows, _NEAR)
            hint = f"did you mean {nearest}?" if nearest else f"RocketFlow's keys start with '{OWN_PREFIX}'"
            raise StoreConfigError(key, text, f"{where}unknown key; {hint}")
        try:
            return row.typed(text)
        except ValueNotAllowedError as error:
            raise StoreConfigError(key, text, f"{where}{error}") from None

    def typed_values(self, entries: Iterable[tuple[str, str, str]]) -> dict[str, Any]:
        """Return the values of (key, text, where it stands) by key; the last value of a repeated key counts."""
        return {key: self.typed(key, text, where) for key, text, where in entries}

    def of_environment(self, environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
        """Yield (key, text, where) of the variables like ROCKETFLOW_flushDiskType.

        Keys begin with a lower-case letter: variables like ROCKETFLOW_DEBUG are not settings.
        """
        for name, text in environ.items():
            key = name.removeprefix(VARIABLE_PREFIX)
            if key != name and key[:1].islower():
                yield self._by_variable.get(name, key), text, f"environment variable {name}"


STORE_TABLE: Final = SettingTable((*OTHER_KEYS, *(one for one in SETTINGS if one.key != _MADE_UP)), shared=True)


def read_properties(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (key, text, where) of a properties file. Raises StoreAccessError, and StoreConfigError for bad escapes."""
    try:
        raw = read_file(path)
    except OSError as error:
        raise access_error(path, error) from error
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # java.util.Properties reads every file as Latin-1
    return ((key, value, f"{path} line {number}") for number, key, value in parse_properties(text))


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
