"""Row S12, for queues of BatchCQ topics and LMQ: as for other queues, damage to them loses no message."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from rocketflow_store import FlushDiskType, MessageStore, StoreReader
from rocketflow_store.fsck.repair import repair_store
from tests.reliability.images import STOPS, hurt
from tests.reliability.test_image_derived import QUEUE_KINDS
from tests.support.checker import Verdict
from tests.support.results import Tally
from tests.support.side_queues import CONFIG, QUEUES, SideStore, served
from tests.support.trials import seeds

pytestmark = pytest.mark.slow

SYNC = replace(CONFIG, flush_disk_type=FlushDiskType.SYNC_FLUSH)
PLACES = [
    "batchconsumequeue/batches/0",
    "batchconsumequeue/batches/1",
    "consumequeue/%LMQ%a/0",
    "consumequeue/%LMQ%b/0",
]


@dataclass
class SideImages:
    """A store that was closed, and one that was killed after its last ack."""

    room: Path
    made: SideStore

    def take(self, stop: str) -> Path:
        image = self.room / "image"
        shutil.rmtree(image, ignore_errors=True)
        shutil.copytree(self.room / stop, image)
        return image


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> SideImages:
    room, made = tmp_path_factory.mktemp("side-images"), SideStore({}, {})
    live = room / "closed"
    with MessageStore.open(live, SYNC) as store:
        store.create_topic("batches", 2, queue_type="BatchCQ")
        made.put(store, 0, 60)
    with MessageStore.open(live, SYNC) as store:
        made.put(store, 60, 80)
        store.flush()
        made.put(store, 80, 100)
        shutil.copytree(live, room / "killed")
    return SideImages(room, made)


def hurt_side_queue(path: Path, place: str, kind: str, rng: random.Random) -> None:
    """Damage a queue's directory or one of its files."""
    directory = path / place
    if kind == "directory missing":
        directory.rename(path / "removed")
    elif kind == "a file in its place":
        directory.rename(path / "removed")
        directory.write_bytes(b"not a directory")
    elif kind == "another queue's":
        room = "batches/1" if place.endswith("batches/0") else "batches/0"
        other = path / "batchconsumequeue" / room if "batch" in place else path / "consumequeue" / "%LMQ%a" / "0"
        for one, another in zip(sorted(directory.iterdir()), sorted(other.iterdir()), strict=False):
            one.write_bytes(another.read_bytes())
    else:
        hurt(rng.choice(sorted(directory.iterdir())), kind, rng)


def judged(store: MessageStore | StoreReader, made: SideStore, context: str) -> Verdict:
    """Check that each served message was put at its place; report the others as lost."""
    there = served(store, anyhow=True)
    assert {place: made.bodies.get(place) for place in there} == there, f"{context}: a wrong body"
    return Verdict(
        lost=[end for place, end in zip(made.bodies, range(len(made.bodies)), strict=True) if place not in there]
    )


def test_a_damaged_side_queue(images: SideImages, tally: Callable[..., Tally]) -> None:
    """No wrong body before the repair; after an orderly stop the open restores the queue, else a repair."""
    counts = {stop: tally("S12", f"{stop}, batch and light") for stop in STOPS}
    for seed in seeds(60, 600):
        rng = random.Random(seed)
        stop, kind = STOPS[seed % 2], QUEUE_KINDS[seed // 2 % len(QUEUE_KINDS)]
        path, made = images.take(stop), SideStore(dict(images.made.bodies), dict(images.made.ends))
        place = rng.choice(PLACES)
        hurt_side_queue(path, place, kind, rng)
        context = f"seed {seed}, {stop}, {kind} of {place}"
        with StoreReader(path, CONFIG) as reader:
            judged(reader, made, context)
        with MessageStore.open(path, SYNC) as store:
            verdict = judged(store, made, context)
            if stop == "closed":
                made.put(store, 100, 106)
                assert {key: store.max_offset(*key) for key in QUEUES} == made.ends, context
                counts[stop].trial(verdict, context)
        repair_store(path)
        with StoreReader(path, CONFIG) as reader:
            counts[stop].trial(judged(reader, made, context), f"{context}, repaired")
        again = repair_store(path)
        assert again.steps == [], f"{context}: {again.steps}"
