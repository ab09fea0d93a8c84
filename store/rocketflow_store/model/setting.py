"""One type for everything that a user can set, and the attributes of dataclasses that are declared as such rows.

    @dataclass(kw_only=True)
    class ServerOptions:
        listen_port: int = setting("Port to listen at.", 9876, bounds=(0, 65_535))

    rows_of(ServerOptions)  # (Setting(key="listenPort", ...),)

Loaders, errors, `rocketflow explain` and the reference read the rows; a class has its defaults from them.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import field
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

OWN_PREFIX: Final = "rocketflow."
"""Prefix of RocketFlow's keys."""
VARIABLE_PREFIX: Final = "ROCKETFLOW_"
NAME: Final = "{name}"
"""The key of a setting whose key is the name of its attribute."""
_ROW: Final = "setting"
_INTEGER: Final = r"[+-]?[0-9]{1,19}"
_JAVA_NUMBER: Final = r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)[dDfF]"
"""A number with a type suffix, as Double.parseDouble accepts it."""
_DURATION: Final = r"\s*([0-9]{1,15})\s*(ms|s|m|min|h|d)?\s*"
_MS_OF_UNIT: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, None: 1}
_SIZE: Final = r"\s*([0-9]{1,15})\s*([kmgt])?b?\s*"
_UNITS_OF_SIZE: Final = "bkmgt"


class Kind(Enum):
    """Form of a value."""

    TEXT = "text"
    FLAG = "true or false"
    INT = "an integer of 32 bits, digits only"
    LONG = "an integer of 64 bits, digits only"
    FLOAT = "a number"
    CHOICE = "one of its choices"
    COUNT = "a whole number"
    LIST = "text; may be repeated"
    PAIRS = "key=value; may be repeated"
    DURATION = "a duration such as 500ms, 30s, 15m or 2h"
    SIZE = "a number of bytes of at least 1, such as 1048576, 64k, 10m"


class Effect(Enum):
    """Time at which a value takes effect."""

    OPEN = "at the next open"
    FILES = "with the first file of its kind: files that exist keep their size"
    START = "at the next start"
    LIVE = "at the next start; at once if rocketflow.adminConfigKeys lists it and an administrator changes it"
    NONE = "never: it is kept as it is given"


class ValueNotAllowedError(ValueError):
    """A text is no value of a setting; `allowed` says which texts are."""

    def __init__(self, allowed: str) -> None:
        super().__init__(f"must be {allowed}")
        self.allowed = allowed


class Setting(NamedTuple):
    """One thing that a user can set: its key, what it is `about`, its values.

    `field` is the attribute that has the value, "" for a key that is accepted and read nowhere. `since` is the oldest
    of the releases 4.9.7, 5.1.4, 5.3.3, 5.4.0, 5.5.0, 5.5.1 that reads the key from its file, or None if none does.
    `bounds` are the lowest and the highest value. `kept` are the values (in lower case) whose promise is kept; others
    are refused with the `remedy`; empty for any.
    """

    key: str
    about: str = ""
    default: Any = None
    kind: Kind = Kind.TEXT
    field: str = ""
    unit: str = ""
    bounds: tuple[int, int] | None = None
    choices: tuple[str, ...] = ()
    form: str = ""
    """Values in words, where neither bounds nor choices name them."""
    shown_default: str | None = None
    """The default in words, where it depends on something."""
    since: str | None = None
    effect: Effect = Effect.OPEN
    secret: bool = False
    important: bool = False
    """Whether it is printed as one of the important settings of a server."""
    kept: tuple[str, ...] = ()
    remedy: str = ""
    also: tuple[str, ...] = ()
    """Other spellings."""

    @property
    def variable(self) -> str:
        """The environment's variable for the key of a file: variables of most shells have no dots."""
        return f"{VARIABLE_PREFIX}{self.key.removeprefix(OWN_PREFIX).replace('.', '_')}"

    @property
    def is_live(self) -> bool:
        """True if a server reads the value at each use."""
        return self.effect is Effect.LIVE

    def check(self, value: Any) -> None:
        """Raise ValueNotAllowedError for a number outside the bounds; a fraction lies above the lowest value."""
        if self.bounds is None or value is None:
            return
        low, high = self.bounds
        if self.kind is Kind.FLOAT:
            if not value > low:
                raise ValueNotAllowedError(f"above {low}")
        elif not isinstance(value, int) or not low <= value <= high:
            raise ValueNotAllowedError(f"between {low} and {high}" if high < LONG_MAX else f"at least {low}")

    def fitted(self, value: Any) -> Any:
        """Return the value that RocketMQ makes of a number outside the bounds; it starts with no wrong file size."""
        if self.bounds is None or self.effect is Effect.FILES or not isinstance(value, int):
            return value
        low, high = self.bounds
        return min(max(value, low), high)

    def typed(self, given: str, *, any_case: bool = False) -> Any:
        """Return the value that a text has. Raises ValueNotAllowedError.

        Bounds are not looked at, but for a count. `any_case` is for choices that are compared without case.
        """
        text = given.strip()
        match self.kind:
            case Kind.TEXT:
                return text
            case Kind.FLAG if text.lower() in ("true", "false"):
                return text.lower() == "true"
            case Kind.CHOICE:
                for one in self.choices:
                    if text == one or (any_case and text.lower() == one.lower()):
                        return type(self.default)(one) if isinstance(self.default, Enum) else one
                raise ValueNotAllowedError(
                    " or ".join(self.choices) if any_case else f"one of {', '.join(self.choices)}"
                )
            case Kind.INT | Kind.LONG if re.fullmatch(_INTEGER, text):
                bits = 31 if self.kind is Kind.INT else 63
                if -(1 << bits) <= int(text) < 1 << bits:
                    return int(text)
            case Kind.COUNT:
                return self._count(text)
            case Kind.FLOAT:
                match = re.fullmatch(_JAVA_NUMBER, text)
                try:
                    return float(match[1] if match else text)
                except ValueError:
                    pass
            case Kind.DURATION if found := re.fullmatch(_DURATION, given.lower()):
                return int(found[1]) * _MS_OF_UNIT[found[2]]
            case Kind.SIZE if found := re.fullmatch(_SIZE, given.lower()):
                size = int(found[1]) << 10 * _UNITS_OF_SIZE.index(found[2] or "b")
                if size > 0:
                    return size
        raise ValueNotAllowedError(self.kind.value)

    def _count(self, text: str) -> int:
        low, high = self.bounds or (1, LONG_MAX)
        if not re.fullmatch(_INTEGER, text) or not low <= int(text) <= high:
            top = f" and at most {high}" if high < LONG_MAX else ""
            raise ValueNotAllowedError(f"{self.kind.value} of at least {low}{top}")
        return int(text)

    def values_text(self) -> str:
        """Return the values in words, "" for any text."""
        if self.form:
            return self.form
        if self.bounds is not None:
            low, high = self.bounds
            if self.kind is Kind.FLOAT:
                return f"above {low:,}"
            return f"{low:,} to {high:,}" if high < LONG_MAX else f"at least {low:,}"
        if self.choices:
            return ", ".join(self.choices)
        return "true, false" if self.kind is Kind.FLAG else ""

    def default_text(self) -> str:
        """Return the default in words."""
        value = self.default
        if self.shown_default is not None:
            return self.shown_default
        if value is None:
            return "unset"
        if isinstance(value, bool):
            return str(value).lower()
        text = f"{value:,}" if isinstance(value, int) else str(getattr(value, "value", value)) or "empty"
        return f"{text} {self.unit}".strip()


