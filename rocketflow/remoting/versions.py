"""Names of RocketMQ's versions, which clients and brokers announce by number.

RocketMQ's source: common/MQVersion.java.
"""

from __future__ import annotations

from typing import Final

_V4_0_0_SNAPSHOT: Final = 212
_V5_9_9: Final = 611


def version_name(ordinal: int) -> str:
    """Return the name of a version from 4.0.0 on, as in V5_3_3; V3 for an older one."""
    if ordinal > _V5_9_9:
        return "HIGHER_VERSION"
    if ordinal < _V4_0_0_SNAPSHOT:
        return "V3"
    number, is_release = divmod(ordinal - _V4_0_0_SNAPSHOT, 2)
    major, rest = divmod(number, 100)
    return f"V{4 + major}_{rest // 10}_{rest % 10}{'' if is_release else '_SNAPSHOT'}"
