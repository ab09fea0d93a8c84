"""Every setting of a store in one table: its key, kind, default, bounds, and when a value takes effect.

StoreConfig has its defaults and bounds from here, the loader its keys, broker.conf and the environment the keys and
kinds of RocketFlow's own. `broker_conf_keys` has the kinds of all keys of RocketMQ, most of which no store uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.format.index_layout import DEFAULT_HASH_SLOT_NUM, DEFAULT_INDEX_NUM
from rocketflow_store.format.record import BLANK_SIZE, MIN_RECORD_SIZE
from rocketflow_store.model.errors import StoreConfigError
from rocketflow_store.model.status import FlushDiskType

OWN_PREFIX: Final = "rocketflow."
"""Begins the keys of RocketFlow alone."""
_INT_MAX: Final = (1 << 31) - 1
_TIMER_LOG_FILE: Final = 52 + 16
"""The smallest file of a timer log: one record and the blank after the last."""
_DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


class Effect(Enum):
    """When a value takes effect."""

    OPEN = "at the next open"
    FILES = "with the first file of its kind: files that exist keep their size"
    NONE = "never: it is kept as it is given"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: `field` of StoreConfig, RocketMQ's `key` (or RocketFlow's own), what values it takes.

    `since` is the oldest of the releases 4.9.7, 5.1.4, 5.3.3, 5.4.0, 5.5.0, 5.5.1 whose broker takes the key from its
    file; None where none does. `bounds` are the lowest and the highest value; outside of them a number is moved to the
    nearest one, as RocketMQ moves it, but sizes of files are refused: a broker does not start with them.
    """

    field: str
    default: Any
    unit: str
    bounds: tuple[int, int] | None
    since: str | None
    key: str
    choices: tuple[str, ...]
    effect: Effect

    def check(self, value: Any) -> None:
        """Raise StoreConfigError for a number outside the bounds."""
        if self.bounds is not None:
            low, high = self.bounds
            if not isinstance(value, int) or not low <= value <= high:
                raise StoreConfigError(self.key, value, f"must be between {low} and {high}")

    def fitted(self, value: Any) -> Any:
        """Return the value that RocketMQ makes of a number outside the bounds."""
        if self.bounds is None or self.effect is Effect.FILES or not isinstance(value, int):
            return value
        low, high = self.bounds
        return min(max(value, low), high)


def _row(
    field: str,
    default: Any,
    unit: str = "",
    bounds: tuple[int, int] | None = None,
    *,
    since: str | None = "4.9.7",
    key: str = "",
    choices: tuple[str, ...] = (),
    effect: Effect = Effect.OPEN,
) -> Setting:
    head, *rest = field.split("_")
    key = key or head + "".join(word.capitalize() for word in rest)
    return Setting(field, default, unit, bounds, since, key, choices, effect)


