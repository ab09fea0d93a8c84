"""Messages whose body is not what their flags say, beside good ones, as a client sends them."""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple

from rocketflow.aio.peers import Peers
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow_store.model.compression import MAX_DECOMPRESSED_SIZE, compress_body
from tests.support.request_headers import send_header

COMPRESSED: Final = 1
WRAPPED: Final = 0xC0
ZLIB, LZ4, ZSTD = 3, 1, 2
PLAIN: Final = b'{"i": 1}'
"""A body that is JSON: a producer set the flag and did not compress."""
SKIPPED: Final = b"\x50\x2a\x4d\x18\x02\0\0\0ab"
"""A frame that decompressors of LZ4 and Zstandard skip."""


class Sent(NamedTuple):
    """A body as it is sent; `plain` is what readers return, None if it cannot be decoded for the reason `why`."""

    label: str
    body: bytes
    sys_flag: int
    plain: bytes | None
    why: str = ""


def flag(kind: int) -> int:
    """Return the flags of a body compressed by `kind`."""
    return COMPRESSED | kind << 8


def _entry(body: bytes) -> bytes:
    """Return a body as an entry of a batch without properties."""
    return struct.pack(">iiiii", 22 + len(body), 0, zlib.crc32(body) & 0x7FFFFFFF, 0, len(body)) + body + b"\0\0"


def _of(kind: int, name: str) -> list[Sent]:
    one, two = compress_body(b"one", kind), compress_body(b"two", kind)
    large = compress_body(bytes(range(256)) * 9, kind)
    found = [
        Sent(f"{name} of nothing", b"", flag(kind), b""),
        Sent(f"{name}", large, flag(kind), bytes(range(256)) * 9),
        Sent(f"{name} flag alone", PLAIN, flag(kind), None, f"does not decompress as {name}"),
        Sent(f"{name} cut", large[:-1], flag(kind), None, "ends too early"),
        Sent(f"{name} cut at its head", one[:3], flag(kind), None, "ends too early"),
    ]
    if kind == ZLIB:  # bytes after the stream are ignored, as by RocketMQ's clients
        bomb = compress_body(bytes(MAX_DECOMPRESSED_SIZE + 1), kind)
        found.append(Sent(f"{name} bomb", bomb, flag(kind), None, "more than"))
        return [*found, Sent(f"{name} and more", one + b"more bytes", flag(kind), b"one")]
    return [
        *found,
        Sent(f"{name} frames", one + two, flag(kind), b"onetwo"),
        Sent(f"{name} frame to skip", SKIPPED + one, flag(kind), b"one"),
        Sent(f"{name} frame and more", one + b"more bytes", flag(kind), None, f"does not decompress as {name}"),
        Sent(f"{name} frame and a part of one", one + two[:-2], flag(kind), None, "ends too early"),
    ]


MESSAGES: Final = (
    Sent("plain", PLAIN, 0, PLAIN),
    *_of(ZLIB, "zlib"),
    *_of(LZ4, "lz4"),
    *_of(ZSTD, "zstd"),
    Sent("zlib of older clients", PLAIN, COMPRESSED, None, "does not decompress as zlib"),
    *(Sent(f"type {kind}", PLAIN, flag(kind), None, f"compression type {kind}") for kind in (4, 7)),
    Sent("last", b"last", 0, b"last"),
)
BATCHES: Final = (
    Sent("batch", _entry(b"inner"), WRAPPED, b"inner"),
    Sent("compressed batch", compress_body(_entry(b"inner"), ZLIB), WRAPPED | flag(ZLIB), b"inner"),
    Sent("flags of a batch alone", PLAIN, WRAPPED, None, "entry at byte 0"),
    Sent("flags of a compressed batch alone", PLAIN, WRAPPED | flag(ZLIB), None, "does not decompress as zlib"),
    Sent("last", b"last", 0, b"last"),
)
"""Records that hold batches of messages, for a topic with the attribute queue.type=BatchCQ."""


async def send_messages(address: str, topic: str, messages: tuple[Sent, ...] = MESSAGES) -> None:
    """Send messages to queue 0 of a topic at a broker, as they are; each has the property `n` and a tag."""
    peers = Peers()
    channel = await peers.channel(address)
    for at, one in enumerate(messages):
        tag = "good" if one.plain is not None else "bad"
        inner = "INNER_NUM\x011\x02" if one.sys_flag & WRAPPED else ""
        header = send_header(topic, sys_flag=one.sys_flag, properties=f"n\x01{at}\x02TAGS\x01{tag}\x02{inner}")
        sent = await channel.request(RequestCode.SEND_MESSAGE, header, body=one.body, timeout_s=30)
        assert sent.code == ResponseCode.SUCCESS, sent.remark
        assert int(sent.fields["queueOffset"]) == at
    await peers.close()
