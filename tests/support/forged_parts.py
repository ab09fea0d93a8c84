"""Forged parts of a sink: well-formed Arrow streams with a right CRC, whose middle row is not what it claims to be."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from rocketflow_store.commits.staged_part import LMQ_SCHEMA, StagedPart
from rocketflow_store.records.arrow.hashing import string_hashes
from rocketflow_store.records.decoding.index_entries import index_entries

ROWS: Final = 3
HOST: Final = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
MAGIC: Final = 0xDAA320A7
BLANK: Final = 0xCBD43194
NAMES: Final = ("record", "topic", "queueId", "tagsCode", "delayLevel", "indexHashes", "tagIndexed")
SCHEMA: Final = pa.schema([LMQ_SCHEMA.field(name) for name in NAMES])
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
COMMIT_TOPIC: Final = "rmq_sys_ROCKETFLOW_COMMIT"


def properties(more: Mapping[str, str] | None = None) -> bytes:
    """Return the property string of a row, with more properties at its end."""
    pairs = {"KEYS": "k", "TAGS": "a", "UNIQ_KEY": "u", **(more or {})}
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items()).encode()


def record(topic: str, *, body: bytes = b"row", tail: bytes | None = None, after: bytes = b"", **given: int) -> bytes:
    """Return the bytes of a record of a topic without its offsets; `given` replaces its numbers, right or not."""
    tail = properties() if tail is None else tail
    name = topic.encode()
    one = {
        "size": 88 + len(body) + 1 + len(name) + 2 + len(tail),
        "magic": MAGIC,
        "crc": zlib.crc32(body) & 0x7FFFFFFF,
        "queue": 0,
        "flag": 0,
        "sys_flag": 0,
        "born": 1_000,
        "again": 0,
        "prepared": 0,
        "body_size": len(body),
        "tail_size": len(tail),
        **given,
    }
    head = struct.pack(
        ">iIiiiqqiq",
        *(one[key] for key in ("size", "magic", "crc", "queue", "flag")),
        0,
        0,
        *(one[key] for key in ("sys_flag", "born")),
    )
    middle = HOST + struct.pack(">q", 0) + HOST
    middle += struct.pack(">iqi", *(one[key] for key in ("again", "prepared", "body_size")))
    return head + middle + body + bytes([len(name)]) + name + struct.pack(">h", one["tail_size"]) + tail + after


@dataclass(frozen=True)
class Forgery:
    """A kind of forgery: the middle record, its columns, and what the commit message says of the part.

    `why` is a part of the refusal, `code` the response code; `topics` are those that the message names.
    """

    name: str
    why: str
    record: bytes | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    part: Mapping[str, Any] = field(default_factory=dict)
    stream: Mapping[str, Any] = field(default_factory=dict)
    code: int = 30105
    in_progress: bool = True
    """False for rows that a requeue may commit."""


def forgeries(topic: str, max_message_size: int, file_size: int) -> list[Forgery]:
    """Return every kind, for rows of a topic."""
    right = record(topic)
    other = "o" + topic[1:]
    stored = {"queue": 0}
    delayed = properties({"DELAY": "3", "REAL_TOPIC": topic, "REAL_QID": "0"})
    bodies = "body CRC differs"
    flags, size = "half message, a rollback or an inner batch", "no record of their own size"
    no_record = "magic code is not that of a record"
    lengths = "lengths of the parts"
    alike = properties() + b"__CRC32#\x010123456789\x02"
    return [
        Forgery("random bytes", size, bytes(range(1, 201))),
        Forgery("zeros", size, bytes(len(right))),
        Forgery("no bytes", "too few", b""),
        Forgery("a few bytes", "too few", right[:50]),
        Forgery("size -1", size, record(topic, size=-1)),
        Forgery("size of the smallest int", size, record(topic, size=-(1 << 31))),
        Forgery("size beyond the value", size, record(topic, size=len(right) + 8)),
        Forgery("trailing bytes", size, right + b"tail"),
        Forgery("two records", size, right + right),
        Forgery("a blank record", no_record, struct.pack(">iI", len(right), BLANK) + right[8:]),
        Forgery("an inner blank", size, right[:-40] + struct.pack(">iI", 40, BLANK) + right[-32:] + b"12345678"),
        Forgery("a short blank", "too few", struct.pack(">iI", 8, BLANK)),
        Forgery("unknown magic", no_record, record(topic, magic=0x12345678)),
        Forgery("a flipped body", bodies, record(topic, body=b"raw", crc=zlib.crc32(b"row") & 0x7FFFFFFF)),
        Forgery("no body CRC", bodies, record(topic, crc=0)),
        Forgery("negative body size", lengths, record(topic, body_size=-1)),
        Forgery("huge body size", lengths, record(topic, body_size=(1 << 31) - 1)),
        Forgery("negative properties size", lengths, record(topic, tail_size=-5)),
        Forgery("another topic", "of another topic", record(other)),
        Forgery("the half topic in the record", "of another topic", record(HALF_TOPIC)),
        Forgery("an envelope in the record", "of another topic", record(COMMIT_TOPIC)),
        Forgery(
            "the half topic",
            "only the store itself writes",
            record(HALF_TOPIC),
            {"topic": 1},
            {"topics": [topic, HALF_TOPIC]},
            code=1,
        ),
        Forgery(
            "the commit topic",
            "only the store itself writes",
            record(COMMIT_TOPIC),
            {"topic": 1},
            {"topics": [topic, COMMIT_TOPIC]},
            code=1,
        ),
        Forgery("an LMQ", "an LMQ gets", record("%LMQ%a"), {"topic": 1}, {"topics": [topic, "%LMQ%a"]}, code=1),
        Forgery("a topic that is no name", "topic", None, {"topic": 1}, {"topics": [topic, "../x"]}, code=1),
        Forgery("another queue", "of another queue", record(topic, queue=1)),
        Forgery("another queue in the column", "of another queue", right, {"queueId": 1}),
        Forgery("negative queue", "queues 0 to 65535", record(topic, queue=-1), {"queueId": -1}),
        Forgery("queue 65536", "queues 0 to 65535", record(topic, queue=65_536), {"queueId": 65_536}),
        Forgery("queue 2^31-1", "queues 0 to 65535", record(topic, queue=2**31 - 1), {"queueId": 2**31 - 1}),
        Forgery("a half message", flags, record(topic, sys_flag=4)),
        Forgery("a rollback", flags, record(topic, sys_flag=12)),
        Forgery("an inner batch", flags, record(topic, sys_flag=0x80)),
        Forgery("a compressed body", "flags that no row gets", record(topic, sys_flag=1), in_progress=False),
        Forgery("hosts of IPv6", lengths, record(topic, sys_flag=0x30)),
        Forgery("a prepared offset", "preparedTransactionOffset", record(topic, prepared=7)),
        Forgery("failed attempts", "reconsumeTimes", record(topic, again=3), in_progress=False),
        Forgery(
            "a body above maxMessageSize",
            "larger than maxMessageSize",
            record(topic, body=b"b" * (max_message_size + 1)),
            in_progress=False,
        ),
        Forgery(
            "properties without pairs",
            "cannot be parsed",
            record(topic, tail=b"xyz\x02" + properties()),
            in_progress=False,
        ),
        Forgery("open properties", "cannot be parsed", record(topic, tail=properties()[:-1]), in_progress=False),
        Forgery(
            "properties that are no text",
            "not UTF-8",
            record(topic, tail=properties() + b"x\x01\xff\xfe\x02"),
            in_progress=False,
        ),
        Forgery("properties of zeros", "properties are zeros", record(topic, tail=properties() + bytes(30))),
        Forgery("a record's CRC", "as the CRC of a record does", record(topic, tail=alike)),
        Forgery(
            "almost a record's CRC", "as the CRC of a record does", record(topic, tail=alike.replace(b"32#", b"3##"))
        ),
        Forgery(
            "a property of the store",
            "only the store sets",
            record(topic, tail=properties({"INNER_BASE": "7"})),
            in_progress=False,
        ),
        Forgery(
            "a transient property",
            "only the store sets",
            record(topic, tail=properties({"__RMQ.TRANSIENT.x": "7"})),
            in_progress=False,
        ),
        Forgery(
            "an offset in an LMQ",
            "INNER_MULTI_QUEUE_OFFSET",
            record(topic, tail=properties({"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "9"})),
        ),
        Forgery("another tag", "not the hash of the TAGS", right, {"tagsCode": 7}),
        Forgery("another key", "not those of the keys", right, {"indexHashes": [1, 2, 3]}),
        Forgery("a key too few", "not those of the keys", right, {"indexHashes": [1], "tagIndexed": False}),
        Forgery("a delay level", "not that of the property DELAY", right, {"delayLevel": 3}),
        Forgery("a negative delay level", "not that of the property DELAY", right, {"delayLevel": -3}),
        Forgery("a topic that the part lacks", "a topic that it does not have", right, {"topic": 7}),
        Forgery("a negative topic", "a topic that it does not have", right, {"topic": -1}),
        Forgery("a null", "has nulls", right, {"queueId": None}),
        Forgery("a null among the keys", "has nulls", right, {"indexHashes": [1, None]}),
        Forgery("a tag without entries", "for a row without entries", right, {"indexHashes": []}),
        Forgery("another CRC", "differs from what", right, part={"crc": 1}),
        Forgery("another size", "differs from what", right, part={"size": 1 << 40}),
        Forgery("fewer rows", "3 rows, 2 were announced", right, part={"rows": 2}, code=1),
        Forgery("more rows", "3 rows, 2000000000 were announced", right, part={"rows": 2_000_000_000}, code=1),
        Forgery("a promised CRC", "room for the record's CRC", right, part={"property_crc": True}),
        Forgery("no digest", "digest of its rows", right, part={"digest": None}, in_progress=False),
        Forgery("compressed columns", "is compressed", right, stream={"codec": "lz4"}),
        Forgery("other columns", "other columns", right, stream={"drop": "tagIndexed"}),
        Forgery("no Arrow stream", "no Arrow stream", right, stream={"raw": b"\xff\xff\xff\xff\x10\0\0\0" + bytes(99)}),
        *(
            Forgery(
                f"{name} in {waiting}",
                why,
                record(waiting, tail=tail, **{**stored, "queue": queue}),
                {"topic": 1, "queueId": queue, "delayLevel": level},
                {"topics": [topic, waiting]},
                code=1,
            )
            for name, waiting, queue, level, tail, why in (
                ("no real topic", SCHEDULE_TOPIC, 2, 3, properties({"DELAY": "3"}), "REAL_TOPIC"),
                (
                    "the half topic",
                    SCHEDULE_TOPIC,
                    2,
                    3,
                    delayed.replace(topic.encode(), HALF_TOPIC.encode()),
                    "REAL_TOPIC",
                ),
                ("another level", SCHEDULE_TOPIC, 5, 3, delayed, "delay level is not"),
                ("no time", TIMER_TOPIC, 0, 0, properties({"REAL_TOPIC": topic, "REAL_QID": "0"}), "TIMER_OUT_MS"),
            )
        ),
    ]


def forged_part(topic: str, kind: Forgery) -> tuple[StagedPart, bytes]:
    """Return a part of three rows, the middle one forged, and its bytes."""
    topics = list(kind.part.get("topics", [topic]))
    claimed = topics[kind.columns.get("topic", 0)] if 0 <= kind.columns.get("topic", 0) < len(topics) else topic
    rows = [record(topic), record(topic) if kind.record is None else kind.record, record(topic)]
    keys = pa.array(["k"] * ROWS)
    entries = index_entries(
        [topic, claimed],
        np.array([0, 1, 0], np.int32),
        pa.array(["u"] * ROWS),
        keys,
        string_hashes(pa.array(["a"] * ROWS)),
    )
    columns: dict[str, list[Any]] = {
        "record": rows,
        "topic": [0] * ROWS,
        "queueId": [0] * ROWS,
        "tagsCode": [97] * ROWS,
        "delayLevel": [0] * ROWS,
        "indexHashes": entries.as_lists(ROWS).to_pylist(),
        "tagIndexed": [True] * ROWS,
    }
    for name, value in kind.columns.items():
        columns[name][1] = value
    batch = pa.RecordBatch.from_pydict(columns, schema=SCHEMA)
    if "drop" in kind.stream:
        batch = batch.drop_columns([kind.stream["drop"]])
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=kind.stream.get("codec"))
    with pa.ipc.new_stream(sink, batch.schema, options=options) as stream:
        stream.write_batch(batch)
    data = kind.stream.get("raw", sink.getvalue().to_pybytes())
    fields: dict[str, Any] = {"rows": ROWS, "size": len(data), "crc": zlib.crc32(data), "digest": 5, **kind.part}
    fields["topics"] = tuple(topics)
    return StagedPart(**fields, inline=data), data
