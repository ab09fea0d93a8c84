"""The verdict of every crash test: messages lost, doubled, or made up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rocketflow_store import StoreReader
from rocketflow_store.fsck.verify import verify_store
from tests.support import sometimes
from tests.support.independent_reader import queue_messages
from tests.support.workload import number_of

Place = tuple[int, int]
"""(queue id, queue offset)"""


@dataclass
class Verdict:
    """The problems found in a store; all fields are empty if there are none."""

    lost: list[int] = field(default_factory=list)
    phantom: list[int] = field(default_factory=list)
    doubled: list[int] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    """Messages that readers get although the store refused them."""
    disorder: list[str] = field(default_factory=list)
    """Queues with a gap, or whose physical offsets or store timestamps do not rise."""
    findings: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        wrong = self.lost or self.phantom or self.doubled or self.moved or self.refused or self.disorder
        return not (wrong or self.findings)


def numbers_in_topic(store: Path, topic: str) -> dict[Place, int]:
    """Return {place: number} of a topic's messages; assert that the product and the independent reader agree."""
    product: dict[Place, int] = {}
    with StoreReader(store) as reader:
        for queue in reader.queues(topic):
            for batch in reader.read(topic, queue, *reader.bounds(topic, queue), columns=["queueOffset", "body"]):
                for row in batch.to_pylist():
                    product[queue, row["queueOffset"]] = number_of(row["body"])
    independent = {place: number_of(record.body) for place, record in queue_messages(store, topic).items()}
    assert product == independent
    return product


def check(
    store: Path,
    acked: dict[int, Place],
    attempted: set[int],
    topic: str = "t",
    *,
    refused: Collection[int] = frozenset(),
) -> Verdict:
    """Compare acknowledgements ({number: place}) with the messages that two readers find in the store."""
    stored = numbers_in_topic(store, topic)
    counts = Counter(stored.values())
    for folder, name in (("commitlog", sometimes.ROLL), ("index", sometimes.SEVERAL_INDEX_FILES)):
        if (store / folder).is_dir() and len(list((store / folder).iterdir())) > 1:
            sometimes.hit(name)
    return Verdict(
        lost=sorted(set(acked) - set(counts)),
        phantom=sorted(set(counts) - attempted),
        doubled=sorted(number for number, count in counts.items() if count > 1),
        moved=sorted(number for number, place in acked.items() if stored.get(place) != number),
        refused=sorted(set(counts) & set(refused)),
        disorder=disorder(store, topic),
        findings=findings(store),
    )


def disorder(store: Path, topic: str) -> list[str]:
    """Return the queues of a topic with gaps, or whose physical offsets or store timestamps do not rise."""
    found = []
    with StoreReader(store) as reader:
        for queue in reader.queues(topic):
            low, high = reader.bounds(topic, queue)
            columns = ["queueOffset", "physicalOffset", "storeTimestamp"]
            rows = [row for batch in reader.read(topic, queue, low, high, columns) for row in batch.to_pylist()]
            if [row["queueOffset"] for row in rows] != [*range(low, high)]:
                found.append(f"queue {queue} has gaps in [{low}, {high})")
            for name in ("physicalOffset", "storeTimestamp"):
                values = [row[name] for row in rows]
                if values != sorted(values):
                    found.append(f"queue {queue}: {name} falls")
    return found


def check_copy(store: Path, numbers: Iterable[int], topic: str = "out") -> Verdict:
    """Compare the rows that a query had to copy with its output topic: the multisets must be equal."""
    wanted, counts = set(numbers), Counter(numbers_in_topic(store, topic).values())
    return Verdict(
        lost=sorted(wanted - set(counts)),
        phantom=sorted(set(counts) - wanted),
        doubled=sorted(number for number, count in counts.items() if count > 1),
        findings=findings(store),
    )


def findings(store: Path) -> list[str]:
    """Return the findings of `store verify`, a line each."""
    return [f"{one.kind} {one.file} {one.offset}" for one in verify_store(store).findings]
