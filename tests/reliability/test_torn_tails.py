"""Row S04: the log torn at each byte of its last record; only that record is cut, and it never comes back."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, StoreConfig
from tests.support.checker import Place, Verdict, check
from tests.support.results import Tally
from tests.support.trials import LEVEL, SEED
from tests.support.workload import SMALL, body

RECORDS = 20
LAST = RECORDS - 1
KINDS = ["zero", "random", "old"]
LOG = Path("commitlog") / f"{0:020d}"
EVERY = 13 if LEVEL == "sample" else 1


@dataclass
class Tail:
    """A store whose last record, at `begin` to `end` of the log, is torn, and the image of that."""

    store: Path
    image: Path
    config: StoreConfig
    begin: int
    properties: int
    end: int
    log: bytes
    earlier: bytes

    def torn_at(self, cut: int, kind: str, rng: random.Random) -> bool:
        """Write the image with other bytes from `cut` on, as after a stop; return False if they are the same."""
        size = self.end - cut
        wrong = {
            "zero": bytes(size),
            "random": rng.randbytes(size),
            "old": (self.earlier * 2)[(cut - self.begin) % len(self.earlier) :][:size],
        }[kind]
        if wrong == self.log[cut : self.end]:
            return False
        shutil.rmtree(self.image, ignore_errors=True)
        shutil.copytree(self.store, self.image)
        (self.image / LOG).write_bytes(self.log[:cut] + wrong + self.log[self.end :])
        return True

    def cut_and_used(self, context: str) -> Verdict:
        """Recover, and check that the torn record is cut and the next message gets its queue offset."""
        with MessageStore.open(self.image, self.config) as store:
            assert store.max_phy_offset == self.begin, context
            assert store.put_message(Message("t", body(RECORDS), queue_id=0)).queue_offset == LAST, context
        acked: dict[int, Place] = {number: (0, number) for number in range(LAST)}
        return check(self.image, {**acked, RECORDS: (0, LAST)}, {*range(LAST), RECORDS})


def tail_of(directory: Path, *, property_crc: bool = False) -> Tail:
    """Write the image of a killed writer: of RocketFlow's with record CRCs, else of one without confirm offset."""
    config = replace(StoreConfig(**SMALL), enabled_append_prop_crc=property_crc)  # type: ignore[arg-type]
    with MessageStore.open(directory / "live", config) as store:
        results = store.put_messages(
            [Message("t", body(number), keys=[f"k{number}"], tags="w", queue_id=0) for number in range(RECORDS)]
        )
        end = store.max_phy_offset
        shutil.copytree(directory / "live", directory / "whole")
    if not property_crc:
        (directory / "whole" / "rocketflow" / "confirm").unlink()
    log = (directory / "whole" / LOG).read_bytes()
    begin = results[-1].physical_offset
    return Tail(
        store=directory / "whole",
        image=directory / "image",
        config=config,
        begin=begin,
        properties=begin + 88 + len(body(LAST)) + 1 + len("t") + 2,
        end=end,
        log=log,
        earlier=log[results[-3].physical_offset : results[-2].physical_offset],
    )


def cuts(begin: int, end: int) -> range:
    """Return the bytes at which the record is torn."""
    return range(begin + SEED % EVERY, end, EVERY)


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_record_torn_before_its_properties(tmp_path: Path, kind: str, tally: Callable[..., Tally]) -> None:
    counts = tally("S04", kind)
    rng = random.Random(SEED)
    tail = tail_of(tmp_path)
    for cut in cuts(tail.begin, tail.properties):
        context = f"seed {SEED}, byte {cut - tail.begin}"
        if tail.torn_at(cut, kind, rng):
            counts.trial(tail.cut_and_used(context), context)
    assert counts.trials > 100 // EVERY


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_record_torn_in_its_properties(tmp_path: Path, kind: str, tally: Callable[..., Tally]) -> None:
    """Such a record does not show that it is torn: its body is right, and it is there or not, but never wrong."""
    counts = tally("S04", f"{kind} properties")
    rng = random.Random(SEED)
    tail = tail_of(tmp_path)
    acked: dict[int, Place] = {number: (0, number) for number in range(LAST)}
    for cut in cuts(tail.properties, tail.end):
        if tail.torn_at(cut, kind, rng):
            with MessageStore.open(tail.image, tail.config):
                pass
            counts.trial(check(tail.image, acked, set(range(RECORDS))), f"seed {SEED}, byte {cut - tail.begin}")
    assert counts.trials > 40 // EVERY


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_record_torn_in_properties_with_a_crc(tmp_path: Path, kind: str, tally: Callable[..., Tally]) -> None:
    """The store's settings say that every record has a CRC, so that a record torn within the CRC's name is invalid."""
    counts = tally("S04", f"{kind} properties with a CRC")
    rng = random.Random(SEED)
    tail = tail_of(tmp_path, property_crc=True)
    for cut in cuts(tail.properties, tail.end):
        context = f"seed {SEED}, byte {cut - tail.begin}"
        if tail.torn_at(cut, kind, rng):
            counts.trial(tail.cut_and_used(context), context)
    assert counts.trials > 60 // EVERY
