"""The command line on stores that Apache wrote and on bad input: fields, exit codes, one line of error."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketflow.cli.app import run
from rocketflow_store import Message, MessageStore, StoreReader
from tests.support.golden import GOLDEN
from tests.support.output_fields import check_fields
from tests.support.trials import LEVEL, environment

CLOSED = ("basic-49", "basic-53", "basic-55", "features-55", "expired-53", "features-53", "propcrc-53")


def call(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> list[Any]:
    """Run a command; return its stdout as JSON values, one a line."""
    got = run([str(one) for one in arguments])
    out, err = capsys.readouterr()
    assert got == code, (out, err)
    assert "Traceback" not in out + err
    return [json.loads(line) for line in out.splitlines() if line.startswith(("{", "["))]


def failure(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = run([str(one) for one in arguments])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    assert err.startswith("error: "), err
    return code, err


def test_append_takes_a_file_and_prints_one_line_on_a_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = tmp_path / "lines"
    lines.write_text('{"body": "a"}\n{\n{"body": "b"}\n')
    to = ("store", "append", tmp_path / "s", "--topic", "t", "--create")
    rows = call(capsys, *to, lines, code=1)
    assert [one["status"] for one in rows] == ["PUT_OK", "MESSAGE_ILLEGAL", "PUT_OK"]
    assert failure(capsys, *to, lines, "--input", lines) == (
        2,
        f"error: Invalid value: {lines} and --input {lines}: give one of them\n",
    )
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run([*map(str, to), str(lines)]) == 1
    assert capsys.readouterr().out == "t: 2 messages stored, 1 not\n"
    assert len(call(capsys, *to, lines, "--json", code=1)) == 3


def test_interrupt_is_no_error_of_a_command_that_follows(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s") as opened:
        opened.put_message(Message("t", b"x"))
    words = ["store", "cat", str(tmp_path / "s"), "--topic", "t", "--json", "--follow"]
    with subprocess.Popen(
        [sys.executable, "-m", "rocketflow", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(PYTHONUNBUFFERED="1"),
    ) as following:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["body"] == "x"
        following.send_signal(signal.SIGINT)
        out, err = following.communicate(timeout=60)
    assert (following.returncode, out, err) == (130, "", "")


@pytest.mark.parametrize("name", CLOSED if LEVEL != "sample" else CLOSED[1:5:2])
def test_cat_shows_every_message_as_apache_reads_it(
    capsys: pytest.CaptureFixture[str], golden_store: Callable[..., Path], name: str
) -> None:
    path = golden_store(name)
    lines = [json.loads(line) for line in (GOLDEN / name / "messages.jsonl").read_text().splitlines()]
    for topic in sorted({one["topic"] for one in lines}):
        rows = call(capsys, "store", "cat", path, "--topic", topic, "--json", "--body", "sha256")
        wanted = {(one["queueId"], one["queueOffset"]): one for one in lines if one["topic"] == topic}
        assert len(rows) == len(wanted)
        for row in rows:
            message = wanted[row["queueId"], row["queueOffset"]]
            for field in (
                *("topic", "physicalOffset", "storeSize", "msgId", "uniqKey", "tags", "keys", "flag", "sysFlag"),
                *("bornTimestamp", "storeTimestamp", "bornHost", "storeHost", "reconsumeTimes", "bodyCRC"),
                *("preparedTransactionOffset", "properties"),
            ):
                assert row[field] == message.get(field), field
            assert row["body"] == message["bodySha256"]
            assert row["bodySize"] == message["storedBodyLength"]


@pytest.mark.parametrize("name", CLOSED if LEVEL != "sample" else CLOSED[::3])
def test_info_offset_find_and_verify_agree_with_apache(
    capsys: pytest.CaptureFixture[str], golden_store: Callable[..., Path], name: str
) -> None:
    path = golden_store(name)
    queries = json.loads((GOLDEN / name / "queries.json").read_text())
    (info,) = call(capsys, "store", "info", path, "--json")
    assert info["state"] == "clean"
    assert info["commitLog"]["minOffset"] == queries["commitlog"]["minPhyOffset"]
    assert info["commitLog"]["maxOffset"] == queries["commitlog"]["maxPhyOffset"]
    found = {(t["topic"], q["queueId"]): (q["minOffset"], q["maxOffset"]) for t in info["topics"] for q in t["queues"]}
    wanted = {(q["topic"], q["queueId"]): (q["minOffset"], q["maxOffset"]) for q in queries["queues"]}
    assert found == {key: value for key, value in wanted.items() if value != (0, 0)}
    for asked in [one for one in queries["offsetByTime"] if (one["topic"], one["queueId"]) in found][
        : 30 : 6 if LEVEL == "sample" else 2
    ]:
        (got,) = call(
            capsys,
            *("store", "offset", path, "--topic", asked["topic"], "--queue", asked["queueId"], "--json"),
            *("--timestamp", asked["timestamp"], "--boundary", asked["boundary"].lower()),
        )
        assert got == {"offset": asked["offset"]}
    for asked in [one for one in queries["index"] if one["offsets"]][: 3 if LEVEL == "sample" else 8]:
        rows = call(
            capsys,
            *("store", "find", path, "--topic", asked["topic"], "--key", asked["key"], "--max", asked["max"]),
            *("--begin", asked["begin"], "--end", asked["end"], "--json"),
        )
        assert [row["physicalOffset"] for row in rows] == asked["offsets"]
        (row,) = call(capsys, "store", "find", path, "--msg-id", rows[0]["msgId"], "--json")
        assert row == rows[0]
        (row,) = call(capsys, "store", "find", path, "--physical-offset", rows[0]["physicalOffset"], "--json")
        assert row == rows[0]
    (verified,) = call(capsys, "store", "verify", path, "--json")
    assert verified["findings"] == []
    assert verified["lostRecords"] == 0


def test_append_stores_valid_lines_and_cat_prints_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text(
        '{"body": "one", "tags": "a", "keys": ["k"], "properties": {"p": "ü"}}\n'
        '{"body": null}\nnot json\n{"bodyBase64": "AAE=", "queueId": 3}\n{"body": "x", "colour": 1}\n'
    )
    rows = call(capsys, "store", "append", tmp_path / "s", "--topic", "t", "--input", lines, "--create", code=1)
    assert [row["status"] for row in rows] == [
        "PUT_OK",
        "MESSAGE_ILLEGAL",
        "MESSAGE_ILLEGAL",
        "PUT_OK",
        "MESSAGE_ILLEGAL",
    ]
    assert [row.get("line") for row in rows] == [None, 2, 3, None, 5]
    shown = call(capsys, "store", "cat", tmp_path / "s", "--topic", "t", "--json", "--body", "base64")
    assert sorted(row["body"] for row in shown) == ["AAE=", "b25l"]
    assert call(capsys, "store", "cat", tmp_path / "s", "--topic", "t", "--json", "--tags", "zzz") == []


def test_cat_continues_after_a_body_that_does_not_decompress(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with MessageStore.open(tmp_path / "s") as store:
        for body, sys_flag in ((b"first", 0), (b"garbage", 1), (b"last", 0)):
            store.put_message(Message("t", body, queue_id=0, sys_flag=sys_flag))
    assert run(["store", "cat", str(tmp_path / "s"), "--topic", "t", "--json"]) == 3
    printed = capsys.readouterr()
    lines = [json.loads(line) for line in printed.out.splitlines()]
    assert [line["body"] for line in lines] == ["first", None, "last"]
    assert "does not decompress as zlib" in lines[1]["bodyError"]
    assert "error: queue 0, offset 1: body: does not decompress" in printed.err
    assert "1 messages could not be read" in printed.err


def test_recover_does_what_its_dry_run_prints(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "s"
    child = os.fork()
    if child == 0:
        MessageStore.open(path).put_messages([Message("t", b"x") for _ in range(10)])
        os._exit(9)
    os.waitpid(child, 0)
    (preview,) = call(capsys, "store", "recover", path, "--dry-run", "--json")
    (info,) = call(capsys, "store", "info", path, "--json")
    assert info["state"] == "unclean"
    (done,) = call(capsys, "store", "recover", path, "--json")
    for field in ("abortFound", "truncatedFrom", "truncatedTo", "quarantined", "dispatched"):
        assert preview[field] == done[field], field
    (info,) = call(capsys, "store", "info", path, "--json")
    assert info["state"] == "clean"


def test_export_and_dump_read_files_of_apache(
    capsys: pytest.CaptureFixture[str], golden_store: Callable[..., Path], tmp_path: Path
) -> None:
    import pyarrow.parquet

    path = golden_store("basic-53")
    (result,) = call(capsys, "store", "export", path, "--topic", "orders", "--to", tmp_path, "--json")
    check_fields("store export", result)
    table = pyarrow.parquet.read_table(tmp_path)
    assert table.num_rows == result["rows"] == 1981
    features = golden_store("features-53")
    for file, kind in (
        ("checkpoint", "checkpoint"),
        ("config/consumerOffset.json", "json"),
        ("config/timercheck", "timercheck"),
        ("timerwheel", "slot"),
        (f"timerlog/{0:020d}", "timer"),
        (f"commitlog/{0:020d}", "record"),
        (f"consumequeue/f-normal/0/{0:020d}", "unit"),
    ):
        items = call(capsys, "store", "dump", features / file)
        assert items, file
        assert items[0]["kind"] == kind


def test_bad_input_is_one_line_and_an_exit_code(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, empty, other = tmp_path / "file", tmp_path / "empty", tmp_path / "other"
    file.write_text("x")
    empty.mkdir()
    other.mkdir()
    (other / "x.txt").write_text("x")
    assert failure(capsys, "store", "info", tmp_path / "missing")[0] == 2
    assert failure(capsys, "store", "info", file)[0] == 2
    assert failure(capsys, "store", "info", other)[0] == 2
    assert call(capsys, "store", "info", empty, "--json")[0]["topics"] == []
    assert run(["store", "info", str(empty)]) == 0
    assert "no topics" in capsys.readouterr().out
    assert failure(capsys, "store", "cat", empty, "--topic", "t")[0] == 2
    assert failure(capsys, "store", "find", empty)[0] == 2
    assert failure(capsys, "store", "dump", file)[0] == 2
    assert failure(capsys, "store", "cat", empty)[0] == 2
    assert failure(capsys, "no-such-command")[0] == 2
    for topic in ("../x", "x" * 128, "SCHEDULE_TOPIC_XXXX"):
        code, said = failure(capsys, "store", "append", tmp_path / "new", "--topic", topic, "--input", file)
        assert (code, topic[:60] in said, (tmp_path / "new").exists()) == (2, True, False)
    code, said = failure(capsys, "submit", "no-such-job")
    assert (code, "stream" in said) == (2, True)
    with MessageStore.open(tmp_path / "s"):
        code, said = failure(capsys, "store", "append", tmp_path / "s", "--topic", "t", "--input", file)
        assert code == 75
        assert str(os.getpid()) in said


def test_verify_finds_a_flipped_byte_and_names_its_offset(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path) as store:
        results = store.put_messages([Message("t", b"y" * 50, keys=["k"], queue_id=0) for _ in range(9)])
    log = path / "commitlog" / f"{0:020d}"
    place = results[4].physical_offset
    with log.open("r+b") as opened:
        opened.seek(place + 100)
        opened.write(b"Z")
    (found,) = call(capsys, "store", "verify", path, "--json", code=3)
    assert found["lostRecords"] == 1
    assert found["records"] == 8
    first = found["findings"][0]
    assert (first["kind"], first["file"], first["offset"]) == ("record", str(log), place)
    with log.open("r+b") as opened:
        opened.seek(place + 100)
        opened.write(b"y")
    with MessageStore.open(path):
        code, said = failure(capsys, "store", "verify", path, "--repair")
        assert (code, str(os.getpid()) in said) == (75, True)
    queue = path / "consumequeue" / "t" / "0" / f"{0:020d}"
    with queue.open("r+b") as opened:
        opened.seek(3 * 20 + 7)
        opened.write(b"\x7f")
    (found,) = call(capsys, "store", "verify", path, "--json", code=1)
    assert {(one["kind"], one["offset"]) for one in found["findings"]} >= {("wrong-unit", 60)}
    (repaired,) = call(capsys, "store", "verify", path, "--repair", "--json")
    check_fields("store verify --repair", repaired)
    assert (repaired["findings"], repaired["lostRecords"]) == ([], 0)
    assert [one["action"] for one in repaired["repaired"]] == ["rebuild-queue"]
    (repaired,) = call(capsys, "store", "verify", path, "--repair", "--json")
    assert repaired["repaired"] == []


def test_rebuild_makes_the_files_of_apache(
    capsys: pytest.CaptureFixture[str], golden_store: Callable[..., Path], tmp_path: Path
) -> None:
    path, golden = tmp_path / "s", golden_store("basic-53")
    shutil.copytree(golden, path)
    shutil.rmtree(path / "consumequeue")
    shutil.rmtree(path / "index")
    conf = ("--config", GOLDEN / "basic-53" / "broker.properties")
    (dry,) = call(capsys, "store", "rebuild", path, "--dry-run", "--json", *conf)
    assert not (path / "consumequeue").exists()
    (done,) = call(capsys, "store", "rebuild", path, "--json", *conf)
    for name in ("records", "bytes", "units", "indexEntries", "files"):
        assert dry[name] == done[name] > 0, name
    assert (dry["swapped"], done["swapped"]) == (False, True)
    assert done["mbPerSecond"] > 0
    for one in (golden / "consumequeue").rglob("0*"):
        assert one.is_dir() or (path / one.relative_to(golden)).read_bytes() == one.read_bytes()
    (again,) = call(capsys, "store", "rebuild", path, "--json")
    assert not again["swapped"]
    with MessageStore.open(path):
        code, said = failure(capsys, "store", "rebuild", path)
        assert (code, str(os.getpid()) in said) == (75, True)
    for wrong in (("--only", "checkpoint"), ("--queue", 1), ("--only", "index", "--topic", "t")):
        assert run(["store", "rebuild", str(path), *map(str, wrong)]) == 2
        capsys.readouterr()


@pytest.mark.slow
def test_command_runs_as_a_process_without_heavy_imports() -> None:
    """Users start the console script's function, not `python -m`."""
    command = [sys.executable, "-c", "from rocketflow.cli import main; main()"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for arguments, code in ((["version", "--json"], 0), (["doctor", "--json"], 0), (["--help"], 0), (["store"], 2)):
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, env=environment, timeout=60, check=False
        )
        assert done.returncode in (code, 0), (arguments, done.stderr)
        assert "Traceback" not in done.stderr
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, rocketflow.cli.app; print(*sys.modules)"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=True,
    ).stdout.split()
    assert not {"pyspark", "pandas", "pyarrow", "great_expectations"} & set(loaded)


