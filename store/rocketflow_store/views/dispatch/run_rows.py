"""The input of dispatch for records that were placed one after the other: their units and their index keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rocketflow_store.format.consume_queue_unit import UNIT_SIZE, UNIT_STRUCT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow_store.records.encoding.batch_records import BatchRecords

pack_unit = UNIT_STRUCT.pack
"""Return the bytes of a unit: physical offset, size, tags code."""


class SideRow(NamedTuple):
    """A record with units in other queues than plain ones: of a BatchCQ topic, or of LMQs (`lmq`).

    `queue_id` is -1 if the record's own queue gets no unit here: it has a plain one, or none.
    """

    topic: str
    queue_id: int
    queue_offset: int
    phy_offset: int
    size: int
    tags_code: int
    store_timestamp: int
    batch_num: int
    lmq: tuple[tuple[str, int], ...]


class QueueUnits:
    """Encoded units of one queue that follow each other from `first` on."""

    __slots__ = ("first", "octets", "queue_id", "topic")

    def __init__(self, topic: str, queue_id: int, first: int) -> None:
        self.topic, self.queue_id, self.first = topic, queue_id, first
        self.octets = bytearray()

    @property
    def next_offset(self) -> int:
        """The queue offset after the last unit."""
        return self.first + len(self.octets) // UNIT_SIZE

    def tags_codes(self) -> set[int]:
        """Return the tags codes of the units."""
        octets = bytes(self.octets)
        codes = {octets[at : at + 8] for at in range(UNIT_SIZE - 8, len(octets), UNIT_SIZE)}
        return {int.from_bytes(code, "big", signed=True) for code in codes}


class RunRows:
    """Rows of a run; `keys` are index keys as `topic#key`, or their hashes, each with its record's physical offset."""

    __slots__ = (
        "_current",
        "first_phy_offset",
        "has_texts",
        "key_offsets",
        "keys",
        "last_with_unit",
        "side",
        "store_timestamp",
        "units",
    )

    def __init__(self, store_timestamp: int) -> None:
        self.store_timestamp = store_timestamp
        self.first_phy_offset = self.last_with_unit = -1
        """Physical offsets of the first record, and of the last one that has a ConsumeQueue unit; -1: none."""
        self.units: list[QueueUnits] = []
        self._current: dict[tuple[str, int], QueueUnits] = {}
        self.keys: list[str | int] = []
        self.has_texts = False
        """True if some keys are not hashes."""
        self.key_offsets: list[int] = []
        self.side: list[SideRow] = []

    def add(
        self,
        queue: tuple[str, int] | None,
        queue_offset: int,
        phy_offset: int,
        size: int,
        tags_code: int,
        keys: Sequence[str],
    ) -> None:
        """Add a record: its unit in `queue` (None: it gets none there) and its index keys, as `topic#key`."""
        if self.first_phy_offset < 0:
            self.first_phy_offset = phy_offset
        if queue is not None:
            self._octets(queue, queue_offset).extend(pack_unit(phy_offset, size, tags_code))
            self.last_with_unit = phy_offset
        if keys:
            self.has_texts = True
            self.keys += keys
            self.key_offsets += [phy_offset] * len(keys)

    def add_batch(self, queue: tuple[str, int], queue_offset: int, places: list[int], batch: BatchRecords) -> None:
        """Add the records of a batch, at consecutive offsets of `queue` and at `places` of the log."""
        if self.first_phy_offset < 0:
            self.first_phy_offset = places[0]
        self._octets(queue, queue_offset).extend(b"".join(map(pack_unit, places, batch.sizes, batch.tags_codes)))
        self.last_with_unit = places[-1]
        self.has_texts = True
        for phy_offset, keys in zip(places, batch.keys):
            self.keys += keys
            self.key_offsets += [phy_offset] * len(keys)

    def add_placed(
        self,
        queue: tuple[str, int],
        queue_offset: int,
        phy_offset: int,
        units: bytes,
        hashes: list[int],
        places: list[int],
    ) -> None:
        """Add records from `phy_offset` on, at consecutive offsets of `queue`; `places` are those of the `hashes`."""
        if self.first_phy_offset < 0:
            self.first_phy_offset = phy_offset
        self._octets(queue, queue_offset).extend(units)
        self.last_with_unit = int.from_bytes(units[-UNIT_SIZE : 8 - UNIT_SIZE], "big")
        self.keys += hashes
        self.key_offsets += places

    def add_sent(
        self,
        queues: Sequence[tuple[str, int, int]],
        firsts: Sequence[int],
        ends: tuple[int, int],
        units: Sequence[bytes],
        hashes: list[int],
        places: list[int],
    ) -> None:
        """Add records with units in queues from `firsts` on; `ends` are the places of the first and the last record."""
        if self.first_phy_offset < 0:
            self.first_phy_offset = ends[0]
        for (topic, queue_id, _), first, own in zip(queues, firsts, units):
            self._octets((topic, queue_id), first).extend(own)
        self.last_with_unit = ends[1]
        self.keys += hashes
        self.key_offsets += places

    def _octets(self, queue: tuple[str, int], queue_offset: int) -> bytearray:
        """Return the bytes to which the queue's units from `queue_offset` on are appended."""
        units = self._current.get(queue)
        if units is None or units.first + len(units.octets) // UNIT_SIZE != queue_offset:
            units = self._current[queue] = QueueUnits(*queue, queue_offset)
            self.units.append(units)
        return units.octets

    def add_side(self, row: SideRow) -> None:
        """Add a record with units in BatchCQ queues or LMQs."""
        self.side.append(row)
        if row.queue_id >= 0:
            self.last_with_unit = row.phy_offset
