"""Bad input: every file of a store missing, empty, cut, noise, a directory, unreadable, another store's; and row S14.

`EXPECTED` is the promise, and the table in this folder's README: HEAL opens and serves everything, REFUSE changes
nothing and names the file. In no case does an open delete a data file, and no command shows a traceback.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketflow.cli.app import run
from rocketflow_store import MessageStore, StoreReader
from rocketflow_store.metadata.config_files import ConfigFiles
from rocketflow_store.model.errors import StoreError, StoreVersionError
from tests.reliability.images import (
    ENDS,
    IMAGE_CONFIG,
    LOG_FILE,
    Images,
    findings_of,
    fresh,
    judged,
    make_images,
    served_of,
    touching,
    used,
)
from tests.support.damage import Planted, make
from tests.support.privileges import open_directory, unprivileged
from tests.support.results import Tally
from tests.support.trials import SEED, sampled

pytestmark = pytest.mark.slow

DAMAGE = ["deleted", "emptied", "cut", "noise", "directory", "unreadable", "other store's"]
FILES = {
    "log, in the middle": ("closed", "commitlog/00000000000000016384"),
    "log, the last": ("closed", "commitlog/00000000000000049152"),
    "queue": ("closed", "consumequeue/orders/0/00000000000000000000"),
    "queue directory": ("closed", "consumequeue/orders/0"),
    "index": ("closed", "index/0"),
    "checkpoint": ("closed", "checkpoint"),
    "lock": ("closed", "lock"),
    "topics.json": ("closed", "config/topics.json"),
    "consumerOffset.json": ("closed", "config/consumerOffset.json"),
    "store.meta": ("closed", "rocketflow/store.meta"),
    "stop": ("closed", "rocketflow/stop"),
    "confirm": ("killed", "rocketflow/confirm"),
    "abort": ("killed", "abort"),
}
HEAL, REFUSE, QUAR, CUT, KEEP = "HEAL", "REFUSE", "QUAR", "CUT", "KEEP"
EXPECTED = {  # in the order of DAMAGE
    "log, in the middle": [REFUSE, REFUSE, REFUSE, QUAR, REFUSE, REFUSE, REFUSE],
    "log, the last": [CUT, CUT, REFUSE, QUAR, REFUSE, REFUSE, REFUSE],
    "queue": [HEAL, HEAL, HEAL, HEAL, HEAL, REFUSE, HEAL],
    "queue directory": [HEAL, HEAL, HEAL, HEAL, HEAL, REFUSE, HEAL],
    "index": [HEAL, HEAL, HEAL, HEAL, HEAL, REFUSE, HEAL],
    "checkpoint": [HEAL, HEAL, HEAL, HEAL, HEAL, REFUSE, HEAL],
    "lock": [HEAL, HEAL, HEAL, HEAL, REFUSE, REFUSE, HEAL],
    "topics.json": [HEAL, HEAL, HEAL, HEAL, REFUSE, REFUSE, KEEP],
    "consumerOffset.json": [HEAL, HEAL, HEAL, HEAL, KEEP, KEEP, KEEP],
    "store.meta": [HEAL, REFUSE, REFUSE, REFUSE, REFUSE, REFUSE, KEEP],
    "stop": [HEAL, HEAL, HEAL, HEAL, HEAL, HEAL, HEAL],
    "confirm": [HEAL, HEAL, HEAL, HEAL, HEAL, HEAL, HEAL],
    "abort": [HEAL, HEAL, HEAL, HEAL, REFUSE, HEAL, HEAL],
}
DATA = ("commitlog", "consumequeue")
"""Not the index: recovery drops the files that begin after its start, and rebuilds them."""


CASES = [(name, damage) for name in FILES for damage in DAMAGE]


@pytest.fixture(scope="module")
def images() -> Iterator[Images]:
    with open_directory() as room:
        made, other = make_images(room), room / "other"
        make(other)
        for command in (["append", "--topic", "orders", "--input", os.devnull], ["verify"]):
            run(
                ["store", command[0], str(other), *command[1:]]
            )  # imports modules that the unprivileged user cannot read
        yield made


def hurt(path: Path, damage: str, other: Path, rng: random.Random) -> None:
    """Damage a file; a directory is replaced by a file first."""
    raw = path.read_bytes() if path.is_file() else b""
    if damage == "unreadable":
        path.chmod(0)
        return
    if path.is_dir():
        shutil.rmtree(path)
        path.write_bytes(b"")
    match damage:
        case "deleted":
            path.unlink()
        case "emptied":
            path.write_bytes(b"")
        case "cut":
            path.write_bytes(raw[: len(raw) // 2])
        case "noise":
            path.write_bytes(rng.randbytes(max(len(raw), 100)))
        case "directory":
            path.unlink()
            path.mkdir()
        case "unreadable":
            path.chmod(0)
        case "other store's":
            path.write_bytes(other.read_bytes() if other.is_file() else b"?")


def give_to_unprivileged_user(root: Path) -> None:
    """Make the unprivileged user the owner of a store."""
    for one in [root, *root.rglob("*")]:
        os.chown(one, 65_534, 65_534)


@pytest.mark.parametrize(("name", "damage"), sampled(CASES, 3))
def test_every_file(
    images: Images, name: str, damage: str, capsys: pytest.CaptureFixture[str], tally: Callable[..., Tally]
) -> None:
    stop, where = FILES[name]
    planted = fresh(images.take(stop))
    path = planted.path / where
    if name == "index":
        path = min((planted.path / "index").iterdir())
    other = images.room / "other"
    others_file = other / where if name != "index" else min((other / "index").iterdir())
    hurt(path, damage, others_file, random.Random(SEED))
    give_to_unprivileged_user(planted.path)
    before = {one: one.read_bytes() for one in planted.path.rglob("*") if one.is_file()}
    lines = planted.path.parent / "in.jsonl"
    lines.write_text(json.dumps({"body": "after"}) + "\n")
    lines.chmod(0o644)
    with unprivileged():
        code = run(["store", "append", str(planted.path), "--topic", "orders", "--queue", "0", "--input", str(lines)])
        out, err = capsys.readouterr()
        verified = run(["store", "verify", str(planted.path)])
        printed = capsys.readouterr()
    for one in (path, *planted.path.rglob("*")):
        if one.exists():
            one.chmod(0o755)
    assert "Traceback" not in out + err + printed.out + printed.err
    assert "Error:" not in err + printed.err  # a message, not the name of an error type
    wanted = EXPECTED[name][DAMAGE.index(damage)]
    assert (code == 0) == (wanted != REFUSE), err
    if wanted == REFUSE:
        assert err.startswith("error: "), err
        assert str(path if path.parent.name != "orders" else planted.path) in err
    assert verified in ({3} if wanted == QUAR else {0, 1, 2, 3})
    data_files_are_kept(planted, before, same=wanted == REFUSE)
    touched = touching(planted, int(path.name), int(path.name) + LOG_FILE) if path.parent.name == "commitlog" else set()
    if code == 0:
        end = ENDS["orders", 0]
        planted.places["orders", 0, end] = place_of(planted, end)
        planted.bodies["orders", 0, end] = b"after"
    elif damage != "unreadable" and name in ("queue", "queue directory"):
        touched |= {one for one in planted.places if one[:2] == ("orders", 0)}
    context = f"{name}, {damage}"
    counts = tally("S14", name)
    counts.trial(judged(planted, touched, context), context)
    if code == 0:
        assert ("orders", 0, ENDS["orders", 0]) in served_of(planted, context)
    positions(planted, wanted, context)
    report = planted.path / "quarantine" / "report.jsonl"
    assert (wanted == CUT) == (report.exists() and '"RF-LOST"' in report.read_text()), context


def numbers(path: Path, fields: str, values: dict[int, int]) -> None:
    raw = bytearray(path.read_bytes())
    for at, value in values.items():
        struct.pack_into(fields, raw, at, value)
    path.write_bytes(raw)


def json_of(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    values = json.loads(path.read_bytes())
    change(values)
    path.write_text(json.dumps(values))


def older(planted: Planted, name: str) -> None:
    """Replace a config file by its last generation."""
    path = planted.path / "config" / name
    path.write_bytes(path.with_name(name + ".bak").read_bytes())


FAR = 1 << 60
ABSURD: dict[str, tuple[str, str, Callable[[Planted], object]]] = {
    "checkpoint: times of the far future": (
        *("closed", HEAL),
        lambda one: numbers(one.path / "checkpoint", ">q", {0: FAR, 8: FAR, 16: FAR}),
    ),
    "checkpoint: negative": (
        "closed",
        HEAL,
        lambda one: numbers(one.path / "checkpoint", ">q", {0: -5, 8: -1, 32: -9}),
    ),
    "checkpoint: after the log": ("closed", HEAL, lambda one: numbers(one.path / "checkpoint", ">q", {32: FAR})),
    "checkpoint: zeros": ("killed", HEAL, lambda one: (one.path / "checkpoint").write_bytes(bytes(4096))),
    "confirm: after the log": (
        *("killed", HEAL),
        lambda one: numbers(one.path / "rocketflow" / "confirm", "<q", {8: FAR, 16: FAR}),
    ),
    "confirm: negative": ("killed", HEAL, lambda one: numbers(one.path / "rocketflow" / "confirm", "<q", {16: -FAR})),
    "confirm: of another run": (
        *("killed", HEAL),
        lambda one: numbers(one.path / "rocketflow" / "confirm", "<q", {32: 1}),
    ),
    "confirm: nowhere between records": (
        *("killed", HEAL),
        lambda one: numbers(one.path / "rocketflow" / "confirm", "<q", {16: 100}),
    ),
    "abort in a store that was closed": ("closed", HEAL, lambda one: (one.path / "abort").write_text("1")),
    "consumerOffset.json: after the queues": (
        *("closed", HEAL),
        lambda one: json_of(
            one.path / "config" / "consumerOffset.json",
            lambda values: values["offsetTable"]["orders@readers"].update({"0": FAR}),
        ),
    ),
    "consumerOffset.json: negative": (
        *("closed", HEAL),
        lambda one: json_of(
            one.path / "config" / "consumerOffset.json",
            lambda values: values["offsetTable"]["orders@readers"].update({"0": -1}),
        ),
    ),
    "consumerOffset.json: older": ("closed", HEAL, lambda one: older(one, "consumerOffset.json")),
    "topics.json: older": ("closed", HEAL, lambda one: older(one, "topics.json")),
    "store.meta: another size of log files": (
        *("closed", REFUSE),
        lambda one: json_of(
            one.path / "rocketflow" / "store.meta", lambda values: values.update({"mappedFileSizeCommitLog": 1 << 20})
        ),
    ),
    "store.meta: a later version": (
        *("closed", REFUSE),
        lambda one: json_of(
            one.path / "rocketflow" / "store.meta", lambda values: values.update({"formatVersion": 99})
        ),
    ),
}


@pytest.mark.parametrize("name", ABSURD)
def test_valid_and_absurd(images: Images, name: str, tally: Callable[..., Tally]) -> None:
    """S14: values that are readable and impossible, or outdated."""
    stop, wanted, change = ABSURD[name]
    planted = fresh(images.take(stop))
    change(planted)
    counts = tally("S14", "absurd")
    if wanted == REFUSE:
        with pytest.raises(StoreVersionError, match=r"store\.meta"):
            MessageStore.open(planted.path, IMAGE_CONFIG)
        counts.trial(judged(planted, set(), name), name)
        return
    used(planted, name)
    counts.trial(judged(planted, set(), name), name)
    assert findings_of(planted) == []
    ends = {key: end + 1 for key, end in ENDS.items()}
    for (topic, _), offsets in ConfigFiles(planted.path / "config").consumer_offsets.table().items():
        assert offsets, name
        assert all(0 <= offset <= ends[topic, queue] for queue, offset in offsets.items()), name


def data_files_are_kept(planted: Planted, before: dict[Path, bytes], *, same: bool) -> None:
    """Check that every data file exists, or its bytes are in quarantine; with `same`, that no data file has changed."""
    kept = {one.read_bytes() for one in (planted.path / "quarantine").rglob("*") if one.is_file()}
    for path, raw in before.items():
        if path.relative_to(planted.path).parts[0] not in DATA:
            continue
        if same:
            assert path.read_bytes() == raw, path
        assert path.is_file() or raw in kept, path


def place_of(planted: Planted, offset: int) -> tuple[int, int]:
    """Return the position and size in the unit of an offset of orders/0."""
    with StoreReader(planted.path) as reader:
        unit = reader.read_units("orders", 0, offset, offset + 1)
    return int(unit["phy_offset"][0]), int(unit["msg_size"][0])


def positions(planted: Planted, wanted: str, context: str) -> None:
    """Check the consumer's offsets: present, in an older state at most, or an error; never silently back at 0."""
    offsets = ConfigFiles(planted.path / "config").consumer_offsets
    try:
        there = offsets.offsets("readers", "orders")
    except StoreError:
        assert wanted == KEEP, context
        return
    assert there in ({0: 10, 1: 20}, {0: 10}), context


def rendered() -> list[str]:
    """Return the lines of the README's table."""
    lines = ["| file | " + " | ".join(DAMAGE) + " |", "|---" * (len(DAMAGE) + 1) + "|"]
    return lines + [f"| {name} | " + " | ".join(cells) + " |" for name, cells in EXPECTED.items()]


def test_the_table_is_in_the_readme() -> None:
    text = Path(__file__).with_name("README.md").read_text("utf-8")
    for line in rendered():
        assert line in text, line
