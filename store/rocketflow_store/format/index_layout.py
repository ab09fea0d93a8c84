"""IndexFile: header of 40 bytes, hash slots of 4, entries of 20; everything big-endian.

header  0   begin_timestamp  int64  store time of the first entry
        8   end_timestamp    int64  store time of the last entry
        16  begin_phy_offset int64
        24  end_phy_offset   int64
        32  hash_slot_count  int32  slots that got their first entry
        36  index_count      int32  number of the NEXT entry; starts at 1, entry 0 is never used
slot    4 bytes: number of the newest entry of the chain, 0 = empty
entry   0   key_hash    int32
        4   phy_offset  int64
        12  time_diff   int32  seconds since begin_timestamp
        16  prev_index  int32  next older entry of the chain, 0 = end
"""

from __future__ import annotations

import struct
from typing import Final

HEADER_STRUCT: Final = struct.Struct(">qqqqii")
INDEX_NAME_DIGITS: Final = 17
"""Digits of the time that names an index file: yyyyMMddHHmmssSSS."""
HEADER_SIZE: Final = 40
SLOT_SIZE: Final = 4
ENTRY_SIZE: Final = 20
ENTRY_STRUCT: Final = struct.Struct(">iqii")
assert HEADER_STRUCT.size == HEADER_SIZE
assert ENTRY_STRUCT.size == ENTRY_SIZE

DEFAULT_HASH_SLOT_NUM: Final = 5_000_000
DEFAULT_INDEX_NUM: Final = 20_000_000


def index_file_size(hash_slot_num: int, index_num: int) -> int:
    """Return the size of an index file in bytes."""
    return HEADER_SIZE + SLOT_SIZE * hash_slot_num + ENTRY_SIZE * index_num


def layout_of_size(file_size: int) -> tuple[int, int] | None:
    """Return (slots, entries) of a file of `file_size` bytes under RocketMQ's 1:4 ratio, None if that does not fit.

    hash_slot_num * 4 + index_num * 20 with index_num = 4 * hash_slot_num gives 84 bytes per slot.
    """
    slots, rest = divmod(file_size - HEADER_SIZE, SLOT_SIZE + 4 * ENTRY_SIZE)
    return (slots, 4 * slots) if rest == 0 and slots > 0 else None