SETTINGS: Final = (
    _row("store_path_commit_log", ""),
    _row("read_only_commit_log_store_paths", ""),
    _row("store_path_consume_queue", "", since=None),
    _row("store_path_index", "", since=None),
    _row("multi_path_splitter", ",", since=None),
    _row("flush_disk_type", FlushDiskType.ASYNC_FLUSH, choices=("ASYNC_FLUSH", "SYNC_FLUSH")),
    _row("mapped_file_size_commit_log", 1 << 30, "bytes", (MIN_RECORD_SIZE + BLANK_SIZE, 1 << 31), effect=Effect.FILES),
    _row("mapped_file_size_consume_queue", 300_000 * UNIT_SIZE, "bytes", (UNIT_SIZE, 1 << 31), effect=Effect.FILES),
    _row("max_hash_slot_num", DEFAULT_HASH_SLOT_NUM, bounds=(1, 1 << 29), effect=Effect.FILES),
    _row("max_index_num", DEFAULT_INDEX_NUM, bounds=(2, 1 << 30), effect=Effect.FILES),
    _row("message_index_enable", True),
    _row("max_message_size", 4 << 20, "bytes", (1, 1 << 29)),
    _row("enabled_append_prop_crc", None, since="5.3.3", key="enabledAppendPropCRC"),
    _row("check_crc_on_recover", True, key="checkCRCOnRecover"),
    _row("profile", "", since=None, key=f"{OWN_PREFIX}profile"),
    _row("store_host", "127.0.0.1:10911", since=None),
    _row("broker_name", "broker-a"),
    _row("default_topic_queue_nums", 8, bounds=(1, 65_536)),
    _row("warm_maped_file_enable", False),
    _row("flush_least_pages_when_warm_maped_file", 4_096, "pages", (0, 1 << 20)),
    _row("flush_interval_commit_log", 500, "ms", (1, _INT_MAX)),
    _row("flush_commit_log_least_pages", 0, "pages", (0, _INT_MAX)),
    _row("flush_commit_log_thorough_interval", 10_000, "ms", (0, _INT_MAX)),
    _row("flush_commit_log_timed", True),
    _row("direct_io", False, since=None, key=f"{OWN_PREFIX}directIO"),
    _row("transient_store_pool_enable", False),
    _row("transient_store_pool_size", 5, bounds=(1, 1_024)),
    _row("fast_fail_if_no_buffer_in_store_pool", False),
    _row("commit_interval_commit_log", 200, "ms", (1, _INT_MAX)),
    _row("commit_commit_log_least_pages", 4, "pages", (0, _INT_MAX)),
    _row("commit_commit_log_thorough_interval", 200, "ms", (0, _INT_MAX)),
    _row("broker_role", "ASYNC_MASTER", choices=("ASYNC_MASTER", "SYNC_MASTER", "SLAVE")),
    _row("enable_controller_mode", False, since="5.1.4"),
    _row("flush_interval_consume_queue", 1_000, "ms", (1, _INT_MAX)),
    _row("flush_consume_queue_least_pages", 2, "pages", (0, _INT_MAX)),
    _row("flush_consume_queue_thorough_interval", 60_000, "ms", (0, _INT_MAX)),
    _row("sync_flush_timeout", 5_000, "ms", (1, _INT_MAX)),
    _row("max_async_put_message_requests", 5_000, "messages", (1, 1 << 20), since="5.1.4"),
    _row("enable_lmq", False),
    _row("enable_multi_dispatch", False),
    _row("max_lmq_consume_queue_num", 20_000, bounds=(0, 1 << 31)),
    _row(
        "mapper_file_size_batch_consume_queue",
        300_000 * BATCH_UNIT_SIZE,
        "bytes",
        (BATCH_UNIT_SIZE, 1 << 31),
        since="5.1.4",
        effect=Effect.FILES,
    ),
    _row("mapped_file_size_consume_queue_ext", 48 << 20, "bytes", (64, 1 << 31), effect=Effect.FILES),
    _row("use_reentrant_lock_when_put_message", True, effect=Effect.NONE),
    _row("message_delay_level", _DELAY_LEVELS),
    _row("timer_wheel_enable", True, since="5.1.4"),
    _row("timer_max_delay_sec", 259_200, "s", (0, 1 << 40), since="5.1.4"),
    _row("timer_precision_ms", 1_000, "ms", since="5.1.4"),
    _row("timer_roll_window_slot", 172_800, "ticks", (6, 604_800), since="5.1.4"),
    _row("timer_flush_interval_ms", 1_000, "ms", (1, _INT_MAX), since="5.1.4"),
    _row("timer_congest_num_each_slot", (1 << 31) - 1, "messages", (1, (1 << 31) - 1), since="5.1.4"),
    _row(
        "mapped_file_size_timer_log", 100 << 20, "bytes", (_TIMER_LOG_FILE, 1 << 31), since="5.1.4", effect=Effect.FILES
    ),
    _row("max_transfer_bytes_on_message_in_memory", 262_144, "bytes", (1, 1 << 31)),
    _row("max_transfer_count_on_message_in_memory", 32, "messages", (1, 1 << 31)),
    _row("max_transfer_bytes_on_message_in_disk", 65_536, "bytes", (1, 1 << 31)),
    _row("max_transfer_count_on_message_in_disk", 8, "messages", (1, 1 << 31)),
    _row("access_message_in_memory_max_ratio", 40, "percent", (0, 100)),
    _row("max_msgs_num_batch", 64, "messages"),
    _row("os_page_cache_busy_time_out_mills", 1_000, "ms", (1, _INT_MAX)),
    _row("clean_resource_interval", 10_000, "ms", (1, _INT_MAX)),
    _row("delete_when", "04"),
    _row("file_reserved_time", 72, "hours", (0, _INT_MAX)),
    _row("delete_commit_log_files_interval", 100, "ms", (0, _INT_MAX)),
    _row("delete_consume_queue_files_interval", 100, "ms", (0, _INT_MAX)),
    _row("destroy_maped_file_interval_forcibly", 120_000, "ms", (0, 1 << 31)),
    _row("redelete_hanged_file_interval", 120_000, "ms", (0, 1 << 31)),
    _row("delete_file_batch_max", 10, bounds=(1, _INT_MAX), since="5.1.4"),
    _row("disk_max_used_space_ratio", 75, "percent", (0, 100)),
    _row("disk_space_clean_forcibly_ratio", 85, "percent", (0, 100), since="5.1.4"),
    _row("disk_space_warning_level_ratio", 90, "percent", (0, 100), since="5.1.4"),
    _row("clean_file_forcibly_enable", True),
)
BY_FIELD: Final = {one.field: one for one in SETTINGS}
_BOUNDED: Final = tuple(one for one in SETTINGS if one.bounds is not None)
BY_KEY: Final = {one.key: one for one in SETTINGS}
LIMITS: Final = {one.field: one.bounds for one in SETTINGS if one.bounds is not None}
"""Lowest and highest value of each setting that is a number, by field."""


def check_bounds(config: object) -> None:
    """Raise StoreConfigError for the first field of `config` whose number is outside its bounds."""
    for one in _BOUNDED:
        one.check(getattr(config, one.field))


def default_of(field: str) -> Any:
    """Return the default of a field of StoreConfig."""
    return BY_FIELD[field].default
