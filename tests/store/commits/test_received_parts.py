"""Parts whose bytes another host sends: pieces may come again, in order, and the part appears when it is complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketflow_store import StoreError
from rocketflow_store.commits.staged_part import INLINE_BYTES, StagedPart
from rocketflow_store.commits.staging_area import StagingArea

DATA = bytes(range(256)) * 10


def receive(area: StagingArea, *pieces: tuple[int, int], size: int = len(DATA)) -> None:
    for start, end in pieces:
        area.receive(3, "part", start, size, DATA[start:end])


def test_a_part_appears_when_its_last_piece_has_come(tmp_path: Path) -> None:
    area = StagingArea(tmp_path, "sink")
    part = area.directory(3) / "part"
    receive(area, (0, 1000), (1000, 2000), (1000, 2000))
    assert not part.exists()
    receive(area, (2000, len(DATA)))
    assert part.read_bytes() == DATA
    receive(area, (0, 1000), (2000, len(DATA)))
    assert part.read_bytes() == DATA


def test_an_empty_part_is_complete_at_once(tmp_path: Path) -> None:
    area = StagingArea(tmp_path, "sink")
    area.receive(0, "none", 0, 0, b"")
    assert (area.directory(0) / "none").read_bytes() == b""


def test_missing_and_surplus_bytes_are_refused(tmp_path: Path) -> None:
    area = StagingArea(tmp_path, "sink")
    with pytest.raises(StoreError, match="bytes before 1000 are missing"):
        receive(area, (1000, 2000))
    with pytest.raises(StoreError, match="2560 came, 100 were announced"):
        receive(area, (0, len(DATA)), size=100)
    assert not (area.directory(3) / "part").exists()


def test_a_large_part_overwrites_a_file_of_an_earlier_batch(tmp_path: Path) -> None:
    area = StagingArea(tmp_path, "sink")
    old, new = b"a" * (INLINE_BYTES + 2000), b"b" * (INLINE_BYTES + 1)
    area.receive(0, "old", 0, len(old), old)
    kept = area.directory(0) / "old"
    inode = kept.stat().st_ino
    area.keep_files([StagedPart(0, len(old), 0, 0, (), path=str(kept))])
    area.receive(1, "small", 0, len(DATA), DATA)
    for start in (0, 0, 1 << 19):  # the first piece comes again
        end = 1 << 19 if start == 0 else len(new)
        area.receive(1, "new", start, len(new), new[start:end])
    part = area.directory(1) / "new"
    assert part.stat().st_ino == inode
    assert part.read_bytes()[: len(new)] == new
    assert (area.directory(1) / "small").read_bytes() == DATA
