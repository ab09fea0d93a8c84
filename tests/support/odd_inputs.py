"""Odd bodies, properties, names, ids, records and batches, and what RocketMQ's own code makes of each.

`python -m tests.apache.remoting_golden` gives every row to RocketMQ's classes (`tests/apache/java/OddInputs.java`) and
writes their answers to `tests/golden/remoting/VERSION/odd_inputs.jsonl`. An answer is JSON; `Refused` stands for an
exception, or for a message that RocketMQ's decoder drops.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from tests.support import golden_remoting

VERSIONS: Final = (*golden_remoting.VERSIONS, "5.5.0")
NEWEST: Final = VERSIONS[-1]
FILE: Final = "odd_inputs"
COMPRESSED: Final = 1
BORN_V6, STORE_V6 = 0x10, 0x20
LZ4, ZSTD, ZLIB = 1, 2, 3
MIB: Final = 1 << 20
LONG: Final = 1_000
"""Longer bodies and property strings are given by their size and CRC, longer values of properties by their size."""
V1, V2 = 0xDAA320A7, 0xDAA320AB
IPV4: Final = bytes([127, 0, 0, 1])
IPV6: Final = bytes.fromhex("20010db8000000000000ff0000428329")
MAPPED: Final = bytes(10) + b"\xff\xff" + IPV4


@dataclass(frozen=True)
class Row:
    """One odd input: `data` is what RocketMQ's code, the store and clients read, `name` says what is odd about it."""

    kind: str
    name: str
    data: Any

    @property
    def line(self) -> str:
        """The row as a line for the Java program: kind, name, and hexadecimal fields."""
        return "\t".join((self.kind, self.name, *map(_hex, self.data)))

    @property
    def crc(self) -> int:
        """The CRC of the line: golden answers name it, so that they belong to this input."""
        return zlib.crc32(self.line.encode())


@dataclass(frozen=True)
class Refused:
    """The answer to an input that is refused; `why` is RocketMQ's exception, or the store's error."""

    why: str = ""

    def __eq__(self, other: object) -> bool:
        """Return True for any other refusal: the reasons differ."""
        return isinstance(other, Refused)

    def __hash__(self) -> int:
        """Return one hash for all."""
        return 0


@cache
def answers(version: str) -> dict[tuple[str, str], Any]:
    """Return RocketMQ's answers by kind and name."""
    found = {}
    for one in golden_remoting.lines(version, FILE):
        found[one["kind"], one["name"]] = Refused(one["refused"]) if "refused" in one else one["result"]
    return found


@cache
def input_crcs(version: str) -> dict[tuple[str, str], int]:
    """Return the CRC of each row that a version's golden file answers."""
    return {(one["kind"], one["name"]): one["input"] for one in golden_remoting.lines(version, FILE)}


def answer(read: Callable[[], Any], *errors: type[Exception]) -> Any:
    """Return what `read` returns, or `Refused` if it raises one of `errors`."""
    try:
        return read()
    except errors as error:
        return Refused(f"{type(error).__name__}: {error}")


def shown(data: bytes) -> Any:
    """Return bytes as an answer has them: hexadecimal digits, or size and CRC if there are many."""
    return data.hex() if len(data) <= LONG else [len(data), zlib.crc32(data)]


