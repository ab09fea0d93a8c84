"""Row S08: a stop between the steps of a roll, with each possible state of the next log file; nothing is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, StoreConfig
from tests.support.checker import Place, check
from tests.support.results import Tally
from tests.support.workload import SMALL, body

SIZE = SMALL["mapped_file_size_commit_log"]
NEXT_FILES = [
    pytest.param(None, id="missing"),
    pytest.param(0, id="empty"),
    pytest.param(1, id="one-byte"),
    pytest.param(SIZE - 1, id="short"),
    pytest.param(SIZE, id="zeros"),
    pytest.param(SIZE + 4096, id="too-long"),
]
"""Lengths of the file after the last record."""


def filled(path: Path) -> int:
    """Fill a store until its first log file has no room for the next message; return the number of its messages."""
    with MessageStore.open(path, StoreConfig(**SMALL)) as store:  # type: ignore[arg-type]
        number = 0
        while store.max_phy_offset <= SIZE:
            store.put_message(Message("t", body(number), queue_id=0))
            number += 1
    return number - 1


@pytest.mark.parametrize("blank", [True, False], ids=["end-blank", "no-end-blank"])
@pytest.mark.parametrize("length", NEXT_FILES)
def test_next_log_file_is_missing_or_incomplete(
    tmp_path: Path, length: int | None, blank: bool, tally: Callable[..., Tally]
) -> None:
    whole, image = tmp_path / "whole", tmp_path / "image"
    count = filled(whole)
    shutil.copytree(whole, image)
    first, second = (image / "commitlog" / f"{base:020d}" for base in (0, SIZE))
    second.unlink()
    if length is not None:
        second.write_bytes(bytes(length))
    if not blank:
        with MessageStore.open(whole) as store:
            last = store.get_message("t", 0, count - 1).messages[0]
        first.write_bytes(first.read_bytes()[: last.phy_offset + last.store_size].ljust(SIZE, b"\0"))
    (image / "abort").write_text("1")
    (image / "rocketflow" / "stop").unlink()  # there was no orderly stop after the last message
    acked: dict[int, Place] = {number: (0, number) for number in range(count)}
    with MessageStore.open(image) as store:
        for number in range(count, count + 100):
            result = store.put_message(Message("t", body(number), queue_id=0))
            acked[number] = (result.queue_id, result.queue_offset)
    counts = tally("S08")
    counts.trial(check(image, acked, set(acked)), f"{length} bytes")
    with MessageStore.open(image):
        pass
    counts.trial(check(image, acked, set(acked)), f"{length} bytes, opened again")
