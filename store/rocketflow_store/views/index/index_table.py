"""The bytes of an IndexFile: header, hash slots, entries, as views on its map. Layout: `format.index_layout`."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from rocketflow_store.format.index_layout import ENTRY_SIZE, ENTRY_STRUCT, HEADER_SIZE, HEADER_STRUCT, SLOT_SIZE
from rocketflow_store.model.shared_numbers import number
from rocketflow_store.records.arrow.unit_types import ENTRY_DTYPE

if TYPE_CHECKING:
    import mmap

    import numpy.typing as npt


class IndexHeader:
    """Header fields; `index_count` is the number of the next entry."""

    __slots__ = ("numbers",)

    begin_timestamp = number(0)
    end_timestamp = number(1)
    begin_phy_offset = number(2)
    end_phy_offset = number(3)
    hash_slot_count = number(4)
    index_count = number(5)

    def __init__(
        self,
        begin_timestamp: int = 0,
        end_timestamp: int = 0,
        begin_phy_offset: int = 0,
        end_phy_offset: int = 0,
        hash_slot_count: int = 0,
        index_count: int = 1,
    ) -> None:
        phy_offsets = begin_phy_offset, end_phy_offset
        self.numbers = array("q", (begin_timestamp, end_timestamp, *phy_offsets, hash_slot_count, index_count))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexHeader) and self.numbers == other.numbers

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"IndexHeader{tuple(self.numbers)}"


class IndexTable:
    """The content of a file with `hash_slot_num` slots and room for `index_num - 1` entries."""

    def __init__(self, mapped: mmap.mmap, hash_slot_num: int, index_num: int) -> None:
        self.mapped, self.hash_slot_num, self.index_num = mapped, hash_slot_num, index_num
        self.entries_at = HEADER_SIZE + SLOT_SIZE * hash_slot_num
        self.read_header()

    def read_header(self) -> None:
        """Read the header from the file."""
        self.header = IndexHeader(*HEADER_STRUCT.unpack_from(self.mapped, 0))
        self.header.index_count = max(self.header.index_count, 1)

    def write_header(self) -> None:
        HEADER_STRUCT.pack_into(self.mapped, 0, *self.header.numbers)

    @property
    def count(self) -> int:
        """The number of entries in the file."""
        return min(self.header.index_count, self.index_num) - 1

    def slots(self) -> npt.NDArray[np.int32]:
        """Return the slot table, a view on the file."""
        view: npt.NDArray[np.int32] = np.frombuffer(self.mapped, ">i4", self.hash_slot_num, HEADER_SIZE)
        return view

    def slot(self, number: int) -> int:
        """Return the number of the entry that a slot names."""
        position = HEADER_SIZE + SLOT_SIZE * number
        return int.from_bytes(self.mapped[position : position + SLOT_SIZE], "big", signed=True)

    def entries(self, count: int | None = None) -> npt.NDArray[np.void]:
        """Return entries 0 (never used) to `count` (by default the last one), a view on the file."""
        number = (self.count if count is None else count) + 1
        return np.frombuffer(self.mapped, ENTRY_DTYPE, number, self.entries_at)

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """Return an entry's hash, physical offset, time difference and link."""
        found: tuple[int, int, int, int] = ENTRY_STRUCT.unpack_from(self.mapped, self.entries_at + ENTRY_SIZE * number)
        return found
