"""Reads over damaged queue units: an answer is complete, or lists what it lacks."""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from rocketflow.cli.app import run
from rocketflow_store import Message, MessageStore, SkipFaults, StoreReader
from rocketflow_store.model.errors import CorruptRecordError
from rocketflow_store.reading.skipped import SkippedMessages
from tests.support.damage import CONFIG, Place, Planted, copied, make
from tests.support.trials import sampled

COUNT = 75
QUEUE = "orders", 1
DAMAGED = (0, 1, 19, 20, 37, 60, 73)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return make(tmp_path_factory.mktemp("units") / "s")


@pytest.fixture
def planted(whole: Planted, tmp_path: Path) -> Planted:
    return copied(whole, tmp_path / "s")


def unit_of(planted: Planted, place: Place) -> tuple[int, int, int]:
    file, position = planted.queue_file(*place)
    phy_offset, size, code = struct.unpack_from(">qiq", file.read_bytes(), position)
    return phy_offset, size, code


def set_unit(planted: Planted, place: Place, phy_offset: int, size: int, code: int) -> None:
    file, position = planted.queue_file(*place)
    with file.open("r+b") as opened:
        opened.seek(position)
        opened.write(struct.pack(">qiq", phy_offset, size, code))


def offsets_of(skipped: Sequence[SkippedMessages]) -> list[int]:
    return [one.queue_offset + at for one in skipped for at in range(one.count)]


def cat(path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, list[int], str]:
    code = run(["store", "cat", str(path), "--topic", QUEUE[0], "--queue", str(QUEUE[1]), "--json", *more])
    out, err = capsys.readouterr()
    return code, [json.loads(line)["queueOffset"] for line in out.splitlines()], err


