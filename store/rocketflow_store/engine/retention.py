"""Decisions of retention, as RocketMQ makes them: which files are deleted. No file is touched here.

The oldest CommitLog files are deleted when their time is up: in the hours of `deleteWhen`, when the disk is used beyond
`diskMaxUsedSpaceRatio`, or on request. Beyond `diskSpaceCleanForciblyRatio` they are deleted at any age, and
beyond `diskSpaceWarningLevelRatio` puts are refused too. ConsumeQueue and index files follow the log's minimum offset.
The newest file of each kind always stays: it has the offset at which to continue.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from itertools import takewhile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow_store.settings.store_config import StoreConfig

_HOUR_MS: Final = 3_600_000


class DiskPressure(enum.Enum):
    """Usage of the disk, by the three ratios."""

    NONE = 0
    OVER_MAX = 1
    """Expired files are deleted whatever the hour."""
    CLEAN_FORCIBLY = 2
    """The oldest files are deleted whatever their age."""
    FULL = 3
    """Like CLEAN_FORCIBLY, and puts are refused."""

    @property
    def cleans_forcibly(self) -> bool:
        """True if files are deleted at any age."""
        return self in (DiskPressure.CLEAN_FORCIBLY, DiskPressure.FULL)


class CleanReason(enum.Enum):
    """Reason why files may be deleted now."""

    HOUR = "deleteWhen"
    DISK = "diskMaxUsedSpaceRatio"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class FileAge:
    """A log file: bytes [offset, end_offset), last written to at `modified_ms`."""

    offset: int
    end_offset: int
    modified_ms: int


def is_delete_hour(now_ms: int, delete_when: str, zone: tzinfo | None = None) -> bool:
    """Return True if the hour of `now_ms` is in `delete_when` ("04", "02;14"), in local time or in `zone`."""
    hour = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone).hour
    return any(int(one) == hour for one in delete_when.split(";") if one.strip())


def disk_pressure(used_percent: int, config: StoreConfig) -> DiskPressure:
    """Classify a disk with `used_percent` in use; -1 (unknown) is treated as in RocketMQ."""
    warning = min(max(config.disk_space_warning_level_ratio, 35), 90)
    forcibly = min(max(config.disk_space_clean_forcibly_ratio, 30), 85)
    most = min(max(config.disk_max_used_space_ratio, 10), 95)
    if used_percent > warning:
        return DiskPressure.FULL
    if used_percent > forcibly:
        return DiskPressure.CLEAN_FORCIBLY
    return DiskPressure.OVER_MAX if used_percent < 0 or used_percent > most else DiskPressure.NONE


def clean_reason(
    now_ms: int, pressure: DiskPressure, config: StoreConfig, *, manual: bool = False
) -> CleanReason | None:
    """Return why expired files are deleted now, None if they are not."""
    if manual:
        return CleanReason.MANUAL
    if pressure is not DiskPressure.NONE:
        return CleanReason.DISK
    return CleanReason.HOUR if is_delete_hour(now_ms, config.delete_when) else None


def expired_log_files(
    files: Sequence[FileAge], now_ms: int, pressure: DiskPressure, config: StoreConfig, *, removable_to: int
) -> int:
    """Return how many of the oldest files one round deletes: expired ones, or any under pressure, without a gap.

    Everything before the physical offset `removable_to` is durable and dispatched.
    """
    at_once = config.clean_file_forcibly_enable and pressure.cleans_forcibly
    reserved_ms = config.file_reserved_time * _HOUR_MS

    def goes(one: FileAge) -> bool:
        return one.end_offset <= removable_to and (at_once or now_ms >= one.modified_ms + reserved_ms)

    going = list(takewhile(goes, files[:-1]))
    return min(len(going), config.delete_file_batch_max)


def expired_queue_files(last_phy_offsets: Sequence[int], min_phy_offset: int) -> int:
    """Return how many of a queue's oldest files are deleted: those whose last unit points before the log.

    `last_phy_offsets` has an element for each file, oldest first; the newest file's is not used.
    """
    return len(list(takewhile(lambda last: last < min_phy_offset, last_phy_offsets[:-1])))


def expired_index_files(end_phy_offsets: Sequence[int], min_phy_offset: int) -> int:
    """Return how many of the oldest index files are deleted: those that end before the log; the newest stays."""
    return len(list(takewhile(lambda end: end < min_phy_offset, end_phy_offsets[:-1])))
