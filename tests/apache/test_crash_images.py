"""RocketFlow and Apache's store recover the same crash images: RocketFlow serves all that Apache serves, at its place.

The judges are RocketMQ 5.3.3 and 5.5.0, the latter also with enableAcceleratedRecovery, which uses the checkpoint that
RocketFlow wrote. Each difference is counted with its reason: those in `SERVED_LESS` are by design, others are failures.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from rocketflow_store import MessageStore, StoreReader
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.model.errors import StoreError, StoreVersionError
from tests.apache.crash_images import IMAGES_A_RUN, KINDS, SIZES, Image, make_images
from tests.apache.judge import VERSIONS_5, ApacheStore, JudgedMessage, as_judged, versions
from tests.support.trials import FULL, SEED

pytestmark = pytest.mark.apache

Served = dict[tuple[str, int, int], JudgedMessage]

RUNS = 17 if FULL else 1
HALF_A_COMMIT = "rows of an incomplete sink commit: Java keeps them, RocketFlow cuts the commit at its envelope"
NEVER_PUT = "a torn or damaged record that Java takes for valid: RocketFlow does not serve what was never put"
REFUSED = "Java refuses the directory, RocketFlow opens it"
AFTER_DAMAGE = "after damage: Java ends the log there, RocketFlow skips the damage"
MISSING_IN_JAVA = "Java's queues lost them, or end before them"
UNPROTECTED = "damage outside the body and the record's place, which no reader checks: both serve it"
CRC_DAMAGED = "the damage is in the record's CRC property, which Java does not check"
UNSEEN_BY_JAVA = "after damage that Java does not detect, synced offset unknown: cut, and a copy kept"
SERVED_LESS = (CRC_DAMAGED, UNSEEN_BY_JAVA, HALF_A_COMMIT, NEVER_PUT)


@dataclass
class Differences:
    """Counts of messages and of images, by reason, and unexplained differences."""

    messages: Counter[str] = field(default_factory=Counter)
    images: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def count(self, found: Counter[str]) -> None:
        self.messages += found
        self.images += Counter(dict.fromkeys(found, 1))


UNCHECKED_FIELDS = (
    "properties",
    "flag",
    "born_timestamp",
    "store_timestamp",
    "sys_flag",
    "tags_code",
    "msg_id",
    "born_host",
    "store_host",
)
"""Fields that neither the CRC of the body nor the record's place protects."""


def recover_and_read(path: Path) -> tuple[Served, bool]:
    """Recover with RocketFlow; return the messages that it serves, and True if damage remains in the log.

    A directory that an open refuses (a CommitLog file in the middle was cut) is repaired first, as the error advises.
    """
    try:
        with MessageStore.open(path, SIZES) as store:
            damaged = any("cut" not in one.why for one in store.recovery.quarantined)
    except StoreVersionError:
        repair_store(path, SIZES)
        MessageStore.open(path, SIZES).close()
        damaged = True
    return read_skipping_losses(path), damaged


def read_skipping_losses(path: Path) -> Served:
    """Return the messages that RocketFlow serves; offsets with a lost record are skipped."""
    found: Served = {}
    with StoreReader(path) as reader:
        for (topic, queue_id), (low, high) in reader.snapshot().queues.items():
            codes = reader.read_units(topic, queue_id, low, high)["tags_code"].tolist()
            offset = low
            while offset < high:
                try:
                    got = reader.get_message(topic, queue_id, offset)
                except StoreError:
                    offset += 1
                    continue
                for one in got.messages:
                    message = as_judged(one, codes[one.queue_offset - low])
                    found[message.place] = message
                offset = max(got.next_begin_offset, offset + 1)
    return found


def compare(image: Image, apache: list[JudgedMessage] | None, rocketflow: Served, into: Differences) -> None:
    """Count the differences by reason; those without a reason go to `into.wrong`."""
    java: Served = {} if apache is None else {one.place: one for one in apache}
    found: Counter[str] = Counter()
    for place, message in java.items():
        if rocketflow.get(place) == message:
            continue
        reason = reason_not_served(image, message, java, rocketflow)
        if reason is None:
            into.wrong.append(
                f"{image.path.name} ({image.kind}, {image.what}): Java serves {place}, we {rocketflow.get(place)}"
            )
        else:
            found[reason] += 1
    java_end = max((one.phy_offset + one.store_size for one in java.values()), default=0)
    for place, message in rocketflow.items():
        if image.truth.get(place) != message and not is_unprotected_name(image, message):
            into.wrong.append(f"{image.path.name} ({image.kind}, {image.what}): {place} was never put like that")
        elif image.truth.get(place) != message:
            found[UNPROTECTED] += 1
        elif place not in java:
            after_damage = image.damage >= 0 and message.phy_offset >= java_end
            found[REFUSED if apache is None else AFTER_DAMAGE if after_damage else MISSING_IN_JAVA] += 1
    into.count(found)


