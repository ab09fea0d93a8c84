"""The part of a log that its index covers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rocketflow.cli.app import run
from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.format.record import RecordFields
from rocketflow_store.model.message_id import encode_host
from rocketflow_store.views.index.index_coverage import IndexCoverage

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 13, mapped_file_size_consume_queue=400, max_hash_slot_num=10, max_index_num=50
)
UNINDEXED = replace(CONFIG, message_index_enable=False)
KEYLESS = RecordFields(
    topic=b"t",
    queue_id=0,
    body=b"no query finds me",
    properties=b"",
    flag=0,
    sys_flag=0,
    born_timestamp=1,
    born_host=encode_host("127.0.0.1:1"),
    store_host=encode_host("127.0.0.1:2"),
)


def put(path: Path, count: int, config: StoreConfig = CONFIG) -> int:
    """Append messages with a key each; return the physical offset of the first."""
    with MessageStore.open(path, config) as store:
        results = store.put_messages([Message("t", b"x" * 50, keys=[f"k{n}"]) for n in range(count)])
        return results[0].physical_offset


def put_keyless(path: Path, count: int) -> None:
    with MessageStore.open(path, CONFIG) as store:
        assert all(store.put_record(KEYLESS).stored for _ in range(count))


def covered(path: Path) -> IndexCoverage:
    with StoreReader(path, CONFIG) as reader:
        assert reader.index_complete == reader.index_coverage().complete
        return reader.index_coverage()


def end_of(path: Path) -> int:
    with StoreReader(path, CONFIG) as reader:
        return reader.max_phy_offset


def index_files(path: Path) -> list[Path]:
    return sorted((path / "index").iterdir())


@pytest.mark.parametrize(
    "name", ["basic-49", "basic-53", "basic-55", "features-55", "expired-53", "features-53", "propcrc-53"]
)
def test_an_index_of_apache_covers_its_log(name: str, golden_store: Callable[..., Path]) -> None:
    with StoreReader(golden_store(name)) as reader:
        assert reader.index_coverage() == IndexCoverage(reader.min_phy_offset, reader.max_phy_offset, complete=True)


def test_a_closed_store_is_covered_over_many_files_and_keyless_records(tmp_path: Path) -> None:
    put_keyless(tmp_path, 3)
    put(tmp_path, 120)
    put_keyless(tmp_path, 90)
    put(tmp_path, 30)
    put_keyless(tmp_path, 90)
    assert len(index_files(tmp_path)) > 3
    assert covered(tmp_path) == IndexCoverage(0, end_of(tmp_path), complete=True)


def test_a_log_without_keys_needs_no_index(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path, CONFIG):
        pass
    assert covered(tmp_path) == IndexCoverage(0, 0, complete=True)
    put_keyless(tmp_path, 3)
    assert covered(tmp_path) == IndexCoverage(0, end_of(tmp_path), complete=True)


def test_messages_put_without_an_index_are_not_covered(tmp_path: Path) -> None:
    put(tmp_path, 30)
    first = put(tmp_path, 5, UNINDEXED)
    assert covered(tmp_path) == IndexCoverage(0, first, complete=False)
    only = tmp_path / "only"
    put(only, 5, UNINDEXED)
    assert covered(only) == IndexCoverage(0, 0, complete=False)


@pytest.mark.parametrize("lost", [0, 1, -1])
def test_a_lost_file_leaves_the_newest_gapless_part(tmp_path: Path, lost: int) -> None:
    put(tmp_path, 74)
    files = index_files(tmp_path)
    with StoreReader(tmp_path, CONFIG) as reader:
        headers = [one.header for one in reader.index.files]
        size = reader.record_size_at(headers[lost + 1].begin_phy_offset)
        assert size is not None
    files[lost].unlink()
    end, found = end_of(tmp_path), covered(tmp_path)
    if lost == -1:
        # a record of two keys over the end of a file of 49 entries is not whole in it
        assert headers[-2].end_phy_offset == headers[-1].begin_phy_offset
        assert found == IndexCoverage(0, headers[-1].begin_phy_offset, complete=False)
    else:
        assert found == IndexCoverage(headers[lost + 1].begin_phy_offset + size, end, complete=False)


def test_an_exactly_full_last_file_covers_the_log(tmp_path: Path) -> None:
    put(tmp_path, 49)
    with StoreReader(tmp_path, CONFIG) as reader:
        assert [one.room for one in reader.index.files] == [0, 0]
    assert covered(tmp_path).complete
    index_files(tmp_path)[-1].unlink()
    assert not covered(tmp_path).complete


def test_nothing_is_covered_after_an_unclean_stop_until_recovery(tmp_path: Path) -> None:
    put(tmp_path, 20)
    (tmp_path / "abort").write_text("1")
    assert covered(tmp_path) == IndexCoverage(0, 0, complete=False)
    with MessageStore.open(tmp_path, CONFIG) as store, StoreReader(tmp_path, CONFIG) as reader:
        assert reader.index_coverage() == IndexCoverage(0, store.max_phy_offset, complete=True)
    assert covered(tmp_path).complete


def test_find_names_the_part_that_the_index_does_not_cover(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, 20)
    command = ["store", "find", str(tmp_path), "--topic", "t", "--key", "k3"]
    assert run([*command, "--json"]) == 0
    assert capsys.readouterr().err == ""
    first = put(tmp_path, 5, UNINDEXED)
    assert run([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().err) == {"indexComplete": False, "indexedFrom": 0, "indexedTo": first}
    assert run(command) == 0
    assert f"only records at physical offsets 0 to {first} of 0 to {end_of(tmp_path)}" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "index")
    assert run(command) == 1
    assert "no record of 0 to" in capsys.readouterr().err
