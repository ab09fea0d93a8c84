"""A row of a table that RocketMQ keeps as JSON, and its one codec, which keeps members that it does not know.

Files, requests and answers may come from another version of RocketMQ. A row has their unknown members in `extra` and
gives them back unchanged. msgspec reads rows in bulk, without their unknown members, where nobody writes them again
(a NameServer's registrations).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

_EXTRA: Final = "(extra)"

Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""Java's int and long."""


def _member_name(attribute: str) -> str:
    """Return the name of a JSON member: RocketMQ's camel case; `extra` has a name that no JSON member has."""
    if attribute == "extra":
        return _EXTRA
    first, *rest = attribute.split("_")
    return first + "".join(one.capitalize() for one in rest)


class TableRow(msgspec.Struct, frozen=True, kw_only=True, rename=_member_name):
    """Base of the rows. Attributes are RocketMQ's members in snake case."""

    extra: dict[str, Any] | UnsetType = UNSET
    """Members that the class does not have."""

    @property
    def unknown(self) -> dict[str, Any]:
        """Return the members that the class does not have."""
        return {} if self.extra is UNSET else self.extra


class ConfigRow(TableRow, frozen=True, kw_only=True):
    """The settings of a topic or of a group."""

    attributes: dict[str, str] = {}
    """In a request these are changes, by signed names."""

    def with_attribute(self, name: str, value: str) -> Self:
        """Return the row with an attribute set."""
        return msgspec.structs.replace(self, attributes={**self.attributes, name: value})

    def changing(self, known: Self | None, attributes: dict[str, str]) -> Self:
        """Return the row that a request with this one leaves: with these attributes and the known unknown members."""
        extra = {**(known.unknown if known else {}), **self.unknown}
        return msgspec.structs.replace(self, attributes=attributes, extra=extra or UNSET)


R = TypeVar("R", bound=TableRow)
T = TypeVar("T")


def row_of(kind: type[R], entry: Mapping[str, Any]) -> R:
    """Return a row from its JSON object: members that are missing or null have the defaults.

    Numbers and booleans as texts are read, as by fastjson. Raises ValueError, which names the member.
    """
    known = _members(kind)
    given = {name: value for name, value in entry.items() if value is not None and name in known}
    try:
        row = converted(given, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    if len(given) == len(entry):
        return row
    extra = {name: value for name, value in entry.items() if name not in known}
    return msgspec.structs.replace(row, extra=extra) if extra else row


def converted(value: object, kind: type[T]) -> T:
    """Return a parsed JSON value as a type that msgspec knows, without the nulls in it where they have no place.

    Raises msgspec.ValidationError.
    """
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError:
        return msgspec.convert(_without_nulls(value), kind, strict=False)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value if one is not None]
    return value


def entry_of(row: TableRow) -> dict[str, Any]:
    """Return the JSON object of a row, with its unknown members, in the order of the names."""
    entry = msgspec.to_builtins(row)
    return dict(sorted({**entry.pop(_EXTRA, {}), **entry}.items()))


def json_of(row: TableRow) -> TableRow | dict[str, Any]:
    """Return what msgspec writes for a row in a body: the row itself, or its JSON object if it has unknown members."""
    return row if row.extra is UNSET else entry_of(row)


@cache
def _members(kind: type[TableRow]) -> frozenset[str]:
    return frozenset(one.encode_name for one in msgspec.structs.fields(kind)) - {_EXTRA}
