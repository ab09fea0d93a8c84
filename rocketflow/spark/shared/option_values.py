"""Options as Spark passes them, strings under case-insensitive names, converted to values or to errors.

Source and sink share this module. An error names the option, the value and the allowed values; for an unknown option
it names the nearest known one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final

from rocketflow.process.times import TIME_FORM, SecondsError, check_milliseconds, parse_time
from rocketflow_store import StoreError
from rocketflow_store.spi.json_text import parse_json
from rocketflow_store.spi.setting_rows import nearest_name

SPARK_OPTIONS: Final = frozenset(
    {
        "checkpointlocation",
        "queryname",
        "serialization.format",
        "provider",
        "owner",
        "mergeschema",
        "asyncprogresstrackingenabled",
        "asyncprogresstrackingcheckpointintervalms",
    }
)
"""Options that Spark itself adds to those of a data source (lower case)."""

_DURATION: Final = re.compile(r"\s*(\d+)\s*(ms|s|m|min|h|d)?\s*", re.ASCII)
_MS_OF_UNIT: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, None: 1}
_SIZE: Final = re.compile(r"\s*(\d+)\s*(b|k|kb|m|mb|g|gb|t|tb)?\s*", re.ASCII | re.IGNORECASE)
_BYTES_OF_UNIT: Final = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SHOWN_VALUE: Final = 200
_MAX_LONG: Final = (1 << 63) - 1


class OptionError(StoreError, ValueError):
    """An option is unknown, missing, or has a value that cannot be used; `option` is its name."""

    exit_code: ClassVar[int] = 2

    def __init__(self, option: str, message: str) -> None:
        super().__init__(message)
        self.option = option


def unknown_option_error(name: str, known: Iterable[str]) -> OptionError:
    """Return the error for an option that does not exist."""
    names = sorted(known)
    nearest = nearest_name(name, names)
    hint = f"did you mean {nearest}?" if nearest else f"known options are {', '.join(names)}"
    return OptionError(name, f"unknown option {name!r}: {hint}")


def bad_value_error(option: str, value: object, allowed: str) -> OptionError:
    """Return the error for a value that an option does not accept; a long value is shortened."""
    shown = repr(value)
    if len(shown) > _SHOWN_VALUE:
        shown = f"{shown[:_SHOWN_VALUE]}... ({len(shown):,} characters)"
    return OptionError(option, f"option {option}={shown}: allowed is {allowed}")


def time_or_none(given: object) -> int | None:
    """Return a time at or after 1970 in ms, given as a number or as text; None for anything else.

    Raises SecondsError if it seems to be a number of seconds.
    """
    if type(given) is int:
        return check_milliseconds(given) if 0 <= given <= _MAX_LONG else None
    try:
        found = parse_time(given) if isinstance(given, str) else -1
    except SecondsError:
        raise
    except ValueError:
        return None
    return found if found >= 0 else None


class OptionValues(Mapping[str, str]):
    """A case-insensitive, read-only view of a data source's options, with parsers by type.

    Every parser returns `default` for an option that is not set and raises OptionError for an invalid value.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values: dict[str, str] = {}
        self._names: dict[str, str] = {}
        for name, value in options.items():
            self._values[name.lower()] = str(value)
            self._names[name.lower()] = name

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._values

    def check_known(self, known: Iterable[str]) -> None:
        """Raise OptionError for the first option that is neither in `known` nor one of Spark's."""
        names = list(known)
        allowed = {name.lower() for name in names} | SPARK_OPTIONS
        for lower in self._values:
            if lower not in allowed and not lower.startswith("option."):
                raise unknown_option_error(self._names[lower], names)

    def text(self, option: str, default: str | None = None) -> str | None:
        """Return a string without surrounding blanks; an empty one is an error."""
        if option not in self:
            return default
        value = self[option].strip()
        if not value:
            raise bad_value_error(option, self[option], "a value that is not empty")
        return value

    def choice(self, option: str, allowed: Iterable[str], default: str) -> str:
        """Return one of `allowed`, compared without case, in the spelling of `allowed`."""
        if option not in self:
            return default
        names = list(allowed)
        for name in names:
            if name.lower() == self[option].strip().lower():
                return name
        raise bad_value_error(option, self[option], " or ".join(names))

    def flag(self, option: str, default: bool) -> bool:
        """Return the value of a `true` or `false` option."""
        return self.choice(option, ("true", "false"), "true" if default else "false") == "true"

    def integer(
        self, option: str, default: int | None = None, minimum: int = 1, maximum: int = _MAX_LONG
    ) -> int | None:
        """Return an integer within [minimum, maximum]."""
        if option not in self:
            return default
        text = self[option].strip()
        if not re.fullmatch(r"[+-]?\d{1,19}", text, re.ASCII) or not minimum <= int(text) <= maximum:
            top = f" and at most {maximum}" if maximum < _MAX_LONG else ""
            raise bad_value_error(option, self[option], f"a whole number of at least {minimum}{top}")
        return int(text)

    def time_ms(self, option: str) -> int | None:
        """Return a time at or after 1970 in ms, given in ms or as ISO 8601, or None if the option is not set."""
        if option not in self:
            return None
        try:
            found = time_or_none(self[option])
        except SecondsError as error:
            raise OptionError(option, f"option {option}: {error}") from error
        if found is None:
            raise bad_value_error(option, self[option], TIME_FORM)
        return found

    def duration_ms(self, option: str, default: int | None = None) -> int | None:
        """Return a duration such as 500ms, 30s, 15m, 2h in ms; a plain number is in ms."""
        if option not in self:
            return default
        found = _DURATION.fullmatch(self[option].lower())
        if found is None or len(found[1]) > 15:
            raise bad_value_error(option, self[option], "a duration such as 500ms, 30s, 15m or 2h")
        return int(found[1]) * _MS_OF_UNIT[found[2]]

    def size_bytes(self, option: str, default: int | None = None) -> int | None:
        """Return a number of bytes of at least 1, given as 1048576, 64k, 10m, 1g."""
        if option not in self:
            return default
        found = _SIZE.fullmatch(self[option])
        size = 0
        if found is not None and len(found[1]) <= 15:
            size = int(found[1]) * _BYTES_OF_UNIT[(found[2] or "b")[0].lower()]
        if size < 1:
            raise bad_value_error(option, self[option], "a number of bytes of at least 1, such as 1048576, 64k, 10m")
        return size

    def json_object(self, option: str, allowed: str) -> dict[str, Any] | None:
        """Return a JSON object; `allowed` describes its form in the error."""
        if option not in self:
            return None
        try:
            value = parse_json(self[option], object_pairs_hook=_without_repeats)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise bad_value_error(option, self[option], allowed)
        return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is given twice")
    return found
