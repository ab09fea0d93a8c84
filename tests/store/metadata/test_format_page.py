"""FORMAT.md is compared with the code: files, keys, positions, columns, versions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from rocketflow_store import CorruptRecordError, Message, MessageStore, StoreConfig
from rocketflow_store.commits import staged_part
from rocketflow_store.fsck.dump_file import dump_file
from rocketflow_store.metadata.layout.store_layout import StoreLayout
from rocketflow_store.metadata.layout.store_meta import StoreMeta
from rocketflow_store.metadata.layout.store_paths import StorePaths
from rocketflow_store.metadata.native import confirm, owner_file, root_paths
from rocketflow_store.metadata.native.broker_file import BROKER_FILE_VERSION, BrokerFile
from rocketflow_store.metadata.native.checked_json import decode_checked_json
from rocketflow_store.metadata.native.commit_envelope import COMMIT_TOPIC, ENVELOPE_VERSION, CommitEnvelope
from rocketflow_store.metadata.native.healing import begin_healing
from rocketflow_store.metadata.native.store_meta_fields import FORMAT_VERSION, SIZE_KEYS
from rocketflow_store.metadata.native.swap_journal import SwapJournal
from rocketflow_store.metadata.native.timer_stop import TIMER_STOP_VERSION, TimerStop

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = (Path(root_paths.__file__).parent / "FORMAT.md").read_text("utf-8")
NATIVE: Final = Path(root_paths.__file__).parent
NOT_A_FILE: Final = {"__init__", "checked_json", "root_paths", "known_tag_entries", "tag_entries", "commit_envelope"}
"""Modules of `native` that have no file of their own."""


def section(title: str) -> str:
    """Return the part of the page below a heading."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    assert found is not None, title
    return found[1]


