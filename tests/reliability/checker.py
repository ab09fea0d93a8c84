"""Was anything lost, doubled, or made up? One answer for every crash test."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from rocketflow_store import StoreReader
from rocketflow_store.verify import verify_store
from tests.reliability.independent_reader import queue_messages
from tests.reliability.workload import number_of


@dataclass
class Verdict:
    """Everything here must be empty."""

    lost: list[int] = field(default_factory=list)
    phantom: list[int] = field(default_factory=list)
    doubled: list[int] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.lost or self.phantom or self.doubled or self.moved or self.findings)


def check(store: Path, acked: dict[int, tuple[int, int]], attempted: set[int]) -> Verdict:
    """Compare acknowledgements ({number: (queue id, queue offset)}) with what is there, read in two ways."""
    verdict = Verdict()
    independent = {place: number_of(record.body) for place, record in queue_messages(store, "t").items()}
    product: dict[tuple[int, int], int] = {}
    with StoreReader(store) as reader:
        for queue in reader.queues("t"):
            for batch in reader.read("t", queue, *reader.bounds("t", queue), columns=["queueOffset", "body"]):
                for row in batch.to_pylist():
                    product[queue, row["queueOffset"]] = number_of(row["body"])
    assert product == independent
    there = Counter(product.values())
    verdict.lost = sorted(set(acked) - set(there))
    verdict.phantom = sorted(set(there) - attempted)
    verdict.doubled = sorted(number for number, count in there.items() if count > 1)
    verdict.moved = sorted(number for number, place in acked.items() if product.get(place) != number)
    verdict.findings = [f"{one.kind} {one.file} {one.offset}" for one in verify_store(store).findings]
    return verdict