def reads_the_same(image: Image, served: list[JudgedMessage], rocketflow: Served, *, damaged: bool) -> bool:
    """Return True if Java serves the same messages of the recovered directory as RocketFlow.

    A damaged record stays in the log: there Java ends the log, serves less, or serves the damaged record, even if
    the damage is in a field that no message shows.
    """
    java = {one.place: one for one in served}
    if not damaged:
        return java == rocketflow
    return all(
        rocketflow.get(place) == one
        or image.truth.get(place) != one
        or one.phy_offset <= image.damage < one.phy_offset + one.store_size
        for place, one in java.items()
    )


def is_unprotected(message: JudgedMessage, truth: JudgedMessage | None) -> bool:
    """Return True if a message differs from the one put only in unchecked fields."""
    if truth is None:
        return False
    return replace(truth, **{name: getattr(message, name) for name in UNCHECKED_FIELDS}) == message


def is_unprotected_name(image: Image, message: JudgedMessage) -> bool:
    """Return True as `is_unprotected` does, or if only the topic or queue of a record without a CRC are damaged."""
    if is_unprotected(message, image.truth.get(message.place)):
        return True
    original = next((one for one in image.truth.values() if one.phy_offset == message.phy_offset), None)
    hit = message.phy_offset <= image.damage < message.phy_offset + message.store_size
    return hit and original is not None and original.body == message.body


def reason_not_served(image: Image, message: JudgedMessage, java: Served, rocketflow: Served) -> str | None:
    """Return the reason why RocketFlow rightly does not serve a message of Java, or None if there is no reason."""
    truth, same_place = image.truth.get(message.place), rocketflow.get(message.place)
    if is_unprotected(message, truth) and same_place is not None and is_unprotected(same_place, truth):
        return UNPROTECTED
    if message.phy_offset <= image.damage < message.phy_offset + message.store_size and same_place is None:
        return NEVER_PUT if message != truth else CRC_DAMAGED
    if truth != message:
        return NEVER_PUT if message.place not in rocketflow or same_place == truth else None
    for commit in image.commits:
        if commit.begin_offset <= message.phy_offset < commit.end_offset:
            in_java, in_rocketflow, in_truth = (
                sum(
                    commit.begin_offset <= one.phy_offset < commit.end_offset and one == image.truth.get(one.place)
                    for one in every.values()
                )
                for every in (java, rocketflow, image.truth)
            )
            if in_rocketflow == 0 and in_java < in_truth:
                return HALF_A_COMMIT
    cut_there = all(one.phy_offset + one.store_size <= image.damage for one in rocketflow.values())
    return UNSEEN_BY_JAVA if image.synced <= image.damage < message.phy_offset and cut_there else None


def read_copies(
    apache: ApacheStore, stores: list[Path], room: Path, queues: list[tuple[str, int]]
) -> dict[Path, list[JudgedMessage] | None]:
    """Return the messages that Apache serves of copies of the directories; see `ApacheStore.read_each`."""
    room.mkdir(parents=True)
    copies = {room / str(number): one for number, one in enumerate(stores)}
    for copy, one in copies.items():
        shutil.copytree(one, copy)
    found = apache.read_each([*copies], SIZES, queues)
    shutil.rmtree(room)
    return {copies[copy]: messages for copy, messages in found.items()}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_rocketflow_recovers_all_that_apache_recovers(tmp_path: Path) -> None:
    judges = {one: ApacheStore(one) for one in versions("5.3.3", of=VERSIONS_5)}
    judges["5.5.0 accelerated"] = ApacheStore("5.5.0", "enableAcceleratedRecovery=true")
    seen, compared = Differences(), Counter[str]()
    for seed in range(SEED, SEED + RUNS):
        images = make_images(tmp_path / "images", seed)
        recovered: dict[Path, Served] = {}
        with_damage = set()
        for image in images:
            copy = tmp_path / "rocketflow" / image.path.name
            shutil.copytree(image.path, copy)
            recovered[image.path], damaged = recover_and_read(copy)
            if damaged:
                with_damage.add(image.path)
        queues = sorted({place[:2] for place in images[0].truth})
        for version, apache in judges.items():
            recoveries = {one.path: tmp_path / "rocketflow" / one.path.name for one in images}
            served = read_copies(apache, [*recoveries, *recoveries.values()], tmp_path / "java", queues)
            for image in images:
                compare(image, served[image.path], recovered[image.path], seen)
                reread = served[recoveries[image.path]]
                if reread is None or not reads_the_same(
                    image, reread, recovered[image.path], damaged=image.path in with_damage or image.damage >= 0
                ):
                    seen.wrong.append(
                        f"{image.path.name} ({image.kind}, {image.what}): {version} reads the recovery differently"
                    )
        compared.update(image.kind for image in images)
        if not seen.wrong:  # keep the images of a failure
            shutil.rmtree(tmp_path / "images")
            shutil.rmtree(tmp_path / "rocketflow")
    print(f"\ncrash images: {sum(compared.values())} ({', '.join(f'{n} {kind}' for kind, n in compared.items())})")
    for reason, messages in sorted(seen.messages.items()):
        side = "less" if reason in SERVED_LESS else "same" if reason == UNPROTECTED else "more"
        print(f"{side}: {messages:>6} messages in {seen.images[reason]:>3} images: {reason}")
    assert seen.wrong == [], f"seed {SEED}"
    assert sum(compared.values()) == RUNS * IMAGES_A_RUN
    assert set(compared) == set(KINDS)
