"""One ConsumeQueue unit: the position of a message in the CommitLog, in 20 bytes.

    offset  size  field       type
    0       8     phy_offset  int64, big-endian; first byte of the record in the CommitLog
    8       4     msg_size    int32; the whole record
    12      8     tags_code   int64; Java hash of TAGS (0 without), delivery time on the schedule topic

Files are preallocated: an all-zero unit means "never written", not "message at 0". If a queue starts after the
first slot of its file, the slots before it are filled with pre-blank units (0, 0x7FFFFFFF, 0).
"""

from __future__ import annotations

import struct
from typing import Final

UNIT_STRUCT: Final = struct.Struct(">qiq")
UNIT_SIZE: Final = 20
assert UNIT_STRUCT.size == UNIT_SIZE

PRE_BLANK_SIZE: Final = 0x7FFFFFFF
PRE_BLANK_UNIT: Final = UNIT_STRUCT.pack(0, PRE_BLANK_SIZE, 0)

LOST_TAGS_CODE: Final = int.from_bytes(b"RF lost\0", "big")
"""In a unit that RocketFlow wrote: its message is known to be lost; its queue offset must not be reused."""

MAX_EXT_ADDRESS: Final = -2147483649
"""A tags code at or below this is the address of a ConsumeQueueExt unit."""
