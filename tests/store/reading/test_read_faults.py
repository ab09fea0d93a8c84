"""Policies of reads: raise at the first message that cannot be returned, or skip and count."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

from rocketflow_store import (
    CorruptRecordError,
    Message,
    MessageStore,
    OffsetOutOfRangeError,
    RaiseFaults,
    SkipFaults,
    StoreConfig,
    StoreReader,
)
from rocketflow_store.reading import range_read

if TYPE_CHECKING:
    from pathlib import Path

    from rocketflow_store.spi.reads import SkippedMessages

LOG_SIZE: Final = 1 << 12
COUNT: Final = 60
CONFIG: Final = StoreConfig(
    mapped_file_size_commit_log=LOG_SIZE,
    mapped_file_size_consume_queue=400,
    max_hash_slot_num=16,
    max_index_num=200,
    delete_commit_log_files_interval=0,
    delete_consume_queue_files_interval=0,
)


def fill(path: Path) -> list[int]:
    with MessageStore.open(path, CONFIG) as store:
        return [
            store.put_message(Message("t", b"%d" % number * 40, keys=["k"], queue_id=0)).physical_offset
            for number in range(COUNT)
        ]


def damage(path: Path, phy_offset: int) -> None:
    with (path / "commitlog" / f"{phy_offset // LOG_SIZE * LOG_SIZE:020d}").open("r+b") as file:
        file.seek(phy_offset % LOG_SIZE + 100)
        file.write(b"\xff" * 8)


def test_skip_policy_counts_and_reports_what_the_strict_one_raises(tmp_path: Path) -> None:
    places = fill(tmp_path / "s")
    for number in (7, 8, 31):
        damage(tmp_path / "s", places[number])
    with StoreReader(tmp_path / "s") as reader:
        skipped: list[SkippedMessages] = []
        faults = SkipFaults(skipped.append)
        rows = sum(batch.num_rows for batch in reader.read("t", 0, 0, COUNT, faults=faults))
        assert (rows, faults.count, [one.queue_offset for one in skipped]) == (COUNT - 3, 3, [7, 8, 31])
        found = reader.query_message("t", "k", COUNT, faults=faults)
        assert (len(found), faults.count) == (COUNT - 3, 6)
        for strict in ({}, {"faults": RaiseFaults()}):
            with pytest.raises(CorruptRecordError, match="queue offset 7"):
                list(reader.read("t", 0, 0, COUNT, **strict))
        with pytest.raises(CorruptRecordError, match=f"at {places[31]}"):
            reader.query_message("t", "k", COUNT, faults=RaiseFaults())


def test_read_that_skips_continues_after_retention_removed_its_next_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_read, "BLOCK", 10)
    fill(tmp_path / "s")
    with MessageStore.open(tmp_path / "s", CONFIG) as store:
        skipped: list[SkippedMessages] = []
        running = store.read("t", 0, 0, COUNT, ["queueOffset"], faults=SkipFaults(skipped.append))
        strict = store.read("t", 0, 0, COUNT, ["queueOffset"])
        got = next(running)["queueOffset"].to_pylist()
        next(strict)
        for file in store.log_files[:-1]:
            os.utime(file.path, (1_000_000, 1_000_000))
        assert store.clean().log_files
        low = store.min_offset("t", 0)
        assert low > 20
        got += [offset for batch in running for offset in batch["queueOffset"].to_pylist()]
        assert got == [*range(10), *range(low, COUNT)]
        assert [(one.queue_offset, one.count) for one in skipped] == [(10, low - 10)]
        with pytest.raises(OffsetOutOfRangeError):
            list(strict)
