"""Functions that delete or damage the files of batch queues and LMQs."""

from __future__ import annotations

import shutil
from pathlib import Path

from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from tests.support.damage import flip

BATCH = "batchconsumequeue/batches/0"
LIGHT = "consumequeue/%LMQ%b/0"


def files_of(directory: Path) -> list[Path]:
    return sorted(directory.iterdir())


def lose(directory: Path) -> None:
    shutil.rmtree(directory)


def lose_topic(directory: Path) -> None:
    shutil.rmtree(directory.parent)


def lose_first(directory: Path) -> None:
    files_of(directory)[0].unlink()


def lose_last(directory: Path) -> None:
    files_of(directory)[-1].unlink()


def cut_last(directory: Path) -> None:
    last = files_of(directory)[-1]
    last.write_bytes(last.read_bytes()[:50])


def cut_at_unit(directory: Path) -> None:
    last = files_of(directory)[-1]
    last.write_bytes(last.read_bytes()[: 2 * BATCH_UNIT_SIZE])


def lengthen(directory: Path) -> None:
    last = files_of(directory)[-1]
    last.write_bytes(last.read_bytes() + b"x" * BATCH_UNIT_SIZE)


def flip_first(directory: Path) -> None:
    flip(files_of(directory)[0], 7)


def flip_last(directory: Path) -> None:
    flip(files_of(directory)[-1], 10)


def zero_middle(directory: Path) -> None:
    files = files_of(directory)
    middle = files[len(files) // 2]
    middle.write_bytes(bytes(middle.stat().st_size))


def put_a_file(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.write_bytes(b"no directory")


HARM = [
    lose,
    lose_topic,
    lose_first,
    lose_last,
    cut_last,
    cut_at_unit,
    lengthen,
    flip_first,
    flip_last,
    zero_middle,
    put_a_file,
]
