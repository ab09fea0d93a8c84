"""Options as Spark passes them, strings under case-insensitive names, converted to values or to errors.

Source and sink share this module. An error names the option, the value and the allowed values; for an unknown option
it names the nearest known one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final

from rocketflow.process.times import TIME_FORM, SecondsError, check_milliseconds, parse_time
from rocketflow_store import StoreError
from rocketflow_store.spi.json_text import parse_json
from rocketflow_store.spi.setting_rows import LONG_MAX, Setting, ValueNotAllowedError, nearest_name

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

_SHOWN_VALUE: Final = 200


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
        return check_milliseconds(given) if 0 <= given <= LONG_MAX else None
    try:
        found = parse_time(given) if isinstance(given, str) else -1
    except SecondsError:
        raise
    except ValueError:
        return None
    return found if found >= 0 else None


class OptionValues(Mapping[str, str]):
    """A case-insensitive, read-only view of a data source's options, converted as their rows say."""

    def __init__(self, options: Mapping[str, str], rows: Iterable[Setting] = ()) -> None:
        self._rows = {one.key: one for one in rows}
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

    def check_known(self) -> None:
        """Raise OptionError for the first option that has no row and is not one of Spark's."""
        allowed = {name.lower() for name in self._rows} | SPARK_OPTIONS
        for lower in self._values:
            if lower not in allowed and not lower.startswith("option."):
                raise unknown_option_error(self._names[lower], self._rows)

    def value(self, option: str) -> Any:
        """Return the value of an option, or its default if it is not set; raise OptionError for an invalid one."""
        row = self._rows[option]
        if option not in self:
            return row.default
        try:
            return row.typed(self[option], any_case=True)
        except ValueNotAllowedError as error:
            raise bad_value_error(option, self[option], error.allowed) from None

    def text(self, option: str) -> str | None:
        """Return a string without surrounding blanks, None if it is not set; an empty one is an error."""
        if option not in self:
            return None
        value = self[option].strip()
        if not value:
            raise bad_value_error(option, self[option], "a value that is not empty")
        return value

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