@pytest.mark.parametrize("tags", [None, "t"])
@pytest.mark.parametrize("wrong", [1, 90, 1 << 30, "+1", "-1", 0, -1, -(1 << 31)])
def test_message_whose_unit_has_a_wrong_size_is_reported(
    planted: Planted, wrong: int | str, tags: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the unit proves that the record is the message, since a log file may belong to another store."""
    bodies = [planted.bodies[*QUEUE, offset] for offset in range(COUNT)]
    with contextlib.ExitStack() as opened:
        stores: list[StoreReader | MessageStore] = []
        if isinstance(wrong, str) or wrong > 0:  # (an open repairs invalid units)
            stores.append(opened.enter_context(MessageStore.open(planted.path, CONFIG)))
        stores.append(opened.enter_context(StoreReader(planted.path)))
        for offset in DAMAGED:
            phy_offset, size, code = unit_of(planted, (*QUEUE, offset))
            size = size + int(wrong) if isinstance(wrong, str) else wrong
            set_unit(planted, (*QUEUE, offset), phy_offset, size, code)
        for store in stores:
            at, skipped, found = 0, [], []
            while at < COUNT:
                with store.get_message(*QUEUE, at, 32, tags) as got:
                    found += [(one.queue_offset, one.body) for one in got.messages]
                    skipped += offsets_of(got.skipped)
                    assert at < got.next_begin_offset
                    at = got.next_begin_offset
            assert skipped == list(DAMAGED)
            assert found == [(one, body) for one, body in enumerate(bodies) if one not in DAMAGED]
            left_out: list[SkippedMessages] = []
            batches = store.read(*QUEUE, 0, COUNT, ["body"], tags, faults=SkipFaults(left_out.append))
            assert [body for batch in batches for body in batch["body"].to_pylist()] == [body for _, body in found]
            assert offsets_of(left_out) == list(DAMAGED)
            with pytest.raises(CorruptRecordError, match="queue offset 0"):
                list(store.read(*QUEUE, 0, COUNT, ["body"], tags))
        code, shown, errors = cat(planted.path, capsys, *(["--tags", tags] if tags else []))
        assert (code, shown) == (3, [one for one, _ in found])
        assert "queue 1, offset 37: " in errors


@pytest.mark.parametrize("bit", [*sampled(range(64), 9), "zeroed"])
def test_flipped_tags_code_hides_no_message(
    planted: Planted, bit: int | str, capsys: pytest.CaptureFixture[str]
) -> None:
    bodies = [planted.bodies[*QUEUE, offset] for offset in range(COUNT)]
    for offset in (0, 41, COUNT - 1):
        phy_offset, size, code = unit_of(planted, (*QUEUE, offset))
        flipped = 0 if isinstance(bit, str) else code ^ (1 << bit)
        set_unit(planted, (*QUEUE, offset), phy_offset, size, flipped - (1 << 64) if flipped >> 63 else flipped)
    with StoreReader(planted.path) as reader:
        at, got_bodies = 0, []
        while at < COUNT:
            with reader.get_message(*QUEUE, at, 32, "t || other") as got:
                got_bodies += [one.body for one in got.messages]
                assert got.skipped == ()
                at = got.next_begin_offset
        assert got_bodies == bodies
        batches = reader.read(*QUEUE, 0, COUNT, ["body"], "t")
        assert [body for batch in batches for body in batch["body"].to_pylist()] == bodies
        assert [batch for batch in reader.read(*QUEUE, 0, COUNT, ["body"], "other") if batch.num_rows] == []
    assert cat(planted.path, capsys, "--tags", "t") == (0, list(range(COUNT)), "")


@pytest.mark.parametrize("tags", [None, "t"])
@pytest.mark.parametrize("kind", ["zeroed", "phyOffset 0", "another queue's", "the one before", "blank", "beyond"])
def test_message_whose_unit_is_lost_is_reported(
    planted: Planted, kind: str, tags: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    offset = 41
    phy_offset, size, code = unit_of(planted, (*QUEUE, offset))
    wrong = {
        "zeroed": (0, 0, 0),
        "phyOffset 0": (0, size, code),
        "another queue's": unit_of(planted, ("orders", 0, offset)),
        "the one before": unit_of(planted, (*QUEUE, offset - 1)),
        "blank": (0, 0x7FFFFFFF, 0),
        "beyond": (phy_offset | 1 << 50, size, code),
    }[kind]
    set_unit(planted, (*QUEUE, offset), *wrong)
    others = [one for one in range(COUNT) if one != offset]
    with StoreReader(planted.path) as reader:
        assert reader.bounds(*QUEUE) == (0, COUNT)
        for start in (offset, offset - 1, 20):
            with reader.get_message(*QUEUE, start, 32, tags) as got:
                there = [one for one in others if start <= one < got.next_begin_offset]
                assert [one.queue_offset for one in got.messages] == there
                reached = offset < got.next_begin_offset
                assert reached or start < offset  # (more bytes than one answer takes)
                assert [(one.queue_offset, one.count) for one in got.skipped] == ([(offset, 1)] if reached else [])
        with pytest.raises(CorruptRecordError, match="queue offset 41"):
            list(reader.read(*QUEUE, 0, COUNT, tags=tags))
        skipped: list[SkippedMessages] = []
        batches = reader.read(*QUEUE, 0, COUNT, ["queueOffset"], tags, faults=SkipFaults(skipped.append))
        assert [one for batch in batches for one in batch["queueOffset"].to_pylist()] == others
        assert [(one.queue_offset, one.count) for one in skipped] == [(offset, 1)]
    code, shown, errors = cat(planted.path, capsys, *(["--tags", tags] if tags else []))
    assert (code, shown) == (3, others)
    assert "queue 1, offset 41: " in errors


@pytest.mark.parametrize("from_other", [1, -1, 2])
def test_unit_of_a_neighbour_hides_no_message_of_another_tag(tmp_path: Path, from_other: int) -> None:
    """Both tags belong to the topic, so that the codes are trusted; but the places of the units do not rise."""
    with MessageStore.open(tmp_path / "s", CONFIG) as store:
        for number in range(60):
            tag = ("red", "blue")[number % 2] if from_other % 2 else ("red", "red", "blue", "blue")[number % 4]
            store.put_message(Message("t", b"%d" % number, queue_id=0, tags=tag))
    planted = Planted(tmp_path / "s", {}, {})
    with StoreReader(planted.path) as reader:
        reds = [one for batch in reader.read("t", 0, 0, 60, ["body"], "red") for one in batch["body"].to_pylist()]
    for offset in (20, 32, 40):
        there = unit_of(planted, ("t", 0, offset))
        set_unit(planted, ("t", 0, offset), *unit_of(planted, ("t", 0, offset + from_other)))
        lost = [] if b"%d" % offset not in reds else [offset]
        assert lost
        with StoreReader(planted.path) as reader:
            skipped: list[SkippedMessages] = []
            batches = reader.read("t", 0, 0, 60, ["body"], "red", faults=SkipFaults(skipped.append))
            assert [one for batch in batches for one in batch["body"].to_pylist()] == [
                one for one in reds if one != b"%d" % offset
            ]
            assert offsets_of(skipped) == lost
            with reader.get_message("t", 0, offset // 20 * 20, 32, "red") as got:
                assert offsets_of(got.skipped) == lost
        set_unit(planted, ("t", 0, offset), *there)