def test_export_replaces_files_only_with_force(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s") as store:
        store.put_messages([Message("t", b"x", queue_id=n) for n in range(2)])
    words = "store", "export", tmp_path / "s", "--topic", "t", "--to", tmp_path / "out"
    (first,) = call(capsys, *words, "--json")
    Path(first["files"][0]).unlink()
    kept = Path(first["files"][1])
    kept.write_bytes(b"mine")
    code, said = failure(capsys, *words)
    assert code == 2
    assert "--force" in said
    assert str(kept) in said
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == [kept.name]
    assert kept.read_bytes() == b"mine"
    assert call(capsys, *words, "--force", "--json") == [first]
    assert kept.read_bytes() != b"mine"


@pytest.mark.parametrize("name", ["expired-53"])
def test_backup_of_a_store_of_apaches_shows_the_same_messages(
    capsys: pytest.CaptureFixture[str], golden_store: Callable[..., Path], tmp_path: Path, name: str
) -> None:
    path, target = golden_store(name), tmp_path / "backup"
    (printed,) = call(capsys, "store", "backup", path, target, "--workers", 1, "--json")
    check_fields("store backup", printed)
    assert printed["broker"] is None
    with StoreReader(path) as reader, StoreReader(target) as copy:
        assert copy.snapshot() == reader.snapshot()
        assert copy.profile == reader.profile
        assert copy.listed_topics() == reader.listed_topics()
        topics = copy.topics()
    for topic in topics:
        lines = ("--topic", topic, "--body", "sha256", "--json")
        assert call(capsys, "store", "cat", target, *lines) == call(capsys, "store", "cat", path, *lines)
    call(capsys, "store", "verify", target, "--json")
    code, said = failure(capsys, "store", "backup", path, target)
    assert (code, f"{target} exists" in said) == (2, True)
    assert failure(capsys, "store", "backup", tmp_path / "none", target)[0] == 2


def test_restore_creates_a_store_and_puts_a_damaged_record_back(
    capsys: pytest.CaptureFixture[str], golden_store: Callable[..., Path], tmp_path: Path
) -> None:
    path, target, store = golden_store("basic-53"), tmp_path / "backup", tmp_path / "s"
    call(capsys, "store", "backup", path, target, "--workers", 1, "--json")
    restore = "store", "restore", target, store, "--workers", 1, "--json"
    (printed,) = call(capsys, *restore, "--dry-run")
    assert (printed["created"], printed["dryRun"], store.exists()) == (True, True, False)
    (printed,) = call(capsys, *restore)
    (verified,) = call(capsys, "store", "verify", store, "--json")
    assert verified["records"] == printed["records"]
    (again,) = call(capsys, *restore)
    assert (again["created"], again["putBack"], again["records"]) == (False, [], 0)
    log = min((store / "commitlog").iterdir())
    whole = log.read_bytes()
    log.write_bytes(whole[:90] + bytes([whole[90] ^ 1]) + whole[91:])
    (dry,) = call(capsys, *restore, "--dry-run")
    assert log.read_bytes() != whole
    (put,) = call(capsys, *restore)
    check_fields("store restore", printed, put)
    assert (put["putBack"], put["findings"], put["records"]) == (dry["putBack"], [], 1)
    assert log.read_bytes() == whole
    target.rename(tmp_path / "backup.partial")
    assert "incomplete" in failure(capsys, "store", "restore", tmp_path / "backup.partial", tmp_path / "t")[1]
    assert failure(capsys, "store", "restore", tmp_path / "none", tmp_path / "t")[0] == 2
    assert failure(capsys, "store", "restore", path, tmp_path)[0] == 2


def test_backup_beside_a_writer_without_a_broker_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s") as store:
        assert store.put_message(Message("t", b"x")).stored
        assert run(["store", "backup", str(tmp_path / "s"), str(tmp_path / "b"), "--workers", "1"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"1 records in {tmp_path / 'b'}, ")
    holder = f"this process (pid {os.getpid()})"
    assert err == f"note: {tmp_path / 's'} is held by {holder}; what it has only in memory is not copied\n"
