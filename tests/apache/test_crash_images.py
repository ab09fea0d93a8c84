"""Apache's own store recovers the same crash images as we do: whatever it serves we serve, in the same places.

RocketMQ 5.3.3 and 5.5.0 are asked, this one also with enableAcceleratedRecovery, which goes by our checkpoint.

Where it differs the reason is told and counted: those in `OURS_LESS` are by design, everything else is a failure.
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
from tests.apache.judge import VERSIONS_5, ApacheStore, JudgedMessage, judged_ours, versions
from tests.support.trials import FULL, SEED

pytestmark = pytest.mark.apache

Served = dict[tuple[str, int, int], JudgedMessage]

RUNS = 17 if FULL else 1
HALF_A_COMMIT = "rows of a sink commit that is not whole: Java keeps them, we cut the commit at its envelope"
NEVER_PUT = "a torn or damaged record that Java takes for whole: we do not serve what was never put"
REFUSED = "Java refuses the directory, we open it"
BEHIND_DAMAGE = "behind damage: Java ends the log there, we serve around it"
LEFT_OUT = "Java's queues lost them, or end before them"
UNPROTECTED = "damage outside of the body and of the record's place, which no reader looks at: both serve it"
ITS_CRC = "the damage hit the record's own CRC, which Java does not look at"
ONLY_OURS_SEES = "behind damage that Java does not look for, where nothing says what was synced: cut, and a copy kept"
OURS_LESS = (ITS_CRC, ONLY_OURS_SEES, HALF_A_COMMIT, NEVER_PUT)


@dataclass
class Differences:
    """Messages by reason, and images that have any."""

    messages: Counter[str] = field(default_factory=Counter)
    images: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def count(self, found: Counter[str]) -> None:
        self.messages += found
        self.images += Counter(dict.fromkeys(found, 1))


HEAD = (
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
"""Fields that the CRC of the body says nothing about, and no place either."""


def recovered_by_us(path: Path) -> tuple[Served, bool]:
    """What we serve after our recovery, and whether damage stays in the log.

    A directory that an open refuses (a CommitLog file in the middle was cut) is repaired first, as the error says.
    """
    try:
        with MessageStore.open(path, SIZES) as store:
            damaged = any("cut" not in one.why for one in store.recovery.quarantined)
    except StoreVersionError:
        repair_store(path, SIZES)
        MessageStore.open(path, SIZES).close()
        damaged = True
    return read_around(path), damaged


def read_around(path: Path) -> Served:
    """What we serve; slots whose record is lost are left out."""
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
                    message = judged_ours(one, codes[one.queue_offset - low])
                    found[message.place] = message
                offset = max(got.next_begin_offset, offset + 1)
    return found


def compare(image: Image, apache: list[JudgedMessage] | None, ours: Served, into: Differences) -> None:
    """Count what differs; what no reason explains goes to `into.wrong`."""
    theirs: Served = {} if apache is None else {one.place: one for one in apache}
    found: Counter[str] = Counter()
    for place, message in theirs.items():
        if ours.get(place) == message:
            continue
        reason = why_not_ours(image, message, theirs, ours)
        if reason is None:
            into.wrong.append(
                f"{image.path.name} ({image.kind}, {image.what}): Java serves {place}, we {ours.get(place)}"
            )
        else:
            found[reason] += 1
    their_end = max((one.phy_offset + one.store_size for one in theirs.values()), default=0)
    for place, message in ours.items():
        if image.truth.get(place) != message and not is_unprotected_name(image, message):
            into.wrong.append(f"{image.path.name} ({image.kind}, {image.what}): {place} was never put like that")
        elif image.truth.get(place) != message:
            found[UNPROTECTED] += 1
        elif place not in theirs:
            behind = message.phy_offset >= their_end
            found[REFUSED if apache is None else BEHIND_DAMAGE if behind and image.damage >= 0 else LEFT_OUT] += 1
    into.count(found)


def reads_the_same(image: Image, left: list[JudgedMessage], ours: Served, *, damaged: bool) -> bool:
    """Whether Java serves of the directory that we recovered what we serve of it.

    A damaged record stays where it is: Java ends the log there, serves less, or hands out what is damaged, also where
    that is a field which no message shows.
    """
    theirs = {one.place: one for one in left}
    if not damaged:
        return theirs == ours
    return all(
        ours.get(place) == one
        or image.truth.get(place) != one
        or one.phy_offset <= image.damage < one.phy_offset + one.store_size
        for place, one in theirs.items()
    )


def is_unprotected(message: JudgedMessage, truth: JudgedMessage | None) -> bool:
    """Whether a message differs from what was put only where no reader looks."""
    if truth is None:
        return False
    return replace(truth, **{name: getattr(message, name) for name in HEAD}) == message


def is_unprotected_name(image: Image, message: JudgedMessage) -> bool:
    """As `is_unprotected`; the topic and the queue that a damaged record without a CRC names are others as well."""
    if is_unprotected(message, image.truth.get(message.place)):
        return True
    original = next((one for one in image.truth.values() if one.phy_offset == message.phy_offset), None)
    hit = message.phy_offset <= image.damage < message.phy_offset + message.store_size
    return hit and original is not None and original.body == message.body


def why_not_ours(image: Image, message: JudgedMessage, theirs: Served, ours: Served) -> str | None:
    """Why we are right not to serve what Java serves; None where we are not."""
    truth, mine = image.truth.get(message.place), ours.get(message.place)
    if is_unprotected(message, truth) and mine is not None and is_unprotected(mine, truth):
        return UNPROTECTED
    if message.phy_offset <= image.damage < message.phy_offset + message.store_size and mine is None:
        return NEVER_PUT if message != truth else ITS_CRC
    if truth != message:
        return NEVER_PUT if message.place not in ours or mine == truth else None
    for commit in image.commits:
        if commit.begin_offset <= message.phy_offset < commit.end_offset:
            there, of_ours, whole = (
                sum(
                    commit.begin_offset <= one.phy_offset < commit.end_offset and one == image.truth.get(one.place)
                    for one in every.values()
                )
                for every in (theirs, ours, image.truth)
            )
            if of_ours == 0 and there < whole:
                return HALF_A_COMMIT
    cut_there = all(one.phy_offset + one.store_size <= image.damage for one in ours.values())
    return ONLY_OURS_SEES if image.synced <= image.damage < message.phy_offset and cut_there else None


def read_copies(
    apache: ApacheStore, stores: list[Path], room: Path, queues: list[tuple[str, int]]
) -> dict[str, list[JudgedMessage] | None]:
    """Return what Apache serves of copies of the directories, by their names; see `ApacheStore.read_each`."""
    for one in stores:
        shutil.copytree(one, room / one.name)
    found = apache.read_each([room / one.name for one in stores], SIZES, queues)
    for one in found:
        shutil.rmtree(one)
    return {one.name: messages for one, messages in found.items()}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_what_apache_recovers_we_recover(tmp_path: Path) -> None:
    judges = {one: ApacheStore(one) for one in versions("5.3.3", of=VERSIONS_5)}
    judges["5.5.0 accelerated"] = ApacheStore("5.5.0", "enableAcceleratedRecovery=true")
    seen, compared = Differences(), Counter[str]()
    for seed in range(SEED, SEED + RUNS):
        images = make_images(tmp_path / "images", seed)
        ours: dict[Path, Served] = {}
        with_damage = set()
        for image in images:
            mine = tmp_path / "ours" / image.path.name
            shutil.copytree(image.path, mine)
            ours[image.path], damaged = recovered_by_us(mine)
            if damaged:
                with_damage.add(image.path)
        queues = sorted({place[:2] for place in images[0].truth})
        for version, apache in judges.items():
            served = read_copies(apache, [one.path for one in images], tmp_path / version / "theirs", queues)
            again = read_copies(
                apache, [tmp_path / "ours" / one.path.name for one in images], tmp_path / version, queues
            )
            for image in images:
                compare(image, served[image.path.name], ours[image.path], seen)
                left = again[image.path.name]
                if left is None or not reads_the_same(
                    image, left, ours[image.path], damaged=image.path in with_damage or image.damage >= 0
                ):
                    seen.wrong.append(
                        f"{image.path.name} ({image.kind}, {image.what}): {version} reads our recovery differently"
                    )
        compared.update(image.kind for image in images)
        if not seen.wrong:  # what is wrong can be looked at
            shutil.rmtree(tmp_path / "images")
            shutil.rmtree(tmp_path / "ours")
    print(f"\ncrash images: {sum(compared.values())} ({', '.join(f'{n} {kind}' for kind, n in compared.items())})")
    for reason, messages in sorted(seen.messages.items()):
        side = "less" if reason in OURS_LESS else "same" if reason == UNPROTECTED else "more"
        print(f"{side}: {messages:>6} messages in {seen.images[reason]:>3} images: {reason}")
    assert seen.wrong == [], f"seed {SEED}"
    assert sum(compared.values()) == RUNS * IMAGES_A_RUN
    assert set(compared) == set(KINDS)
