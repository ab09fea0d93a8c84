"""Compressed bodies."""

from __future__ import annotations

import zlib

import pytest

from rocketflow.client.compression import (
    MAX_BODY,
    Compression,
    DamagedBodyError,
    compress,
    compression_of,
    decompress,
    flags_of,
)

BODY = b"a body of some length, " * 400


@pytest.mark.parametrize("kind", Compression)
def test_bodies_are_what_they_were(kind: Compression) -> None:
    packed = compress(BODY, kind)
    assert len(packed) < len(BODY)
    assert decompress(packed, kind) == BODY
    assert compression_of(flags_of(kind)) is kind


@pytest.mark.parametrize("kind", Compression)
def test_a_body_without_its_end_is_damaged(kind: Compression) -> None:
    packed = compress(BODY, kind)
    for end in (0, 1, len(packed) // 2, len(packed) - 1):
        with pytest.raises(DamagedBodyError):
            decompress(packed[:end], kind)


@pytest.mark.parametrize("kind", Compression)
def test_a_small_body_cannot_fill_the_memory(kind: Compression) -> None:
    packed = compress(bytes(MAX_BODY + 1), kind)
    assert len(packed) < MAX_BODY // 100
    with pytest.raises(DamagedBodyError, match="more than"):
        decompress(packed, kind)


def test_type_0_is_zlib_and_types_above_3_are_damaged() -> None:
    assert compression_of(0x1) is Compression.ZLIB
    assert compression_of(0x300) is None
    assert decompress(zlib.compress(BODY), Compression.ZLIB) == BODY
    with pytest.raises(DamagedBodyError, match="type 5"):
        compression_of(0x501)
