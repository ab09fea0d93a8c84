"""The part of a record before its body, as fields of fixed width to be filled for many records at once."""

from __future__ import annotations

from typing import Final

BEFORE_HOSTS: Final = [
    ("total_size", ">i4"),
    ("magic_code", ">i4"),
    ("body_crc", ">i4"),
    ("queue_id", ">i4"),
    ("flag", ">i4"),
    ("queue_offset", ">i8"),
    ("phy_offset", ">i8"),
    ("sys_flag", ">i4"),
    ("born_timestamp", ">i8"),
]
"""Up to the born host (numpy's fields)."""
AFTER_HOSTS: Final = [("reconsume_times", ">i4"), ("prepared_transaction_offset", ">i8"), ("body_size", ">i4")]
"""After the store host."""
