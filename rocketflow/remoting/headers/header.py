"""Headers of RocketMQ's requests and answers: one class for each of RocketMQ's `CommandCustomHeader` classes.

A class declares the fields of a header once; server, client and tests use the same class. Attributes are RocketMQ's
names in snake case (`producerGroup` is `producer_group`). A field without a default is one that RocketMQ demands
(`@CFNotNull`). Where Java has a primitive, the field has Java's zero as its default and is always written; `None` is
never written. On the wire every value is a string.

RocketMQ's source: remoting/protocol/header/**, remoting/protocol/RemotingCommand.java (decodeCommandCustomHeader).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, TypeVar, cast

import msgspec
import msgspec.inspect

from rocketflow.remoting.errors import HeaderError

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Header(msgspec.Struct, kw_only=True, rename="camel"):
    """The fields of a request or of an answer."""


class RpcRequestHeader(Header, kw_only=True):
    """Fields that RocketMQ 5 may add to a request; RocketFlow reads none of them."""

    ns: str | None = None
    nsd: bool | None = None
    bname: str | None = None
    oway: bool | None = None


class TopicRequestHeader(RpcRequestHeader, kw_only=True):
    """Fields that RocketMQ 5 may add to a request about a topic."""

    lo: bool | None = None


H = TypeVar("H", bound=Header)


def with_short_names(header: type[H], names: Mapping[str, str]) -> type[H]:
    """Return a header class with the same attributes whose fields have other names on the wire.

    `names` maps attributes to names on the wire; the class lacks attributes that it does not name.
    """
    fields = []
    for field in msgspec.structs.fields(header):
        if field.name in names:
            described = msgspec.field(name=names[field.name], default=field.default)
            fields.append((field.name, field.type, described))
    return cast("type[H]", msgspec.defstruct(f"{header.__name__}V2", fields, bases=(Header,), kw_only=True))


def decode_json_fields(header: type[H], data: bytes | msgspec.Raw) -> H:
    """Decode `extFields` as JSON into a header. Raises HeaderError where a field is missing or has the wrong type."""
    if _UNUSUAL_IN_JSON.search(data):
        return decode_fields(header, text_fields(data))
    try:
        decoded: H = _json_decoder(header).decode(data)
        return decoded
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _decode_unusual(header, data, error)


def decode_fields(header: type[H], fields: Mapping[str, str]) -> H:
    """Convert `extFields` to a header. Raises HeaderError where a field is missing or has the wrong type.

    Numbers and booleans are read as Java reads them, but for digits that are not ASCII's, which Java takes. Two
    spellings that Java reads otherwise are taken as well, since looking for them would double the time of each header:
    `1` is true, and `null` is no value. No client writes them.
    """
    if not _FRACTION.search(":".join(("", *fields.values()))):  # msgspec takes 5.0 and 1e3 for integers
        try:
            return msgspec.convert(dict(fields), header, strict=False)
        except msgspec.ValidationError:
            pass  # missing, wrong, or in one of Java's other spellings: the second try finds out
    try:
        return msgspec.convert(_as_java_reads(header, fields), header)
    except msgspec.ValidationError as error:
        raise HeaderError(f"{header.__name__}: {error}") from None


def encode_fields(header: Header) -> dict[str, str]:
    """Return `extFields` of a header, without the fields that are None."""
    return {
        name: value if type(value) is str else _text(value)
        for attribute, name in _names(type(header))
        if (value := getattr(header, attribute)) is not None
    }


def text_fields(data: bytes | msgspec.Raw) -> dict[str, str]:
    """Decode `extFields` as a dictionary; numbers and booleans become texts as in fastjson, nulls are skipped.

    Raises HeaderError if it is not a JSON object of plain values.
    """
    try:
        fields = _PLAIN.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HeaderError(f"extFields: {error}") from None
    return {name: value if type(value) is str else _text(value) for name, value in fields.items() if value is not None}


_PLAIN = msgspec.json.Decoder(dict[str, str | bool | int | float | None])


def _decode_unusual(header: type[H], data: bytes | msgspec.Raw, error: Exception) -> H:
    """Decode fields whose values are numbers, booleans or nulls, which fastjson accepts."""
    if not isinstance(error, msgspec.ValidationError):
        raise HeaderError(f"{header.__name__}: {error}") from None
    return decode_fields(header, text_fields(data))


def _as_java_reads(header: type[Header], fields: Mapping[str, str]) -> dict[str, Any]:
    """Return fields with their numbers and booleans as Integer, Long and Boolean of Java read them."""
    kinds = _kinds(header)
    return {name: _java_value(kinds.get(name), text) for name, text in fields.items()}


def _java_value(kind: type | None, text: str) -> object:
    """Return the value of a text; one that Java refuses stays a text."""
    if kind is bool:
        return text.lower() == "true"
    return int(text) if kind is int and _INTEGER.fullmatch(text) else text


_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
"""What Java's parsers of integers take of ASCII: a sign, then digits."""

_FRACTION = re.compile(r":[+-]?[0-9]+[.eE]")
"""A value that may be a number with a fraction or an exponent, with a colon before each value."""

_UNUSUAL_IN_JSON = re.compile(rb'":(?:[^"]|"[+-]?[0-9]+[.eE])')
"""The same in JSON, or a value that is no text, or after a space: clients write texts alone, without spaces."""


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


@cache
def _json_decoder(header: type[Header]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(header, strict=False)


@cache
def _kinds(header: type[Header]) -> dict[str, type]:
    """Return `int` or `bool` for each field that is one, by its name on the wire."""
    kinds: dict[str, type] = {}
    for field in msgspec.inspect.multi_type_info([header])[0].fields:  # type: ignore[attr-defined]
        types = field.type.types if isinstance(field.type, msgspec.inspect.UnionType) else (field.type,)
        for kind, described in ((bool, msgspec.inspect.BoolType), (int, msgspec.inspect.IntType)):
            if any(isinstance(one, described) for one in types):
                kinds[field.encode_name] = kind
    return kinds


@cache
def _names(header: type[Header]) -> tuple[tuple[str, str], ...]:
    """Return attributes with their names on the wire."""
    return tuple((field.name, field.encode_name) for field in msgspec.structs.fields(header))
