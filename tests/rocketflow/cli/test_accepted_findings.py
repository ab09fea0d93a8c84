"""`store verify --accept`: with known losses alone the command exits with 0, with new ones not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rocketflow.cli.app import run
from rocketflow_store import Message, MessageStore, StoreConfig
from tests.support.output_fields import check_fields

SIZES = StoreConfig(mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=2000, max_index_num=400)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """Return a store whose fourth message is damaged, and the physical offsets of its messages."""
    path = tmp_path_factory.mktemp("accepted") / "s"
    with MessageStore.open(path, SIZES) as store:
        places = [
            store.put_message(Message("t", b"message %d" % n, keys=f"k{n}", queue_id=0)).physical_offset
            for n in range(8)
        ]
    hurt(path, places[3])
    return path, places


def hurt(path: Path, place: int, data: bytes = b"damaged") -> None:
    with (path / "commitlog" / f"{0:020d}").open("r+b") as opened:
        opened.seek(place + 95)
        opened.write(data)


def verify(capsys: pytest.CaptureFixture[str], path: Path, *more: str) -> tuple[int, dict[str, Any]]:
    code = run(["store", "verify", str(path), *more, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_accepted_losses_end_with_0_and_new_ones_do_not(
    capsys: pytest.CaptureFixture[str], damaged: tuple[Path, list[int]], tmp_path: Path
) -> None:
    path, file = tmp_path / "s", tmp_path / "accepted.jsonl"
    shutil.copytree(damaged[0], path)
    code, printed = verify(capsys, path, "--accept", str(file))
    assert (code, printed["acceptedFindings"], printed["appendedFindings"]) == (3, 0, 1)
    check_fields("store verify --accept", printed)
    (line,) = [json.loads(one) for one in file.read_text().splitlines()]
    assert line.keys() >= {"file", "offset", "length", "digest", "date"}
    assert line["file"] == f"commitlog/{0:020d}"
    written = file.read_bytes()
    for more in ([], ["--repair"], ["--repair"]):
        code, printed = verify(capsys, path, "--accept", str(file), *more)
        assert (code, printed["acceptedFindings"], printed["newFindings"]) == (0, 1, 0)
        assert [one["accepted"] for one in printed["findings"]] == [True]
        assert printed["lostRecords"] == 1
    assert verify(capsys, path)[0] == 3
    hurt(path, damaged[1][6])
    code, printed = verify(capsys, path, "--accept", str(file))
    assert (code, printed["acceptedFindings"], printed["newFindings"]) == (3, 1, 1)
    hurt(path, damaged[1][3], b"again")
    code, printed = verify(capsys, path, "--accept", str(file))
    assert (code, printed["acceptedFindings"], printed["newFindings"]) == (3, 0, 2)
    assert file.read_bytes() == written
    assert verify(capsys, path, "--accept", str(file), "--accept-new")[0] == 3
    assert verify(capsys, path, "--accept", str(file))[0] == 0


def test_new_finding_that_lost_nothing_ends_with_1(
    capsys: pytest.CaptureFixture[str], damaged: tuple[Path, list[int]], tmp_path: Path
) -> None:
    path, file = tmp_path / "s", tmp_path / "accepted.jsonl"
    shutil.copytree(damaged[0], path)
    assert verify(capsys, path, "--accept", str(file))[0] == 3
    shutil.rmtree(path / "index")
    code, printed = verify(capsys, path, "--accept", str(file))
    assert (code, printed["acceptedFindings"], printed["newFindings"]) == (1, 1, 1)
    code, repaired = verify(capsys, path, "--accept", str(file), "--repair")
    assert (code, [one["action"] for one in repaired["repaired"]]) == (0, ["rebuild-index"])
    assert verify(capsys, path, "--accept", str(file), "--repair")[0] == 0


def test_run_on_a_clean_store_accepts_nothing_that_comes_later(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, file = tmp_path / "s", tmp_path / "accepted.jsonl"
    with MessageStore.open(path, SIZES) as store:
        place = store.put_message(Message("t", b"message 1", queue_id=0)).physical_offset
    assert verify(capsys, path, "--accept", str(file))[0] == 0
    hurt(path, place)
    for _ in range(2):
        assert verify(capsys, path, "--accept", str(file))[0] == 3
    file.write_text("")  # as `touch` creates it: no finding was accepted yet
    assert verify(capsys, path, "--accept", str(file))[0] == 3
    assert verify(capsys, path, "--accept", str(file))[0] == 0


def test_moved_store_keeps_what_was_accepted(
    capsys: pytest.CaptureFixture[str], damaged: tuple[Path, list[int]], tmp_path: Path
) -> None:
    path, file = tmp_path / "s", tmp_path / "accepted.jsonl"
    shutil.copytree(damaged[0], path)
    assert verify(capsys, path, "--accept", str(file))[0] == 3
    path.rename(tmp_path / "moved")
    assert verify(capsys, tmp_path / "moved", "--accept", str(file))[0] == 0
    assert run(["store", "verify", str(tmp_path / "moved"), "--accept", str(file)]) == 0
    assert "accepted record" in capsys.readouterr().out


@pytest.mark.parametrize(
    "line", ["not json", "[]", '{"file": "x"}', '{"file": 1, "offset": 0, "length": 0, "digest": ""}']
)
def test_file_of_another_kind_is_refused_with_its_line(
    capsys: pytest.CaptureFixture[str], damaged: tuple[Path, list[int]], tmp_path: Path, line: str
) -> None:
    file = tmp_path / "accepted.jsonl"
    file.write_text(f"\n{line}\n")
    assert run(["store", "verify", str(damaged[0]), "--accept", str(file)]) == 2
    assert f"{file} line 2" in capsys.readouterr().err
    assert run(["store", "verify", str(damaged[0]), "--accept-new"]) == 2
