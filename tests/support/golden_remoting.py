"""Frames, headers and bodies of the remoting protocol as RocketMQ's own classes write and read them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.support.golden import GOLDEN

VERSIONS: Final = ("5.3.3", "4.9.7")
HOME: Final = GOLDEN / "remoting"
GZIP_BYTES: Final = 100_000
"""A file of at least this size is stored compressed."""


@dataclass(frozen=True)
class HeaderField:
    """A field of a header class; `type` is the Java type, such as `int` or `java.lang.Long`."""

    name: str
    type: str
    is_required: bool
    """The field is marked @CFNotNull."""
    is_nullable: bool
    """The field is marked @CFNullable."""
    inherited_from: str | None
    resource: str | None
    """The resource type of @RocketMQResource, such as TOPIC; 5.x only."""


@dataclass(frozen=True)
class FrameSample:
    """A command, and the frame that RocketMQ sends for it, the length word included."""

    code: int
    flag: int
    language: str
    opaque: int
    version: int
    serialize: str
    """JSON or ROCKETMQ."""
    remark: str | None
    body: bytes
    ext: dict[str, str | None] | None
    ignored: tuple[str, ...]
    """Fields of `ext` that the header class of RocketMQ does not read."""
    frame: bytes


@dataclass(frozen=True)
class HeaderSample:
    """A header class with values in its fields."""

    class_name: str
    package: str
    code: int | None
    """The request code that the class is annotated with; 5.x only."""
    actions: tuple[str, ...]
    resource: str | None
    fields: tuple[HeaderField, ...]
    """In the order of RocketMQ's declaration, the inherited ones last."""
    name: str
    """`all` (every field has a value) or `required` (the required ones and the primitive ones have one)."""
    values: dict[str, Any]
    frames: tuple[FrameSample, ...]


@dataclass(frozen=True)
class PermissionSample:
    """A request, and what an account needs for it; 5.x only."""

    code: int
    filled: str
    """`all` (every field has a value), `required` (those) or `retry` (all, and each topic is a retry topic)."""
    values: dict[str, str]
    body: bytes
    needs: frozenset[tuple[str, frozenset[str]]]
    """Resources, such as `Topic:name`, and the actions of which one is needed."""


@dataclass(frozen=True)
class FrameReading:
    """Bytes after the length word, and what RocketMQ reads there; `read` is None if it throws `refused`."""

    kind: str
    """`json` (`name` is the header), `binary` or `frame` (`name` describes the bytes)."""
    name: str
    data: bytes
    read: dict[str, Any] | None
    """The members of FrameSample; `opaque` is None if RocketMQ sets its own next number."""
    refused: str | None


@dataclass(frozen=True)
class HeaderReading:
    """Ext fields, and what a header class of RocketMQ reads from them into one of its fields."""

    class_name: str
    field: str
    ext: dict[str, str] | None
    value: Any
    refused: str | None


@dataclass(frozen=True)
class BodySample:
    """A body: its members as standard JSON, and RocketMQ's bytes."""

    class_name: str
    """RocketMQ's class, or `fastjson` for an object that is none of its bodies."""
    name: str
    """`new` (a new object with the timestamp 1,700,000,000,000), `filled` (every field has a value), or the case."""
    values: Any
    """References are resolved; a key that is no string is the string of its JSON."""
    data: bytes
    inflated: bytes | None
    """The decompressed `data` of a compressed RegisterBrokerBody."""
    reads_own: str | None
    """The outcome if RocketMQ reads `data`: `same`, `differs`, or the exception."""
    reads_standard: str | None
    """The outcome if RocketMQ reads `values`, written as standard JSON."""


@dataclass(frozen=True)
class BodyReading:
    """A body in a spelling that RocketMQ does not write, and the members that it reads; None if it throws `refused`."""

    class_name: str
    text: str
    read: Any
    """As BodySample.values; None without `refused` if RocketMQ returns null."""
    refused: str | None


@dataclass(frozen=True)
class TextSample:
    """The argument and the result of one of RocketMQ's functions; bytes are hexadecimal digits."""

    kind: str
    given: Any
    result: Any
    refused: str | None


@cache
def codes(version: str) -> dict[str, dict[str, int]]:
    """Return name to number of RequestCode, ResponseCode, LanguageCode, MQVersion.Version and some groups of flags."""
    return {one["group"]: one["values"] for one in lines(version, "codes")}


@cache
def header_samples(version: str) -> list[HeaderSample]:
    """Return two samples of every header class."""
    return [sample for line in lines(version, "headers") for sample in _samples(line)]