def rows(title: str) -> list[list[str]]:
    """Return the rows of the table in a section, without its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def keys(title: str) -> list[str]:
    """Return the first column of a section's table."""
    return [row[0].strip("`") for row in rows(title)]


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store that was stopped in order, with a deleted topic."""
    path = tmp_path_factory.mktemp("format") / "s"
    for topic in ("orders", "deleted-topic"):
        with MessageStore.open(path, StoreConfig(mapped_file_size_commit_log=1 << 16)) as store:
            store.put_message(Message(topic, b"x", tags="a", keys=["k"])).raise_for_status()
    with MessageStore.open(path, StoreConfig(mapped_file_size_commit_log=1 << 16)) as store:
        store.delete_topic("deleted-topic")
    return path


def test_every_file_is_on_the_page(used: Path) -> None:
    store = MessageStore.open(used, StoreConfig(mapped_file_size_commit_log=1 << 16))
    try:
        store.put_message(Message("orders", b"y")).raise_for_status()
        store.flush()
        there = [one.relative_to(used).as_posix() for one in (used / "rocketflow").rglob("*") if one.is_file()]
    finally:
        store.close()
    known = [re.escape(name).replace(r"\*", ".*") for row in rows("Files") for name in re.findall(r"`([^`]+)`", row[0])]
    known = [re.sub("SINK|BATCH|NAME", "[^/]+", one) for one in known]
    assert [one for one in there if not any(re.fullmatch(pattern, one) for pattern in known)] == []
    assert {"rocketflow/store.meta", "rocketflow/confirm", "rocketflow/stop", "rocketflow/deleted"} <= set(there)


def test_every_module_of_a_file_is_on_the_page() -> None:
    modules = {one.stem for one in NATIVE.glob("*.py")} - NOT_A_FILE
    named = {name for row in rows("Files") for name in re.findall(r"`(\w+)`", row[1])}
    assert modules - named == set()


def test_keys_of_store_meta(tmp_path: Path) -> None:
    layout = StoreLayout(("/disk1/log",), (), "queues", "idx")
    meta = StoreMeta("0" * 32, FORMAT_VERSION, dict.fromkeys(SIZE_KEYS, 1), profile="5.3")
    written = json.loads(meta.encode(StorePaths(tmp_path, layout)))
    assert keys("`rocketflow/store.meta`") == list(written)
    assert f"`formatVersion` in `store.meta` is {FORMAT_VERSION}." in PAGE


def test_positions_of_confirm_fields(used: Path) -> None:
    documented = {row[2]: (int(row[0]), int(row[1])) for row in rows("`rocketflow/confirm`")}
    assert documented.pop("magic") == (0, 8)
    assert confirm.MAGIC.decode() in section("`rocketflow/confirm`")
    assert max(at + size for at, size in documented.values()) == confirm.CONFIRM_SIZE
    for number, (name, (at, size)) in enumerate(documented.items(), 1):
        fields = [0] * len(documented)
        fields[number - 1] = 1
        raw = bytearray(confirm.LAYOUT.pack(confirm.MAGIC, *fields))
        assert raw[at : at + size] == (1).to_bytes(8, "little"), name
        found = confirm.decode_confirm(bytes(raw))
        assert found is not None
        assert getattr(found, name) in (1, True) or getattr(found, name) == 0, name  # one more than the offset


def test_dump_shows_every_file(used: Path) -> None:
    with MessageStore.open(used, StoreConfig(mapped_file_size_commit_log=1 << 16)) as store:
        end = store.max_phy_offset
        (confirmed,) = dump_file(used / "rocketflow/confirm")
        assert (confirmed["kind"], confirmed["confirmOffset"], confirmed["syncFlush"]) == ("confirm", end, False)
    (stopped,) = dump_file(used / "rocketflow/stop")
    assert stopped["kind"] == "stop"
    assert stopped["content"]["endPhyOffset"] == end
    for name in ("deleted", "deleted.bak"):
        (deleted,) = dump_file(used / "rocketflow" / name)
        assert (deleted["kind"], list(deleted["content"])) == ("deleted", ["deleted-topic"])
    (meta,) = dump_file(used / "rocketflow/store.meta")
    assert meta["content"]["formatVersion"] == FORMAT_VERSION
    path = used.parent / "rocketflow/timer"
    path.parent.mkdir()
    path.write_bytes(TimerStop(*range(11)).encode())
    (timer,) = dump_file(path)
    assert timer["content"]["check_crc"] == 10
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptRecordError, match="the CRC of its"):
        list(dump_file(path))


def checked(path: Path) -> dict[str, object]:
    return decode_checked_json(path.read_bytes())


def test_keys_of_stop_and_deleted(used: Path) -> None:
    assert keys("`rocketflow/stop`") == list(checked(used / "rocketflow/stop"))
    deleted = checked(used / "rocketflow/deleted")
    assert list(deleted) == ["deleted-topic"]
    assert keys("`rocketflow/deleted`") == list(deleted["deleted-topic"])  # type: ignore[call-overload]


def test_keys_of_healing(tmp_path: Path) -> None:
    begin_healing(root_paths.RootPaths(tmp_path), [("orders", 0)], [("batch", 1)])
    assert json.loads((tmp_path / "rocketflow/healing").read_bytes()) == [["orders", 0], ["batch", 1, "batch"]]
    assert '`[topic, id]`, with a third element `"batch"`' in " ".join(section("`rocketflow/healing`").split())


def test_keys_of_ends(used: Path) -> None:
    with MessageStore.open(used, StoreConfig(mapped_file_size_commit_log=1 << 16)) as store:
        store.put_message(Message("orders", b"z")).raise_for_status()
        store.flush()
        assert keys("`rocketflow/ends`") == list(checked(used / "rocketflow/ends"))


def encoded() -> Iterator[tuple[str, list[str]]]:
    stop = TimerStop(*range(len(TimerStop.__dataclass_fields__)))
    yield "`rocketflow/timer`", list(decode_checked_json(stop.encode()))
    yield "`rocketflow/broker`", list(decode_checked_json(BrokerFile("127.0.0.1:1", 1, "0", secret="s").encode()))
    yield "`rocketflow/rebuild/swap`", list(decode_checked_json(SwapJournal((), (), False).encode()))
    envelope = CommitEnvelope("s", 0, "r", 0, 0, "", progress={"a": 1})
    yield "Envelopes", list(json.loads(envelope.encode()))
    yield "Staged parts", staged_part.LMQ_SCHEMA.names


@pytest.mark.parametrize(("title", "names"), list(encoded()), ids=lambda one: one if isinstance(one, str) else "")
def test_keys_of_encoded_files(title: str, names: list[str]) -> None:
    documented = keys(title)
    assert sorted(documented) == sorted(names)


def test_types_of_staged_columns() -> None:
    documented = {row[0].strip("`"): row[1] for row in rows("Staged parts")}
    assert documented == {field.name: str(field.type) for field in staged_part.LMQ_SCHEMA}


def test_versions_and_names() -> None:
    assert rows("`rocketflow/timer`")[0] == ["`version`", "number", str(TIMER_STOP_VERSION)]
    assert rows("`rocketflow/broker`")[0] == ["`version`", "number", str(BROKER_FILE_VERSION)]
    assert rows("Envelopes")[0] == ["`version`", "number", str(ENVELOPE_VERSION)]
    assert f"`{COMMIT_TOPIC}`" in section("Envelopes")
    assert f"`NAME.rocketflow/{owner_file.OWNER_FILE}`" in section("Files")
