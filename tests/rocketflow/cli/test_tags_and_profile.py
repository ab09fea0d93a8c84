"""Queries by TAGS, profiles and settings without effect, on the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rocketflow.cli.app import run
from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.views.index import tag_stretches

SIZES = StoreConfig(
    mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=20_000, max_hash_slot_num=100, max_index_num=400
)
PART = 60
TAGS = ("red", "blue", "", "büro")


def as_if_upgraded(path: Path) -> None:
    """Have the next writer write the derived files of the other profile, as another RocketMQ version does."""
    file = path / "rocketflow" / "store.meta"
    meta = json.loads(file.read_text())
    file.write_text(json.dumps({**meta, "derivedProfile": {"5.3": "5.5", "5.5": "5.3"}[meta["derivedProfile"]]}))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with messages without index entries for TAGS, then as many with them."""
    path = tmp_path_factory.mktemp("tags") / "s"
    for part in range(2):
        with MessageStore.open(path, replace(SIZES, profile="" if part else "5.3")) as opened:
            for number in range(part * PART, (part + 1) * PART):
                assert opened.put_message(Message("t", b"%d" % number, tags=TAGS[number % 4], queue_id=0)).stored
        if not part:
            as_if_upgraded(path)
    return path


def call(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> tuple[str, str]:
    got = run([str(one) for one in arguments])
    printed = capsys.readouterr()
    assert got == code, printed
    assert "Traceback" not in printed.out + printed.err
    return printed.out, printed.err


@pytest.mark.parametrize(
    ("expression", "tags"),
    [("red", ["red"]), ("red || büro", ["red", "büro"]), (" blue||none ", ["blue"]), ("büro", ["büro"])],
)
def test_find_by_tags_prints_the_newest_messages(
    capsys: pytest.CaptureFixture[str], store: Path, expression: str, tags: list[str]
) -> None:
    wanted = [number for number in range(2 * PART) if TAGS[number % 4] in tags]
    for most in (5, 1000):  # the newest are in the index, the others in the queues alone
        asked = ("store", "find", store, "--topic", "t", "--tags", expression, "--max", most)
        out, err = call(capsys, *asked, "--json")
        rows = [json.loads(line) for line in out.splitlines()]
        assert [(row["body"], row["tags"]) for row in rows] == [(str(n), TAGS[n % 4]) for n in wanted[-most:]]
        assert err == ""
        out, err = call(capsys, *asked)
        shown = out.splitlines()[1:]  # after the names of the columns
        assert len(shown) == len(rows)
        assert all(line.split()[-1] == row["body"] for row, line in zip(rows, shown, strict=True))
        assert err == ""


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("--topic", "t", "--tags", "green"), 1, "no such message"),
        (("--topic", "t", "--tags", "red|blue"), 1, "no such message"),
        (("--tags", "red"), 2, "--tags needs --topic"),
        (("--topic", "t", "--tags", "red", "--key", "k"), 2, "give one of --key or --tags"),
        (("--topic", "t", "--tags", "*"), 2, "names no tag"),
        (("--topic", "t", "--tags", ""), 2, "names no tag"),
    ],
)
def test_find_by_tags_that_match_nothing_is_an_error_with_its_code(
    capsys: pytest.CaptureFixture[str], store: Path, arguments: tuple[str, ...], code: int, error: str
) -> None:
    out, err = call(capsys, "store", "find", store, *arguments, code=code)
    assert len(out.splitlines()) <= 1
    assert error in err


def info(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    out, _ = call(capsys, "store", "info", *arguments, "--json")
    found: dict[str, Any] = json.loads(out)
    return found


def test_info_shows_profile_and_stretches(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    found = info(capsys, store)
    first, second = found["index"]["tagStretches"]
    assert (found["profile"], found["index"]["tagStretchesExact"]) == ("5.5", True)
    assert (first["beginOffset"], first["tagEntries"], second["tagEntries"]) == (0, False, True)
    assert first["endOffset"] == second["beginOffset"]
    assert second["endOffset"] == found["commitLog"]["maxOffset"]
    out, _ = call(capsys, "store", "info", store)
    assert "profile    5.5 (derived files as RocketMQ 5.5 writes them)" in out
    assert f"[0, {first['endOffset']})  without index entries for TAGS" in out
    assert f"[{second['beginOffset']}, {second['endOffset']})  with index entries for TAGS" in out


def test_info_names_keys_without_effect(capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=b\nenableAcceleratedRecovery=true\nsendMessageThreadPoolNums=4\nfileReservedTime=48\n")
    assert info(capsys, store, "--config", conf)["settings"] == {
        "file": str(conf),
        "withoutEffect": ["enableAcceleratedRecovery", "sendMessageThreadPoolNums"],
    }
    out, _ = call(capsys, "store", "info", store, "--config", conf)
    assert "setting    sendMessageThreadPoolNums has no effect in RocketFlow" in out
    assert "fileReservedTime" not in out
    assert "settings" not in info(capsys, store)
    conf.write_text("fileReservedTime=48\n")
    assert info(capsys, store, "--config", conf)["settings"]["withoutEffect"] == []
    conf.write_text("fileReservedTme=48\n")
    _, err = call(capsys, "store", "info", store, "--config", conf, code=2)
    assert "fileReservedTime" in err


def test_info_finds_the_stretches_of_a_large_index_by_samples(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s"
    config = replace(SIZES, mapped_file_size_commit_log=1 << 26, max_hash_slot_num=50_000, max_index_num=200_000)
    for part, count in enumerate((48_000, 25_000, 48_000)):
        with MessageStore.open(path, replace(config, profile="" if part else "5.3")) as opened:
            rows = {"body": [b"r"] * count, "tags": ["a"] * count, "keys": [f"{part}-{n}" for n in range(count)]}
            opened.append_batch(pa.RecordBatch.from_pydict(rows), "rows")
        as_if_upgraded(path)
    found = info(capsys, path)
    assert found["index"]["entries"] > tag_stretches.ALL_ENTRIES
    assert not found["index"]["tagStretchesExact"]
    assert [one["tagEntries"] for one in found["index"]["tagStretches"]] == [False, True, False]
    out, _ = call(capsys, "store", "info", path)
    assert out.count("(found by samples)") == 3
    monkeypatch.setattr(tag_stretches, "ALL_ENTRIES", 1 << 30)
    exact = info(capsys, path)["index"]
    assert exact["tagStretchesExact"]
    assert exact["tagStretches"] == found["index"]["tagStretches"]
