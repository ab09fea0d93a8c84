"""Bits of a record's sysFlag (RocketMQ's MessageSysFlag)."""

from __future__ import annotations

from typing import Final

COMPRESSED_FLAG: Final = 0x1
TRANSACTION_MASK: Final = 0xC
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_COMMIT: Final = 0x8
TRANSACTION_ROLLBACK: Final = 0xC
NEVER_QUEUED: Final = (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)
"""Kinds of records that get no ConsumeQueue unit."""
BORN_HOST_V6_FLAG: Final = 0x10
STORE_HOST_V6_FLAG: Final = 0x20
NEED_UNWRAP_FLAG: Final = 0x40
INNER_BATCH_FLAG: Final = 0x80
WRAPPED: Final = NEED_UNWRAP_FLAG | INNER_BATCH_FLAG
"""Both bits mark a record whose body is a batch of messages."""
COMPRESSION_TYPE_SHIFT: Final = 8
COMPRESSION_TYPE_MASK: Final = 0x700
COMPRESSION_MASK: Final = COMPRESSED_FLAG | COMPRESSION_TYPE_MASK
"""The bits that say how a body is compressed."""