@cache
def frame_samples(version: str) -> list[FrameSample]:
    """Return commands without a header class."""
    return [_frame(one, one["ext"]) for one in lines(version, "frames")]


@cache
def frame_readings(version: str) -> list[FrameReading]:
    """Return frames that RocketMQ itself does not write."""
    return [
        FrameReading(one["kind"], one["name"], bytes.fromhex(one["bytes"]), one.get("read"), one.get("refused"))
        for one in lines(version, "readings")
    ]


@cache
def header_readings(version: str) -> list[HeaderReading]:
    """Return ext fields that RocketMQ itself does not write."""
    return [
        HeaderReading(one["class"], one["field"], one["ext"], one.get("read"), one.get("refused"))
        for one in lines(version, "header_readings")
    ]


@cache
def body_samples(version: str) -> list[BodySample]:
    """Return every body class of the jars, new and filled, and the special cases."""
    return [
        BodySample(
            class_name=one["class"],
            name=one["name"],
            values=one["values"],
            data=one["text"].encode() if "text" in one else bytes.fromhex(one["deflated"]),
            inflated=bytes.fromhex(one["inflated"]) if "inflated" in one else None,
            reads_own=one.get("reads_own"),
            reads_standard=one.get("reads_standard"),
        )
        for one in lines(version, "bodies")
    ]


@cache
def body_readings(version: str) -> list[BodyReading]:
    """Return bodies that RocketMQ itself does not write."""
    return [
        BodyReading(one["class"], one["text"], one.get("read"), one.get("refused"))
        for one in lines(version, "body_readings")
    ]


@cache
def permission_samples(version: str) -> list[PermissionSample]:
    """Return what the accounts of RocketMQ 5 need for each request code, with three sets of fields."""
    return [
        PermissionSample(
            code=one["code"],
            filled=one["filled"],
            values=one["values"],
            body=one["body"].encode(),
            needs=frozenset((resource, frozenset(actions)) for resource, actions in one["needs"]),
        )
        for one in lines(version, "permissions")
    ]


@cache
def text_samples(version: str, kind: str) -> list[TextSample]:
    """Return samples of one kind, such as `batch`, `subscription` or `signature`; the README lists the kinds."""
    return [
        TextSample(one["kind"], one["given"], one.get("result"), one.get("refused"))
        for one in lines(version, "texts")
        if one["kind"] == kind
    ]


def find(version: str, name: str) -> Path:
    """Return the path of a golden file, compressed or not."""
    compressed = HOME / version / f"{name}.jsonl.gz"
    return compressed if compressed.exists() else HOME / version / f"{name}.jsonl"


def read(version: str, name: str) -> str:
    """Return the text of a golden file."""
    path = find(version, name)
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


def write(version: str, name: str, text: str) -> None:
    """Replace a golden file."""
    find(version, name).unlink(missing_ok=True)
    (HOME / version).mkdir(parents=True, exist_ok=True)
    data = text.encode()
    if len(data) < GZIP_BYTES:
        (HOME / version / f"{name}.jsonl").write_bytes(data)
    else:
        (HOME / version / f"{name}.jsonl.gz").write_bytes(gzip.compress(data, 9, mtime=0))


def lines(version: str, name: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a golden file."""
    for line in read(version, name).split("\n"):
        if line:
            yield json.loads(line)


def _samples(line: dict[str, Any]) -> Iterator[HeaderSample]:
    fields = tuple(
        HeaderField(
            one["name"], one["type"], one["required"], one["nullable"], one.get("inherited"), one.get("resource")
        )
        for one in line["fields"]
    )
    for sample in line["samples"]:
        values = sample["values"]
        ext = {name: _text(value) for name, value in values.items()}
        yield HeaderSample(
            class_name=line["class"],
            package=line["package"],
            code=line["code"],
            actions=tuple(line.get("actions", ())),
            resource=line.get("resource"),
            fields=fields,
            name=sample["name"],
            values=values,
            frames=tuple(_frame(one, one.get("ext", ext)) for one in sample["frames"]),
        )


def _frame(one: dict[str, Any], ext: dict[str, Any] | None) -> FrameSample:
    return FrameSample(
        code=one["code"],
        flag=one["flag"],
        language=one["language"],
        opaque=one["opaque"],
        version=one["version"],
        serialize=one["serialize"],
        remark=one["remark"],
        body=bytes.fromhex(one["body"]),
        ext=ext,
        ignored=tuple(one.get("ignored", ())),
        frame=bytes.fromhex(one["frame"]),
    )


def _text(value: object) -> str:
    """Return a value as it is written into ext fields."""
    return str(value).lower() if isinstance(value, bool) else str(value)
