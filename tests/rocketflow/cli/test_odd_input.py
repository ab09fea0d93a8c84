"""Commands on unexpected lines, offsets and files: each problem is reported, and the rest is processed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketflow.cli.app import run
from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.reading.export import export_topic
from tests.support.trials import COMMAND_LINE, environment

SIZES = StoreConfig(mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=2000)


def filled(path: Path, count: int = 8) -> list[int]:
    """Fill a store with one queue; return the physical offsets of its messages."""
    with MessageStore.open(path, SIZES) as store:
        put = [store.put_message(Message("t", b"message %d" % n, keys=f"k{n}", queue_id=0)) for n in range(count)]
    return [one.physical_offset for one in put]


def damage(file: Path, at: int, data: bytes = b"damaged") -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(data)


def command(*words: object, **more: Any) -> subprocess.CompletedProcess[bytes]:
    arguments = [sys.executable, "-c", COMMAND_LINE, *map(str, words)]
    return subprocess.run(arguments, env=environment(), capture_output=True, timeout=60, check=False, **more)


def test_append_refuses_lines_one_by_one(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = [
        b'\xef\xbb\xbf{"body": "first"}',
        b'{"body": "x", "bornTimestamp": 99999999999999999999999}',
        b'{"body": "x", "queueId": 65536}',
        b"[" * 100_000,
        b'{"body": "\xff"}',
        b'{"body": "x", "bodyBase64": "eA=="}',
        b'{"body": "last"}',
    ]
    (tmp_path / "lines").write_bytes(b"\n".join(lines))
    words = ["store", "append", str(tmp_path / "s"), "--topic", "t", "--create", "--input"]
    ended = command(*words, "-", input=b"\n".join(lines))
    code = run([*words, str(tmp_path / "lines")])
    for ended_with, out, err in (
        (ended.returncode, ended.stdout.decode(), ended.stderr.decode()),
        (code, *capfd.readouterr()),
    ):
        printed = [json.loads(line) for line in out.splitlines()]
        assert ended_with == 1
        assert [one["status"] for one in printed] == ["PUT_OK", *["MESSAGE_ILLEGAL"] * 5, "PUT_OK"]
        assert [one["line"] for one in printed[1:6]] == [2, 3, 4, 5, 6]
        assert [line.split(":")[1] for line in err.splitlines()] == [f" line {n}" for n in (2, 3, 4, 5, 6)]


def test_append_stores_a_line_without_waiting_for_the_next(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", COMMAND_LINE, "store", "append", str(tmp_path / "s"), "--topic", "t", "--create"]
    with subprocess.Popen(arguments, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(3):
            process.stdin.write(b'{"body": "%d"}\n' % number)
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["status"] == "PUT_OK"
        process.stdin.close()
        assert process.wait(60) == 0


def test_append_creates_a_store_with_the_sizes_in_broker_conf(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text("mappedFileSizeCommitLog=65536\n")
    (tmp_path / "line").write_text('{"body": "x"}')
    words = ("store", "append", tmp_path / "s", "--topic", "t", "--create", "--config", tmp_path / "broker.conf")
    assert run([*map(str, words), "--input", str(tmp_path / "line")]) == 0
    assert {one.stat().st_size for one in (tmp_path / "s" / "commitlog").iterdir()} == {65536}


def test_cat_and_export_report_skipped_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s"
    places = filled(path)
    damage(path / "commitlog" / f"{0:020d}", places[3] + 95)
    assert run(["store", "cat", str(path), "--topic", "t", "--json"]) == 3
    out, err = capsys.readouterr()
    assert [json.loads(line)["queueOffset"] for line in out.splitlines()] == [0, 1, 2, 4, 5, 6, 7]
    assert f"queue 0, offset 3: cannot be read (physical offset {places[3]})" in err
    assert run(["store", "cat", str(path), "--topic", "t", "--from", "4", "--json"]) == 0
    capsys.readouterr()
    assert run(["store", "export", str(path), "--topic", "t", "--to", str(tmp_path / "out"), "--json"]) == 3
    printed = json.loads(capsys.readouterr().out)
    assert (printed["rows"], printed["leftOut"], len(printed["files"])) == (7, 1, 1)


def test_cat_continues_after_a_missing_queue_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, replace(SIZES, mapped_file_size_consume_queue=200)) as store:
        for number in range(40):
            store.put_message(Message("t", b"%d" % number, queue_id=0))
    (path / "consumequeue" / "t" / "0" / f"{200:020d}").unlink()
    assert run(["store", "cat", str(path), "--topic", "t", "--json"]) == 3
    out, err = capsys.readouterr()
    assert [json.loads(line)["queueOffset"] for line in out.splitlines()] == [*range(10), *range(20, 40)]
    assert "queue 0, offsets 10 to 19: the ConsumeQueue has no units for them" in err
    assert "10 messages could not be read" in err


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_rebuild_of_an_unknown_topic_raises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    filled(tmp_path / "s")
    assert run(["store", "rebuild", str(tmp_path / "s"), "--topic", "typo", *more]) == 2
    assert "no topic 'typo' in this store" in capsys.readouterr().err
    assert run(["store", "rebuild", str(tmp_path / "s"), "--topic", "t", *more]) == 0


def test_dump_prints_rocketflows_own_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    filled(tmp_path / "s")
    stop = tmp_path / "s" / "rocketflow" / "stop"
    assert run(["store", "dump", str(stop)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["kind"], printed["content"]["queues"][0][:3]) == ("stop", ["t", 0, 8])
    stop.write_bytes(stop.read_bytes()[:-1])
    assert run(["store", "dump", str(stop)]) == 3
    assert run(["store", "export", str(tmp_path / "s"), "--topic", "t", "--to", "-"]) == 2
    assert "give a directory" in capsys.readouterr().err


def test_cat_of_removed_offsets_reports_them(
    golden_store: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["store", "cat", str(golden_store("expired-53")), "--topic", "orders", "--queue", "0", "--json"]
    assert run(words) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])["queueOffset"]
    assert run([*words, "--from", "0", "--to", "10"]) == 3
    out, err = capsys.readouterr()
    assert (out, "queue 0, offsets 0 to 9: were removed" in err) == ("", True)
    assert run([*words, "--from", str(first - 1)]) == 3
    assert run([*words, "--from", str(first)]) == 0


def test_cat_prints_the_messages_of_an_lmq(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, replace(SIZES, enable_lmq=True, enable_multi_dispatch=True)) as store:
        light = {"INNER_MULTI_DISPATCH": "%LMQ%a"}
        places = [store.put_message(Message("t", b"%d" % n, properties=light)).physical_offset for n in range(6)]
    words = ["store", "cat", str(path), "--topic", "%LMQ%a", "--json"]
    assert run(words) == 0
    assert len(capsys.readouterr().out.splitlines()) == 6
    damage(path / "commitlog" / f"{0:020d}", places[2] + 4)
    assert run(words) == 3
    out, err = capsys.readouterr()
    assert (len(out.splitlines()), "queue 0, offset 2: cannot be read" in err) == (5, True)


def test_dump_of_a_damaged_file_ends_at_the_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s"
    places = filled(path)
    log, queue = path / "commitlog" / f"{0:020d}", path / "consumequeue" / "t" / "0" / f"{0:020d}"
    damage(log, places[2] + 4)
    damage(queue, 5 * UNIT_SIZE, bytes(UNIT_SIZE))
    for file, count, at in ((log, 2, places[2]), (queue, 5, 5 * UNIT_SIZE)):
        assert run(["store", "dump", str(file)]) == 3
        printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert (len(printed), printed[-1]["kind"], printed[-1]["position"]) == (count + 1, "damaged", at)
    (index,) = (path / "index").iterdir()
    index.write_bytes(b"short")
    assert run(["store", "dump", str(index)]) == 3
    assert f"{index} at 0: 5 bytes" in capsys.readouterr().err


def test_rebuild_of_a_directory_that_is_no_store_raises(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s"
    filled(path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    for directory in (path / "commitlog", tmp_path / "other"):
        before = sorted(os.listdir(directory))
        for more in ([], ["--dry-run"]):
            assert run(["store", "rebuild", str(directory), *more]) == 2
            assert "holds no commitlog/" in capsys.readouterr().err
        assert sorted(os.listdir(directory)) == before


def test_environment_wins_over_broker_conf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s"
    filled(path)
    (tmp_path / "broker.conf").write_text("fileReservedTime=9\n")
    words = ["store", "clean", str(path), "--dry-run", "--json"]
    monkeypatch.setenv("ROCKETFLOW_fileReservedTime", "5")
    for more in ([], ["--config", str(tmp_path / "broker.conf")]):  # before the file's
        assert run([*words, *more]) == 0
        assert json.loads(capsys.readouterr().out)["reservedHours"] == 5
    monkeypatch.setenv("ROCKETFLOW_fileReservedTime", "x")
    assert run(words) == 2
    assert "ROCKETFLOW_fileReservedTime" in capsys.readouterr().err


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_command_ends_with_its_code_if_its_stdout_is_closed(tmp_path: Path, unbuffered: str) -> None:
    path = tmp_path / "s"
    places = filled(path, 300)
    lines = {f"store cat {path} --topic t": 0, f"store verify {path}": 3}
    if not unbuffered:
        lines = {f"store info {path}": 0, "version": 0, **lines}
    for line, code in lines.items():
        if code:
            damage(path / "commitlog" / f"{0:020d}", places[3] + 95)
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND_LINE, *line.split()],
            env={**environment(), "PYTHONUNBUFFERED": unbuffered},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
        assert (process.wait(60), b"Traceback" in errors, b"BrokenPipe" in errors) == (code, False, False), line
        process.stderr.close()


def test_full_stdout_is_an_error() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", COMMAND_LINE, "version"],
            env={**environment(), "PYTHONUNBUFFERED": ""},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "error: standard output: No space left on device\n")


def test_export_into_a_directory_that_cannot_be_created_raises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s"
    filled(path)
    assert run(["store", "export", str(path), "--topic", "t", "--to", "/proc/x"]) == 2
    assert "/proc/x" in capsys.readouterr().err


def test_missing_queue_is_named_with_those_that_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s"
    filled(path)
    for words in (["cat"], ["offset", "--timestamp", "0"]):
        assert run(["store", *words[:1], str(path), "--topic", "t", "--queue", "9", *words[1:]]) == 2
        assert "topic t has messages in these: 0" in capsys.readouterr().err
    assert (
        run(["store", "offset", str(path), "--topic", "t", "--queue", "0", "--timestamp", "0", "--boundary", "UPPER"])
        == 0
    )
    capsys.readouterr()
    shutil.rmtree(path / "consumequeue")
    assert run(["store", "cat", str(path), "--topic", "t"]) == 3  # the last clean stop recorded its messages
    assert "store verify --repair" in capsys.readouterr().err


def test_job_writes_to_the_stderr_of_the_submit_command(tmp_path: Path) -> None:
    """spark-submit joins stdout and stderr; errors and progress of a job must not be among its results."""
    job = (
        "import sys; from rocketflow.process.stderr import own_stderr; "
        "own_stderr(); print('out'); print('error', file=sys.stderr)"
    )
    submit = (
        "import os, subprocess, sys; from rocketflow.process.stderr import with_stderr; "
        f"subprocess.run([sys.executable, '-c', {job!r}], env=with_stderr(os.environ), stderr=subprocess.STDOUT)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", submit], env=environment(), capture_output=True, timeout=60, check=True
    )
    assert (ended.stdout, ended.stderr) == (b"out\n", b"error\n")


def test_export_file_names_are_unique_by_topic_and_never_hidden(tmp_path: Path) -> None:
    """Spark ignores files whose names begin with `_`."""
    topics = ("%DLQ%g", "_DLQ_g", "a%b", "a_b", "_a")
    with MessageStore.open(tmp_path / "s", SIZES) as store:
        for topic in topics:
            store.put_message(Message(topic, topic.encode(), queue_id=0))
    for topic in topics:
        assert run(["store", "export", str(tmp_path / "s"), "--topic", topic, "--to", str(tmp_path / "to")]) == 0
    import pyarrow.dataset

    rows = pyarrow.dataset.dataset(tmp_path / "to").to_table().to_pylist()
    assert sorted((one["topic"], one["body"].decode()) for one in rows) == sorted((one, one) for one in topics)


@pytest.mark.parametrize("words", [[], ["store"], ["quality"]], ids="-".join)
def test_command_without_arguments_shows_its_help(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.lstrip().startswith("Usage: rocketflow")


def test_clean_does_not_create_a_store(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for more in ([], ["--dry-run"]):
        assert run(["store", "clean", str(tmp_path), *more]) == 2
        assert "nothing to delete" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_find_by_offset_names_another_message(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place = filled(tmp_path / "s")[3]
    with MessageStore.open(tmp_path / "s", SIZES) as store:
        message = store.look_message_by_offset(place)
    assert message is not None
    find = ["store", "find", str(tmp_path / "s"), "--json"]
    for right in (["--msg-id", message.msg_id.lower()], ["--physical-offset", str(place), "--topic", "t"]):
        assert run([*find, *right]) == 0
        assert json.loads(capfd.readouterr().out)["physicalOffset"] == place
    of_another_host = "7F000002" + message.msg_id[8:]
    for wrong, why in (
        (["--msg-id", of_another_host], f"has the id {message.msg_id}"),
        (["--physical-offset", str(place), "--topic", "u"], "is of topic t"),
    ):
        assert run([*find, *wrong]) == 1
        out, err = capfd.readouterr()
        assert out == ""
        assert why in err


def test_export_shows_its_progress_on_a_terminal(tmp_path: Path) -> None:
    """It prints on stderr, only if that is a terminal, and counts the messages of all queues."""
    path = tmp_path / "s"
    with MessageStore.open(path, SIZES) as store:
        for number in range(30):
            store.put_message(Message("t", b"x", queue_id=number % 3))
    progress: list[tuple[int, int]] = []
    with StoreReader(path, SIZES) as reader:
        export_topic(reader, "t", tmp_path / "out", lambda done, total: progress.append((done, total)))
    assert progress == [(10, 30), (20, 30), (30, 30)]
    reading, terminal = os.openpty()
    ended = subprocess.run(
        [sys.executable, "-c", COMMAND_LINE, "store", "export", str(path), "--topic", "t", "--to", str(tmp_path)],
        env={**environment(), "TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=terminal,
        timeout=60,
        check=True,
    )
    os.close(terminal)
    shown = os.read(reading, 1 << 16)
    os.close(reading)
    assert b"export" in shown
    assert ended.stdout.startswith(b"30 rows, 3 files in ")
