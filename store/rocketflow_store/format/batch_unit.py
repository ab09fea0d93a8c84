"""One unit of a BatchCQ topic's queue: the position in the CommitLog of a record of one or more messages, in 46 bytes.

    offset  size  field             type
    0       8     phy_offset        int64, big-endian; first byte of the record in the CommitLog
    8       4     msg_size          int32; the whole record
    12      8     tags_code         int64; Java hash of TAGS (0 without)
    20      8     store_timestamp   int64, ms
    28      8     msg_base_offset   int64; queue offset of the record's first message
    36      2     batch_size        int16; messages in the record
    38      4     compacted_offset  int32; -1
    42      4     reserved          int32; 0

A unit's position in the file says nothing about its queue offset: units are found by `msg_base_offset`, which rises.
"""

from __future__ import annotations

import struct
from typing import Final

BATCH_UNIT_STRUCT: Final = struct.Struct(">qiqqqhii")
BATCH_UNIT_SIZE: Final = 46
assert BATCH_UNIT_STRUCT.size == BATCH_UNIT_SIZE
