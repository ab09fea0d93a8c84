"""Rows S02 and S09: a writer is killed and a bit of the log flips: that record alone is lost, also after the frontier.

A copy of the store may be what a power loss left: there only bytes that were known synced are damage, and everything
from the first bad record after them on is cut.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.native.confirm import Confirmed, decode_confirm
from rocketflow_store.recovery.preview import preview_recovery
from tests.reliability.test_kills import acknowledged, command
from tests.support.checker import Place
from tests.support.damage import Planted
from tests.support.independent_reader import Record
from tests.support.killed_store import KilledStore, flip_bit
from tests.support.results import Tally
from tests.support.trials import environment, seeds, some
from tests.support.workload import SMALL, number_of

pytestmark = pytest.mark.slow

MAGIC = (4, 8)
"""Bytes of a record: with another one it may be a record of a later version, which is kept everywhere (D7)."""
CONFIG = StoreConfig(**SMALL)  # type: ignore[arg-type]


def killed(store: Path, flush: str, rng: random.Random, *, synced: bool) -> dict[int, Place]:
    """Run a writer, kill it after some acks (with `synced` after it stored a synced offset), and return the acks."""
    with subprocess.Popen(
        command(store, flush, 0, 100_000), stdout=subprocess.PIPE, text=True, env=environment()
    ) as child:
        assert child.stdout is not None
        output, wanted = "", rng.randrange(40, 200)
        while wanted:
            output += child.stdout.readline()
            if not synced or confirm_of(store).log_synced_offset > 0:
                wanted -= 1
        child.kill()
        return acknowledged(output + child.stdout.read())


def confirm_of(store: Path) -> Confirmed:
    confirmed = decode_confirm((store / "rocketflow" / "confirm").read_bytes())
    assert confirmed is not None
    return confirmed


def numbered(records: list[Record]) -> dict[int, Record]:
    """Return the records of the workload by number."""
    return {number_of(one.body): one for one in records if one.topic == "t"}


def chosen(acked: list[Record], rng: random.Random) -> list[Record]:
    """Return records at several distances before the end of the log."""
    return [acked[-1], acked[-2], *rng.sample(acked[-40:-2], some(6)), rng.choice(acked)]


def sample(records: list[Record], rng: random.Random) -> list[Record]:
    return rng.sample(records, min(some(6), len(records)))


def places_of(records: dict[int, Record]) -> dict[int, Place]:
    return {number: (one.queue_id, one.queue_offset) for number, one in records.items()}


def served(store: Path) -> dict[int, Place]:
    found = Planted(store, {}, {}).served()
    return {number_of(body): place[1:] for place, body in found.items() if place[0] == "t" and body != b"after"}


def next_offsets(store: MessageStore) -> dict[int, int]:
    """Put a message into each queue; return their queue offsets."""
    return {queue: store.put_message(Message("t", b"after", queue_id=queue)).queue_offset for queue in (0, 1)}


def ends_of(records: dict[int, Record]) -> dict[int, int]:
    return {queue: max(one.queue_offset for one in records.values() if one.queue_id == queue) + 1 for queue in (0, 1)}


def report_of(store: Path) -> list[dict[str, Any]]:
    report = store / "quarantine" / "report.jsonl"
    return [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []


@pytest.mark.parametrize("flush", ["async", "sync"])
def test_damage_after_a_kill_loses_that_record_alone(tmp_path: Path, flush: str, tally: Callable[..., Tally]) -> None:
    counts = {row: tally(row, f"a bit flipped after a kill, {flush}") for row in ("S02", "S09")}
    for seed in seeds(6, 40, least=2):
        rng = random.Random(seed)
        room = tmp_path / f"{seed}"
        room.mkdir()
        acked = killed(room / "s", flush, rng, synced=bool(seed % 2))
        store = KilledStore(room / "s")
        records, walked_from = numbered(store.records), confirm_of(store.path).durable_offset
        assert set(acked) <= set(records)
        for trial, record in enumerate(chosen([records[number] for number in sorted(acked)], rng)):
            at, bit = rng.randrange(record.size), rng.randrange(8)
            context = f"seed {seed}, {flush}, bit {bit} of byte {at} of the record at {record.phy_offset}"
            path = store.path if trial == 0 else store.again()
            flip_bit(path, record.phy_offset + at, bit)
            seen = preview_recovery(path, CONFIG).quarantined
            with MessageStore.open(path, CONFIG) as opened:
                found, healed = opened.recovery.quarantined, opened.recovery.healed
                assert next_offsets(opened) == ends_of(records), f"{context}: queue offsets are assigned twice"
            begin = 0 if healed else walked_from  # a queue whose end is compared with this record is rebuilt
            wanted = [(record.phy_offset, record.size)] if record.phy_offset >= begin else []
            assert [(one.offset, one.length) for one in seen] == wanted, context
            assert [(one.offset, one.length) for one in found] == wanted, context
            reports = [(one["code"], one["length"]) for one in report_of(path)]
            assert reports == [("RF-QUAR", size) for _, size in wanted], context
            left = places_of({number: one for number, one in records.items() if one is not record})
            assert served(path) == left, context
            assert [one.kind for one in verify_store(path).findings] == ["record"], context
        for tallied in counts.values():
            tallied.trial(None, f"seed {seed}")


def test_first_bad_record_after_the_frontier_is_the_torn_tail_of_a_copy(
    tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    """Bytes known synced are damage; after them all is cut, and does not come back after another crash (B5)."""
    counts = tally("S09", "a bit flipped in a copy of a killed store, async")
    outcomes = set()
    for seed in seeds(6, 40):
        rng = random.Random(seed)
        room = tmp_path / f"{seed}"
        room.mkdir()
        killed(room / "s", "async", rng, synced=True)
        store = KilledStore(room / "s")
        records, frontier = numbered(store.records), confirm_of(store.path).log_synced_offset
        walked_from = confirm_of(store.path).durable_offset
        known = [one for one in store.records if walked_from <= one.phy_offset < frontier]
        before = [one for one in store.records if one.phy_offset < frontier][-1]
        assert before.phy_offset + before.size == frontier, "not a record's end"
        unsynced = [one for one in records.values() if one.phy_offset >= frontier]
        for record in (*sample(known[1:-1], rng), *sample(unsynced[:-1], rng)):
            context = f"seed {seed}, the record at {record.phy_offset}, frontier {frontier}"
            path = store.copy(room / "copy")
            at = rng.choice([*range(MAGIC[0]), *range(MAGIC[1], record.size)])
            flip_bit(path, record.phy_offset + at, rng.randrange(8))
            with MessageStore.open(path, CONFIG) as opened:
                found, *parts = opened.recovery.quarantined
                opened.put_message(Message("t", b"after", queue_id=0))
                kept = room / "killed again"
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(path, kept)
            torn = record.phy_offset >= frontier
            outcomes.add(torn)
            if torn:
                cut = [one for one in store.records if one.phy_offset >= record.phy_offset]
                left = {number: one for number, one in records.items() if one not in cut}
                assert found.offset == record.phy_offset, context
                assert f" with {len(cut) - 1} complete records cut, not known to be durable" in found.why, context
                assert f"the last known sync ended at {frontier}" in found.why, context
                assert "power" not in found.why, context
                assert {one["code"] for one in report_of(path)} == {"RF-CUT"}, context
                MessageStore.open(kept, CONFIG).close()
                assert served(kept) == places_of(left), f"{context}: cut records came back"
            else:
                left = {number: one for number, one in records.items() if one is not record}
                assert (found.offset, found.length, parts) == (record.phy_offset, record.size, []), context
            assert served(path) == places_of(left), context
        counts.trial(None, f"seed {seed}")
    assert outcomes == {True, False} or len(seeds(6, 40)) == 1
