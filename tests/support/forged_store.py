"""A store with a message whose body is made of complete records, at their true physical offsets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.format.record import encode_blank
from tests.support.forging import HEAD, forged

FILE_SIZE = 1 << 16
CONFIG = StoreConfig(mapped_file_size_commit_log=FILE_SIZE, mapped_file_size_consume_queue=2000)


def evil_body(begin: int, crc: bool, size: int) -> bytes:
    """Return a body of `size` bytes that begins at physical offset `begin`: a chain of records, nested three deep."""
    body = b""
    while len(body) < size - 1200:
        at = begin + len(body)
        inner = forged(at + 2 * (HEAD + 6), 2, crc=crc)
        middle = forged(at + HEAD + 6, 1, crc=crc, inside=inner)
        body += forged(at, len(body) // 400, crc=crc, inside=middle)
    end = begin + len(body)
    return (body + encode_blank(FILE_SIZE - end % FILE_SIZE)).ljust(size, b"\0")


def aligned_body(begin: int, outer_size: int, size: int) -> bytes:
    """Return a body of `size` bytes with records wherever the outer record ends if a bit of `outer_size` flips."""
    body = bytearray(size)
    for bit in range(outer_size.bit_length()):
        at = (outer_size ^ 1 << bit) - HEAD
        record = forged(begin + at, bit, crc=False)
        if 0 <= at <= size - len(record) and not any(body[at : at + len(record)]):
            body[at : at + len(record)] = record
    return bytes(body)


def made(path: Path, where: str, *, crc: bool, aligned: int = 0) -> tuple[int, int]:
    """Write a store with such a message among others; return its physical offset and the length of its body.

    If `aligned` is not 0, it is the size of the message's record, and the body is an `aligned_body`.
    """
    size = 9000
    with MessageStore.open(path, replace(CONFIG, enabled_append_prop_crc=crc)) as store:

        def put(count: int) -> None:
            for number in range(count):
                assert store.put_message(Message("t", b"honest %d" % number * 3, keys=f"k{number}", queue_id=0)).stored

        put(30)
        if where == "file end":
            while store.max_phy_offset + size + 700 < FILE_SIZE:
                put(1)
        begin = store.max_phy_offset
        body = aligned_body(begin + HEAD, aligned, size) if aligned else evil_body(begin + HEAD, crc, size)
        assert store.put_message(Message("t", body, keys="evil", queue_id=1)).stored
        assert not aligned or store.max_phy_offset - begin == aligned
        assert store.look_message_by_offset(begin) is not None
        if where != "last":
            put(30)
    return begin, size