LONG_MAX: Final = (1 << 63) - 1


def setting(about: str, default: Any, unit: str = "", bounds: tuple[int, int] | None = None, **more: Any) -> Any:
    """Return the declaration of a dataclass's attribute that is a setting; `more` are attributes of Setting.

    The key is RocketMQ's spelling of the attribute unless it is given, the kind that of the default.
    """
    return field(default=default, metadata=described(about, default=default, unit=unit, bounds=bounds, **more))


def described(about: str, **more: Any) -> dict[str, Any]:
    """Return the metadata of a `dataclasses.field` that is a setting: of one without default, or with a factory."""
    return {_ROW: {"about": about, **more}}


def option(about: str, default: Any, unit: str = "", bounds: tuple[int, int] | None = None, **more: Any) -> Any:
    """Return the declaration of an attribute that is a setting under its own name, as an argument in Python is."""
    return setting(about, default, unit, bounds, key=NAME, **more)


def rocketmq_setting(about: str, default: Any, *values: Any, since: str | None = "4.9.7", **more: Any) -> Any:
    """Return the declaration of an attribute that is a setting of RocketMQ, by its key."""
    return setting(about, default, *values, since=since, **more)


def same_setting(row: Setting, **changes: Any) -> Any:
    """Return the declaration of an attribute that a row of another table describes, but for the changes."""
    values = row._asdict() | changes
    return field(default=values["default"], metadata={_ROW: values})


def rows_of(kind: type) -> tuple[Setting, ...]:
    """Return the settings that a dataclass declares, in their order."""
    return _rows(kind)


@cache
def _rows(kind: Any) -> tuple[Setting, ...]:
    return tuple(_row(one.name, one.metadata[_ROW]) for one in dataclasses.fields(kind) if _ROW in one.metadata)


def _row(name: str, values: dict[str, Any]) -> Setting:
    head, *rest = name.split("_")
    key = values.get("key") or head + "".join(word.capitalize() for word in rest)
    key = name if key == NAME else key
    kind = values.get("kind") or kind_of(values.get("default"), values.get("choices", ()))
    return Setting(**{**values, "key": key, "field": name, "kind": kind})


def kind_of(default: Any, choices: Iterable[str] = ()) -> Kind:
    """Return the kind of a setting that has a default and choices."""
    if choices:
        return Kind.CHOICE
    for type_, kind in ((bool, Kind.FLAG), (int, Kind.INT), (float, Kind.FLOAT)):
        if isinstance(default, type_):
            return kind
    return Kind.TEXT


def nearest_name(name: str, known: Iterable[str], near: float = 0.5) -> str | None:
    """Return the known name most similar to `name` (ignoring case), None if none is `near` (0 to 1)."""
    import difflib  # only errors need it

    by_lower = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=near)
    return by_lower[found[0]] if found else None
