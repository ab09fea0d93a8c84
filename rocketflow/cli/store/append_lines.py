"""`store append`: JSON lines in, one outcome a line out. Refused lines are reported, all others appended."""

from __future__ import annotations

import base64
import binascii
import codecs
import contextlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from rocketflow.errors import UsageError
from rocketflow.process.stop_signals import stop_waits
from rocketflow.process.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from rocketflow_store import Message, PutMessageResult, StoreConfig

_BATCH: Final = 256
_READ_BYTES: Final = 1 << 16
_FIELDS: Final = {
    "body", "bodyBase64", "tags", "keys", "properties", "queueId", "delayTimeLevel", "deliverTimestamp", "flag",
    "shardingKey", "bornTimestamp",
}  # fmt: skip


def append_lines(
    path: str,
    topic: str,
    queue: int | None,
    source: str,
    sync: bool,
    config: StoreConfig | None = None,
    *,
    create: bool = False,
) -> int:
    """Append every line of `source`; return the number of refused lines.

    Lines that arrive together are put in one batch, and no line waits for a later one.
    """
    from rocketflow_store import FlushDiskType, MessageRejectedError, MessageStore, StoreConfig
    from rocketflow_store.spi.names import check_send_topic

    try:
        check_send_topic(topic)
    except MessageRejectedError as error:
        raise UsageError(f"--topic: {error.why}") from error
    if not create:
        _check_exists(path, config)
    flush = FlushDiskType.SYNC_FLUSH if sync else FlushDiskType.ASYNC_FLUSH
    settings = replace(config or StoreConfig(), flush_disk_type=flush)
    refused = number = 0
    with _opened(source) as opened, MessageStore.open(path, settings) as store:
        batch: list[tuple[int, Message]] = []
        for lines in _lines_as_they_come(opened):
            for line in lines:
                number += 1
                if not line.strip():
                    continue
                try:
                    batch.append((number, parse_line(line, topic, queue)))
                except (ValueError, RecursionError) as error:
                    refused += _flush(store, batch)
                    _report(number, "nested too deeply" if isinstance(error, RecursionError) else str(error))
                    refused += 1
                if len(batch) >= _BATCH:
                    refused += _flush(store, batch)
            refused += _flush(store, batch)
            sys.stdout.flush()
    return refused


def _check_exists(path: str, config: StoreConfig | None) -> None:
    """Raise UsageError if an append would create a store; the open raises if the path holds something else."""
    from rocketflow_store.spi.places import is_store

    root = Path(path)
    if not root.exists() or (root.is_dir() and not any(root.iterdir())):
        if is_store(root.absolute(), config):
            return  # its CommitLog is in other directories
        raise UsageError(f"{path} holds no store: check the path, or create one there with --create")


def _opened(source: str) -> AbstractContextManager[BinaryIO]:
    if source == "-":
        if sys.stdin is None:
            raise UsageError("--input -: there is no standard input")
        return contextlib.nullcontext(sys.stdin.buffer)
    try:
        return open(source, "rb")
    except OSError as error:
        raise UsageError(f"--input {source}: {error.strerror}") from error


def _lines_as_they_come(opened: BinaryIO) -> Iterator[list[bytes]]:
    """Yield the lines that have arrived, then those that arrived meanwhile, and so on; the last may lack its end."""
    mark = codecs.BOM_UTF8
    begun: list[bytes] = []
    while data := opened.read1(_READ_BYTES):  # type: ignore[attr-defined]
        first, *following = data.split(b"\n")
        begun.append(first)
        if following:
            lines = [b"".join(begun), *following[:-1]]
            begun = [following[-1]]
            yield [lines[0].removeprefix(mark), *lines[1:]]
            mark = b""
    if last := b"".join(begun).removeprefix(mark):
        yield [last]


def _flush(store: Any, batch: list[tuple[int, Message]]) -> int:
    """Put the collected messages with one flush; print the outcomes in order."""
    if not batch:
        return 0
    refused = 0
    with stop_waits():
        results: list[PutMessageResult] = store.put_messages([message for _, message in batch])
    for (number, _), result in zip(batch, results, strict=True):
        if not result.stored:
            refused += 1
            _report(number, result.why, result.status.name)
            continue
        print(
            json.dumps(
                {
                    "status": result.status.name,
                    "topic": result.topic,
                    "queueId": result.queue_id,
                    "queueOffset": result.queue_offset,
                    "physicalOffset": result.physical_offset,
                    "msgId": result.msg_id,
                }
            )
        )
    batch.clear()
    return refused


def _report(number: int, why: str, status: str = "MESSAGE_ILLEGAL") -> None:
    print(json.dumps({"status": status, "line": number, "error": why}))
    print(f"error: line {number}: {why}", file=sys.stderr)


def parse_line(line: bytes, topic: str, queue: int | None) -> Message:
    """Return the message of one JSON line; raise ValueError if it is invalid."""
    from rocketflow_store import Message
    from rocketflow_store.spi.json_text import parse_json

    fields = parse_json(line.decode("utf-8"))
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    unknown = sorted(fields.keys() - _FIELDS)
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}; known are {', '.join(sorted(_FIELDS))}")
    properties = fields.get("properties") or {}
    if not isinstance(properties, dict) or not all(isinstance(value, str) for value in properties.values()):
        raise ValueError("properties must be an object of strings")
    keys = fields.get("keys") or []
    if not isinstance(keys, (str, list)) or not all(isinstance(one, str) for one in keys):
        raise ValueError("keys must be a string or a list of strings")
    return Message(
        topic=topic,
        body=_body(fields),
        tags=_typed(fields, "tags", str),
        keys=keys,
        properties=properties,
        queue_id=_typed(fields, "queueId", int) if fields.get("queueId") is not None else queue,
        sharding_key=_typed(fields, "shardingKey", str),
        flag=_typed(fields, "flag", int) or 0,
        born_timestamp=_time(fields, "bornTimestamp"),
        delay_time_level=_typed(fields, "delayTimeLevel", int) or 0,
        deliver_timestamp=_time(fields, "deliverTimestamp"),
    )


def _typed(fields: dict[str, Any], name: str, kind: type) -> Any:
    value = fields.get(name)
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise ValueError(f"{name} must be {'a string' if kind is str else 'a whole number'}")
    return value


def _time(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if not isinstance(value, str):
        found: int | None = _typed(fields, name, int)
        return found
    try:
        return parse_time(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _body(fields: dict[str, Any]) -> bytes:
    if "bodyBase64" in fields:
        if fields.get("body") is not None:
            raise ValueError("body and bodyBase64: give one of them")
        try:
            return base64.b64decode(fields["bodyBase64"], validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise ValueError(f"bodyBase64: {error}") from error
    if "body" not in fields or fields["body"] is None:
        raise ValueError("no body: give body or bodyBase64")
    body = fields["body"]
    return body.encode() if isinstance(body, str) else json.dumps(body, ensure_ascii=False).encode()
