"""RocketMQ versions by the bytes of their derived files.

5.3  index entries for UNIQ_KEY and KEYS; 40 bytes of checkpoint. Also covers 4.9 and everything before 5.4.0.
5.5  also an index entry for TAGS (since 5.4.0); `logicsPhysicalOffset` in the checkpoint (since 5.5.0).
"""

from __future__ import annotations

from typing import Final

PROFILE_53: Final = "5.3"
PROFILE_55: Final = "5.5"
PROFILES: Final = (PROFILE_53, PROFILE_55)
