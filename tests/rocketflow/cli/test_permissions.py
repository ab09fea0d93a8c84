"""Stores that may not be read or written: one typed error, an exit code, nothing changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from rocketflow.cli.app import run
from rocketflow.spark.sink.writers import make_stream_writer
from rocketflow.spark.source.source_options import SourceOptions
from rocketflow.spark.source.stream_planner import StreamPlanner
from rocketflow_store import Message, MessageStore, StoreReader
from rocketflow_store.model.errors import StoreAccessError
from tests.support.privileges import open_directory, unprivileged

Door = Callable[[Path], object]


@pytest.fixture
def store() -> Iterator[Path]:
    with open_directory() as home:
        path = home / "s"
        with MessageStore.open(path) as opened:
            opened.put_messages([Message("t", b"x", queue_id=0) for _ in range(3)])
        yield path


def state(path: Path) -> dict[str, tuple[int, int]]:
    return {str(one.relative_to(path)): (one.stat().st_mtime_ns, one.stat().st_size) for one in sorted(path.rglob("*"))}


def plan(path: Path) -> object:
    options = {"path": str(path), "subscribe": "t", "startingOffsets": "earliest"}
    return StreamPlanner(SourceOptions.parse(options, streaming=True)).initial()


def read_all(path: Path) -> object:
    with StoreReader(path) as reader:
        return list(reader.read("t", 0, 0, 3))


def write(path: Path) -> object:
    return MessageStore.open(path)


def write_rows(path: Path) -> object:
    options = {"path": str(path), "topic": "t", "checkpointLocation": str(path.parent / "c")}
    return make_stream_writer(options, StructType([StructField("body", BinaryType())]), overwrite=False)


@pytest.mark.parametrize("door", [plan, read_all, write, write_rows])
def test_unreadable_store_directory_raises_store_access_error(store: Path, door: Door) -> None:
    store.chmod(0o000)
    with unprivileged(), pytest.raises(StoreAccessError, match=r"(?s)/s.*[Pp]ermission denied") as caught:
        door(store)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("door", [plan, read_all])
def test_unreadable_log_file_raises_store_access_error(store: Path, door: Door) -> None:
    next((store / "commitlog").iterdir()).chmod(0o000)
    with unprivileged(), pytest.raises(StoreAccessError, match=r"(?s)commitlog.*[Pp]ermission denied"):
        door(store)


def test_read_only_store_can_be_read_but_not_written(store: Path) -> None:
    before = state(store)
    with unprivileged():
        assert sum(batch.num_rows for batch in read_all(store)) == 3  # type: ignore[attr-defined]
        with pytest.raises(StoreAccessError, match="Permission denied"):
            write(store)
    assert state(store) == before


def test_command_on_an_unreadable_store_prints_one_error_line(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = (["info", str(store)], ["cat", str(store), "--topic", "t"], ["verify", str(store)])
    for arguments in commands:  # the unprivileged user may not import a command's modules, so load them before
        assert run(["store", *arguments]) == 0
    capsys.readouterr()
    store.chmod(0o000)
    for arguments in commands:
        with unprivileged():
            assert run(["store", *arguments]) == 2
        printed = capsys.readouterr()
        assert len(printed.err.strip().splitlines()) == 1
        assert "ermission denied" in printed.err
        assert str(store) in printed.err
