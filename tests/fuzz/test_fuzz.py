"""Decoders return a value or raise a StoreError for any bytes: some hundred inputs here, millions by `make fuzz`."""

from __future__ import annotations

import base64
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings

from rocketflow_store.model.compression import compress_body, decompress_body
from rocketflow_store.model.errors import CorruptRecordError
from tests.fuzz.mutations import nearly
from tests.fuzz.targets import TARGETS, Target
from tests.support.confinement import ForbiddenError, confined_to
from tests.support.trials import FULL, LEVEL

EXAMPLES = 20_000 if FULL else 150 if LEVEL == "fast" else 60
SLOW_EXAMPLES = 1_000 if FULL else 12 if LEVEL == "fast" else 5


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_decoder_of_any_bytes_returns_or_raises_store_error(target: Target) -> None:
    @settings(max_examples=SLOW_EXAMPLES if target.slow else EXAMPLES, print_blob=True)
    @given(nearly(target.seeds()))
    def fed(data: bytes) -> None:
        target.run(data)

    fed()


FOUND = {
    "fast-json": "e3t7YToxfToiYiIsYzoxfToyfQ==",
    "records-by-units": "AgAAAAAAXXh4HwEBAAAAYgLUQIZ4eHgAaM8AAQAAKv///58AAtRAhnh4eOWLAGjPAAEAACr///+fAAIAAAAAAP8AAA"
    "AAAAA"
    "AAIZ4QAJ41AAA/wAAAAAAAAAAhnhAAnjUeOWLAGgpzwABAAA=",
}
"""Inputs that were findings: a key that has an object as key; lengths that put a topic after the end of the buffer."""


@pytest.mark.parametrize(("name", "found"), FOUND.items(), ids=FOUND)
def test_former_finding_raises_no_other_error(name: str, found: str) -> None:
    TARGETS[name].run(base64.b64decode(found))


@pytest.mark.parametrize("kind", [0, 1, 2, 3])
def test_decompression_bomb_is_refused_without_its_memory(kind: int) -> None:
    bomb = compress_body(bytes(128 << 20), kind)
    limit = 1 << 20
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecordError, match="more than"):
            decompress_body(bomb, kind << 8 | 1, limit)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * limit, peak


def test_confinement_refuses_forbidden_calls(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    with confined_to(inside):
        (inside / "a").write_bytes(b"fine")
        for forbidden in (
            lambda: outside.write_bytes(b"x"),
            lambda: (inside / "a").rename(outside),
            lambda: (inside / ".." / "b").mkdir(),
            lambda: exec("1"),
            lambda: os.system("true"),
            lambda: __import__("colorsys"),
        ):
            with pytest.raises(ForbiddenError):
                forbidden()
    assert sorted(tmp_path.iterdir()) == [inside]