def shown_properties(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return properties as an answer has them."""
    return {name: len(value) if len(value) > LONG else value for name, value in properties.items()}


def record(
    body: bytes = b"body",
    topic: bytes = b"TopicA",
    properties: bytes = b"TAGS\x01a\x02",
    *,
    sys_flag: int = 0,
    magic: int = V1,
    hosts: tuple[bytes, bytes] = (IPV4, IPV4),
    ports: tuple[int, int] = (10911, 10911),
    body_size: int | None = None,
    topic_size: int | None = None,
    properties_size: int | None = None,
    size: int | None = None,
    after: bytes = b"",
    physical_offset: int = 4096,
) -> bytes:
    """Return a record; the sizes are those of its parts unless others are given, `after` are bytes after its parts."""
    sys_flag |= (BORN_V6 if len(hosts[0]) == 16 else 0) | (STORE_V6 if len(hosts[1]) == 16 else 0)
    head = struct.pack(">iiqqiq", 3, 7, 11, physical_offset, sys_flag, 1_700_000_000_000)
    born, stored = (host + struct.pack(">i", port) for host, port in zip(hosts, ports, strict=True))
    middle = born + struct.pack(">q", 1_700_000_000_001) + stored + struct.pack(">iq", 2, 5)
    topic_length = (len(topic) if topic_size is None else topic_size) & (0xFF if magic == V1 else 0xFFFF)
    parts = (
        *(struct.pack(">i", len(body) if body_size is None else body_size), body),
        *(topic_length.to_bytes(1 if magic == V1 else 2, "big"), topic),
        *(struct.pack(">H", (len(properties) if properties_size is None else properties_size) & 0xFFFF), properties),
    )
    rest = head + middle + b"".join(parts) + after
    whole = 12 + len(rest) if size is None else size
    return struct.pack(">iII", whole, magic, zlib.crc32(body) & 0x7FFFFFFF) + rest


def entry(
    body: bytes = b"one",
    properties: bytes = b"a\x01b\x02",
    *,
    size: int | None = None,
    body_size: int | None = None,
    properties_size: int | None = None,
) -> bytes:
    """Return an entry of a batch body; the sizes are those of its parts unless others are given."""
    whole = 22 + len(body) + len(properties) if size is None else size
    sizes = (
        len(body) if body_size is None else body_size,
        len(properties) if properties_size is None else properties_size,
    )
    return struct.pack(">iiiii", whole, 0, 0, 9, sizes[0]) + body + struct.pack(">h", sizes[1]) + properties


@cache
def rows() -> tuple[Row, ...]:
    """Return the table."""
    kinds = (_bodies(), _property_strings(), _written_properties(), _names(), _ids(), _written_ids(), _hashes())
    return tuple(row for kind in (*kinds, _records(), _batches()) for row in kind)


def _bodies() -> Iterator[Row]:
    """Yield (body, sysFlag): how a record's body is read."""
    from rocketflow_store.model.compression import compress_body

    one, two = ({kind: compress_body(text, kind) for kind in (LZ4, ZSTD, ZLIB)} for text in (b"one", b"two"))
    names = {LZ4: "lz4", ZSTD: "zstd", ZLIB: "zlib"}

    def row(name: str, body: bytes, sys_flag: int) -> Row:
        return Row("body", name, (body, sys_flag))

    for kind, name in names.items():
        yield row(f"{name}", one[kind], kind << 8 | COMPRESSED)
        yield row(f"{name} flag with an empty body", b"", kind << 8 | COMPRESSED)
        yield row(f"{name} flag, not compressed", b'{"i": 1}', kind << 8 | COMPRESSED)
        yield row(f"{name} without its last byte", one[kind][:-1], kind << 8 | COMPRESSED)
        yield row(f"{name} of three bytes", one[kind][:3], kind << 8 | COMPRESSED)
        yield row(f"{name}, two in one body", one[kind] + two[kind], kind << 8 | COMPRESSED)
        yield row(f"{name} and a part of a second", one[kind] + two[kind][:-2], kind << 8 | COMPRESSED)
        yield row(f"{name} and other bytes", one[kind] + b"more bytes", kind << 8 | COMPRESSED)
        yield row(f"{name} and two other bytes", one[kind] + b"ab", kind << 8 | COMPRESSED)
        yield row(f"{name} of nothing", compress_body(b"", kind), kind << 8 | COMPRESSED)
    yield row("type 0 is zlib", one[ZLIB], COMPRESSED)
    yield row("type 4 is unknown", one[ZLIB], 4 << 8 | COMPRESSED)
    yield row("type 7 with an empty body", b"", 7 << 8 | COMPRESSED)
    yield row("type without the flag", one[ZLIB], ZLIB << 8)
    yield row("64 MiB and one byte", compress_body(bytes(64 * MIB + 1), ZSTD), ZSTD << 8 | COMPRESSED)
    yield row("128 MiB", compress_body(bytes(128 * MIB), ZSTD), ZSTD << 8 | COMPRESSED)
    yield row("128 MiB and one byte", compress_body(bytes(128 * MIB + 1), ZSTD), ZSTD << 8 | COMPRESSED)


def _property_strings() -> Iterator[Row]:
    """Yield property strings as records have them."""
    texts = {
        "empty": b"",
        "without the last separator": b"a\x01b\x02c\x01d",
        "an empty name": b"\x01v\x02a\x01b\x02",
        "an empty value": b"a\x01\x02b\x01c\x02",
        "a name without a value": b"ab\x02c\x01d\x02",
        "two separators in a value": b"a\x01b\x01c\x01d\x02",
        "separators alone": b"\x02\x02\x01\x02\x01\x01\x02",
        "a name twice": b"a\x011\x02b\x01x\x02a\x012\x02",
        "bytes that are no UTF-8": b"a\x01\xff\xfe\x02\xc3\x01b\x02",
        "characters cut short": b"a\x01\xe4\xb8\x02b\x01\xf0\x9f\x9a\x02c\x01\xf0\x9f\x02d\x01\xc3",
        "characters of too many bytes": b"a\x01\xc0\x80\x02b\x01\xe0\x80\x80\x02c\x01\xf4\x90\x80\x80\x02d\x01\xf8\x80",
        "half of a surrogate pair": b"a\x01\xed\xa0\x80\x02b\x01x\xed\xb0\x80y\x02c\x01\xed\xa0\x02d\x01\xed\xa0A\x02",
        "both halves of a surrogate pair": b"a\x01\xed\xa0\xbd\xed\xba\x80\x02",
        "names that differ only in bad bytes": b"\xff\x011\x02\xfe\x012\x02",
        "32,767 bytes": b"a\x01" + b"v" * 32_764 + b"\x02",
        "zero bytes at the end": b"a\x01b\x02" + bytes(20),
    }
    for name, data in texts.items():
        yield Row("properties", name, (data,))


def _written_properties() -> Iterator[Row]:
    """Yield names and values in turn, which are written as a property string."""
    texts = {
        "none": (),
        "an empty name": ("", "v", "a", "b"),
        "an empty value": ("a", "", "b", "c"),
        "a separator in a name": ("a\x01b", "c"),
        "a separator in a value": ("a", "b\x02c\x01d"),
        "half of a surrogate pair": ("a", "x\ud800y", "\udc00", "z"),
        "characters beyond 16 bits": ("\U0001f680", "\u6f22\U0001f680"),
        "32,766 bytes": ("a", "v" * 32_763),
        "32,767 bytes": ("a", "v" * 32_764),
        "32,768 bytes": ("a", "v" * 32_765),
        "32,768 bytes in fewer characters": ("ab", "\u00fc" * 16_382),
        "65,536 bytes": ("a", "v" * 65_533),
    }
    for name, data in texts.items():
        yield Row("written properties", name, data)


def _names() -> Iterator[Row]:
    """Yield names of topics and groups."""
    texts = (
        *(
            "",
            " ",
            "a b",
            "a.b",
            "a/b",
            "../a",
            "a\n",
            "a\x00",
            "\u00fc",
            "\U0001f680",
            "\ud800",
            "a%|_-9",
            "%",
            "%sys%a",
        ),
        *("a" * 120, "a" * 121, "a" * 127, "a" * 128, "a" * 255, "a" * 256),
        *("%RETRY%" + "a" * 120, "%RETRY%" + "a" * 121, "%RETRY%" + "a" * 248, "%RETRY%" + "a" * 249),
        *(
            "%DLQ%" + "a" * 250,
            "%DLQ%" + "a" * 251,
            "%LMQ%a",
            "%LMQ%" + "a" * 122,
            "%LMQ%" + "a" * 123,
            "%retry%" + "a" * 121,
        ),
        *("TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"),
        *(
            "RMQ_SYS_TRACE_TOPIC",
            "TRANS_CHECK_MAX_TIME_TOPIC",
            "SELF_TEST_TOPIC",
            "OFFSET_MOVED_EVENT",
            "CHECKPOINT_TOPIC",
        ),
        *(
            "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
            "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
            "rmq_sys_a",
            "rmq_sys_wheel_timer",
        ),
        *("rmq_sys_ROCKETFLOW_a", "schedule_topic_xxxx", "DEFAULT_PRODUCER", "CLIENT_INNER_PRODUCER"),
    )
    for text in texts:
        label = text if len(text) < 40 else f"{text[:10]}... of {len(text)} characters"
        yield Row(
            "name",
            label.encode("ascii", "backslashreplace").decode().replace("\n", "\\n").replace("\0", "\\0"),
            (text,),
        )


def _ids() -> Iterator[Row]:
    """Yield texts that are read as offset message ids."""
    good = "7F00000100002A9F00000000000000FF"
    port = "{:08X}".format
    texts = {
        "IPv4": good,
        "lower case": good.lower(),
        "IPv6": f"{IPV6.hex().upper()}00002A9F00000000000000FF",
        "IPv4 mapped to IPv6": f"{MAPPED.hex().upper()}00002A9F00000000000000FF",
        "port 0": f"7F000001{port(0)}0000000000000000",
        "port 65,535": f"7F000001{port(65_535)}0000000000000000",
        "port 65,536": f"7F000001{port(65_536)}0000000000000000",
        "port -1": f"7F000001{port(0xFFFFFFFF)}0000000000000000",
        "port of the least int32": f"7F000001{port(1 << 31)}0000000000000000",
        "a negative offset": f"7F00000100002A9F{'F' * 16}",
        "the largest offset": f"7F00000100002A9F7{'F' * 15}",
        "empty": "",
        "one digit too few": good[:-1],
        "one digit too many": f"{good}0",
        "one byte too many": f"{good}00",
        "28 bytes without two": f"{IPV6.hex()}00002A9F000000000000",
        "60 digits": f"{IPV6.hex()}00002A9F00000000000000FFFFFF",
        "blanks between digits": f"7F00 0001 {good[8:-2]}",
        "a blank at the end": f"{good[:-1]} ",
        "other letters": f"ZG{good[2:]}",
        "digits of another script": f"\u0661\u0662{good[2:]}",
    }
    for name, text in texts.items():
        yield Row("id", name, (text,))


def _written_ids() -> Iterator[Row]:
    """Yield (address, port, physical offset), which are written as an offset message id."""
    for name, address, port, offset in (
        ("IPv4", IPV4, 10911, 255),
        ("IPv6", IPV6, 10911, 255),
        ("a negative offset", IPV4, 10911, -1),
        ("the largest offset", IPV4, 65_535, (1 << 63) - 1),
        ("port 0", IPV4, 0, 0),
    ):
        yield Row("written id", name, (address, port, offset))


def _hashes() -> Iterator[Row]:
    """Yield texts whose hash chooses a queue, and identifies a tag."""
    for text in (
        "",
        "a",
        "\u6f22",
        "\U0001f680",
        "\ud83d",
        "\ude80\ud83d",
        "a\x00b",
        "polygenelubricants",
        "x" * 5_000,
    ):
        label = text if len(text) < 40 else f"{text[:3]}... of {len(text):,}"
        yield Row("hash", label.encode("ascii", "backslashreplace").decode().replace("\0", "\\0"), (text,))


def _records() -> Iterator[Row]:
    """Yield the bodies of answers to a pull: records, one after the other."""
    long_topic = b"t" * 200
    rows = {
        "two": record() + record(b"second"),
        "none": b"",
        "a topic of 127 bytes": record(topic=b"t" * 127),
        "version 2 with a short topic": record(magic=V2),
        "version 2 with a topic of 200 bytes": record(topic=long_topic, magic=V2),
        "version 1 with a topic of 200 bytes": record(topic=long_topic),
        "an unknown version": record(magic=0xDAA320A8),
        "IPv6 hosts": record(hosts=(IPV6, IPV6)),
        "an IPv6 born host": record(hosts=(IPV6, IPV4)),
        "an IPv6 store host": record(hosts=(IPV4, IPV6)),
        "IPv4 mapped to IPv6": record(hosts=(MAPPED, MAPPED)),
        "port 65,536": record(ports=(65_536, 10911)),
        "port -1": record(ports=(10911, -1)),
        "port 0": record(ports=(0, 0)),
        "no body": record(b""),
        "no topic": record(topic=b""),
        "no properties": record(properties=b""),
        "a negative physical offset": record(physical_offset=-1),
        "a body of -1 bytes": record(b"", body_size=-1),
        "a body longer than the record": record(body_size=1 << 20),
        "a topic of -1 bytes": record(topic=b"", topic_size=-1),
        "a topic longer than the record": record(topic_size=120),
        "a topic that is not UTF-8": record(topic=b"Topic\xff\xfe"),
        "properties of -1 bytes": record(properties=b"", properties_size=-1),
        "properties of 32,767 bytes": record(properties=b"a\x01" + b"v" * 32_764 + b"\x02"),
        "properties of 32,768 bytes": record(properties=b"a\x01" + b"v" * 32_765 + b"\x02"),
        "properties longer than the record": record(properties_size=100),
        "properties shorter than the record": record(properties_size=3),
        "bytes after the properties": record(after=b"more"),
        "bytes after the properties, then another": record(after=b"more") + record(b"second"),
        "a size one too small": record(size=len(record()) - 1),
        "a size one too large, then another": record(size=len(record()) + 1) + record(b"second"),
        "size 0": record(size=0),
        "a negative size": record(size=-1),
        "a part of a second record": record() + record(b"second")[:50],
        "three bytes after the last record": record() + b"abc",
        "a body that does not decompress, then another": record(b"x", sys_flag=0x301) + record(b"second"),
    }
    for name, data in rows.items():
        yield Row("records", name, (data,))


def _batches() -> Iterator[Row]:
    """Yield bodies of batches."""
    bodies = {
        "two": entry() + entry(b"two", b""),
        "none": b"",
        "an empty body": entry(b""),
        "properties of 32,767 bytes": entry(b"x", b"a\x01" + b"v" * 32_764 + b"\x02"),
        "a size one too small": entry(size=27) + entry(),
        "a size one too large": entry(size=30) + entry(),
        "size 0": entry(size=0),
        "a negative size": entry(size=-1),
        "a body of -1 bytes": entry(b"", body_size=-1),
        "a body longer than the batch": entry(body_size=1_000),
        "properties of -1 bytes": entry(properties=b"", properties_size=-1),
        "properties longer than the batch": entry(properties_size=100),
        "bytes after the last entry": entry() + b"abc",
        "a part of a second entry": entry() + entry()[:-2],
        "zeros after the last entry": entry() + bytes(22),
    }
    for name, data in bodies.items():
        yield Row("batch", name, (data,))


def _hex(field: bytes | str | int) -> str:
    """Return a field for the Java program: bytes, the UTF-16 units of a text, or a 64-bit number."""
    if isinstance(field, str):
        return field.encode("utf-16-be", "surrogatepass").hex()
    return (field if isinstance(field, bytes) else struct.pack(">q", field)).hex()
