"""RocketMQ's timer files `timerwheel` and `timerlog/`; everything big-endian.

wheel slot  0   tick        int64  the time divided by the precision; a slot holds a tick only if it names it
            8   first       int64  position in the timer log of the tick's oldest record
            16  last        int64  of its newest one
            24  num         int32  messages that wait (a record that deletes one counts -1)
            28  magic       int32  0
log record  0   size        int32  52
            4   previous    int64  position of the record before it of the same tick, -1 = none
            12  magic       int32  bits: MAGIC always, ROLL, DELETE
            16  write_ms    int64  when it was written
            24  delay_ms    int32  due at write_ms + delay_ms
            28  phy_offset  int64  of the message in the CommitLog
            36  msg_size    int32
            40  topic_hash  int32  of the topic it is delivered to
            44  reserved    int64
log blank   0   size        int32  remaining bytes of the file
            4   -           int64
            12  magic       int32  that of a blank CommitLog record
"""

from __future__ import annotations

import struct
from typing import Final

TICKS_OF_A_WHEEL: Final = 604_800
WHEEL_SLOTS: Final = 2 * TICKS_OF_A_WHEEL
SLOT_SIZE: Final = 32
SLOT_STRUCT: Final = struct.Struct(">qqqii")
WHEEL_SIZE: Final = WHEEL_SLOTS * SLOT_SIZE
assert SLOT_STRUCT.size == SLOT_SIZE
assert WHEEL_SIZE == 38_707_200

MAGIC: Final = 1
ROLL: Final = 2
DELETE: Final = 4
TIMER_UNIT_SIZE: Final = 52
TIMER_UNIT_STRUCT: Final = struct.Struct(">iqiqiqiiq")
TIMER_BLANK: Final = struct.Struct(">iqi")
assert TIMER_UNIT_STRUCT.size == TIMER_UNIT_SIZE
assert TIMER_BLANK.size == 16
