"""A scan that finds records of one size many at a time finds the same ones as one record after another."""

from __future__ import annotations

import random
import struct

import pyarrow as pa
import pytest

from rocketflow_store.format.record import MAGIC_V1, MIN_RECORD_SIZE
from rocketflow_store.records.decoding.scan import scan_records


def one_after_another(data: bytes, position: int, limit: int, most: int) -> tuple[list[int], int]:
    """Return the positions of records, and the end of the last one."""
    found: list[int] = []
    while len(found) < most and position <= limit - MIN_RECORD_SIZE:
        size, magic = struct.unpack_from(">ii", data, position)
        if size < MIN_RECORD_SIZE or position + size > limit or magic != MAGIC_V1:
            break
        found.append(position)
        position += size
    return found, position


def log_of(rng: random.Random) -> bytes:
    data = bytearray()
    for _ in range(rng.randrange(1, 30)):
        size = rng.randrange(MIN_RECORD_SIZE, 250)
        for _ in range(rng.choice((1, 2, 15, 16, 17, 18, 40, 145, 400))):
            data += struct.pack(">ii", size, MAGIC_V1 if rng.random() < 0.9995 else 7) + bytes(size - 8)
    data += bytes(rng.randrange(300))
    if rng.random() < 0.3:
        struct.pack_into(">i", data, rng.randrange(len(data) - 4), rng.randrange(-5, 500))
    return bytes(data)


@pytest.mark.parametrize("seed", range(40))
def test_scan_of_runs_finds_what_a_plain_loop_finds(seed: int) -> None:
    rng = random.Random(seed)
    data = log_of(rng)
    limit = rng.choice((len(data), rng.randrange(len(data))))
    for most in (1, 17, 100, 1 << 13):
        position = 0
        for _ in range(20):
            scan = scan_records(pa.py_buffer(data), position, limit, most)
            wanted, end = one_after_another(data, position, limit, most)
            assert scan.positions.tolist() == wanted, (seed, most, position)
            assert scan.end == end
            assert (scan.positions + scan.sizes).tolist() == [*wanted[1:], *([end] if wanted else [])]
            if not wanted:
                break
            position = end
