"""Command lines of jobs: the parser, made from rows, and options of the form key=value."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NoReturn

from rocketflow.errors import UsageError
from rocketflow_store.spi.setting_rows import LONG_MAX, Kind, Setting, ValueNotAllowedError, kind_of

REQUIRED: Final = "required"
_ACTIONS: Final[Mapping[Kind, dict[str, Any]]] = {
    Kind.FLAG: {"action": "store_true"},
    Kind.LIST: {"action": "append", "default": []},
    Kind.PAIRS: {"action": "append", "default": []},
    Kind.COUNT: {"type": int},
    Kind.INT: {"type": int},
}


def argument(
    name: str, about: str, default: Any = None, *, form: str = "", required: bool = False, **more: Any
) -> Setting:
    """Return the row of an argument; `form` is the value in its help, `field` an attribute of another name."""
    attribute = more.pop("field", name.removeprefix("--").replace("-", "_"))
    kind = more.pop("kind", None) or kind_of(default, more.get("choices", ()))
    if required:
        more["shown_default"] = REQUIRED
    return Setting(name, about, default, kind, attribute, form=form, **more)


def count_argument(name: str, about: str, default: int | None = None, *, form: str = "N", least: int = 1) -> Setting:
    """Return the row of an argument that is a whole number of at least `least`."""
    return argument(name, about, default, form=form, kind=Kind.COUNT, bounds=(least, LONG_MAX))


class JobParser(argparse.ArgumentParser):
    """A parser that ends on an invalid command line with one error line and exit code 2, like every command."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self._rows: list[Setting] = []

    def error(self, message: str) -> NoReturn:
        """Print `error: MESSAGE` and exit with code 2."""
        print(f"error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)

    def add_rows(
        self,
        rows: Iterable[Setting],
        *,
        group: str = "",
        hidden: Collection[str] = (),
        checks: Mapping[str, Callable[[str], str]] | None = None,
    ) -> None:
        """Add arguments, below the title of a `group`; help omits `hidden` ones. `checks` parse texts, by argument."""
        to = self.add_argument_group(group) if group else self
        for one in rows:
            self._rows.append(one)
            more: dict[str, Any] = dict(_ACTIONS.get(one.kind, {}))
            if one.choices:
                more["choices"] = one.choices
            elif one.form and one.kind is not Kind.FLAG:
                more["metavar"] = one.form
            if checks and one.key in checks:
                more["type"] = checks[one.key]
            if one.kind not in (Kind.FLAG, Kind.LIST, Kind.PAIRS):
                more |= {
                    "default": getattr(one.default, "value", one.default),
                    "required": one.shown_default == REQUIRED,
                }
            about = argparse.SUPPRESS if one.key in hidden else one.about.replace("%", "%%") or None
            to.add_argument(one.key, dest=one.field, help=about, **more)

    def values(self, arguments: Sequence[str] | None) -> dict[str, Any]:
        """Return the values of a command line by attribute. Raises UsageError for a number outside its bounds."""
        given = vars(self.parse_args(arguments))
        for one in self._rows:
            value = given[one.field]
            try:
                one.check(value)
            except ValueNotAllowedError as error:
                raise UsageError(f"{one.key} {value}: {error}") from None
            if one.kind is Kind.PAIRS:
                given[one.field] = key_values(one.key, value)
            elif isinstance(one.default, Enum):
                given[one.field] = type(one.default)(value)
        return given


def key_value(where: str, text: str) -> tuple[str, str]:
    """Split `text` at its first `=`; UsageError names `where` it was given, but not `text`, which may be secret."""
    key, equals, value = text.partition("=")
    if not key.strip() or not equals:
        raise UsageError(f"{where}: give it as key=value")
    return key, value


def key_values(option: str, given: Iterable[str]) -> dict[str, str]:
    """Parse the values of a repeatable option; for a repeated key the last value is used."""
    return dict(key_value(f"{option} {one!r}", one) for one in given)
