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
"""Prefix of RocketFlow's keys."""
_INT_MAX: Final = (1 << 31) - 1
_TIMER_LOG_FILE: Final = 52 + 16
"""The smallest file of a timer log: one record and the blank after the last."""
_DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


class Effect(Enum):
    """Time at which a value takes effect."""

    OPEN = "at the next open"
    FILES = "with the first file of its kind: files that exist keep their size"
    NONE = "never: it is kept as it is given"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: `field` of StoreConfig, what it is `about`, RocketMQ's `key` (or RocketFlow's own), its values.

    `since` is the oldest of the releases 4.9.7, 5.1.4, 5.3.3, 5.4.0, 5.5.0, 5.5.1 whose broker reads the key from its
    file, or None if no broker does. `bounds` are the lowest and the highest value. A number outside them is moved to
    the nearest bound, as RocketMQ does, but a file size outside them is refused: a broker does not start with it.
    """

    field: str
    about: str
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
    about: str,
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
    return Setting(field, about, default, unit, bounds, since, key, choices, effect)


SETTINGS: Final = (
    _row(
        "store_path_commit_log",
        "Directories of the CommitLog, separated by multiPathSplitter, absolute or relative to the store. "
        "Empty: those of the last writer, else commitlog. New files go to them in turn.",
        "",
    ),
    _row("read_only_commit_log_store_paths", "Directories of the CommitLog that get no new files.", ""),
    _row(
        "store_path_consume_queue",
        "Directory of the ConsumeQueues. Empty: consumequeue in the store. RocketMQ ignores this key.",
        "",
        since=None,
    ),
    _row(
        "store_path_index",
        "Directory of the index files. Empty: index in the store. RocketMQ ignores this key.",
        "",
        since=None,
    ),
    _row(
        "multi_path_splitter",
        "Separator between directories. RocketMQ reads it from a system property, not from broker.conf.",
        ",",
        since=None,
    ),
    _row(
        "flush_disk_type",
        "When a put is acknowledged: after its records are synced to disk (SYNC_FLUSH), or once they are "
        "written (ASYNC_FLUSH).",
        FlushDiskType.ASYNC_FLUSH,
        choices=("ASYNC_FLUSH", "SYNC_FLUSH"),
    ),
    _row(
        "mapped_file_size_commit_log",
        "Size of a CommitLog file.",
        1 << 30,
        "bytes",
        (MIN_RECORD_SIZE + BLANK_SIZE, 1 << 31),
        effect=Effect.FILES,
    ),
    _row(
        "mapped_file_size_consume_queue",
        "Size of a ConsumeQueue file; rounded up to complete units of 20 bytes.",
        300_000 * UNIT_SIZE,
        "bytes",
        (UNIT_SIZE, 1 << 31),
        effect=Effect.FILES,
    ),
    _row(
        "max_hash_slot_num",
        "Hash slots of an index file.",
        DEFAULT_HASH_SLOT_NUM,
        bounds=(1, 1 << 29),
        effect=Effect.FILES,
    ),
    _row(
        "max_index_num",
        "Entries of an index file; entry 0 is never used.",
        DEFAULT_INDEX_NUM,
        bounds=(2, 1 << 30),
        effect=Effect.FILES,
    ),
    _row("message_index_enable", "Whether keys of messages are indexed.", True),
    _row("max_message_size", "Largest body of a message.", 4 << 20, "bytes", (1, 1 << 29)),
    _row(
        "enabled_append_prop_crc",
        "Whether every record ends with a CRC of the complete record. Brokers before 5.2 cannot read such "
        "records. Unset: on for stores that RocketFlow created, off for others.",
        None,
        since="5.3.3",
        key="enabledAppendPropCRC",
    ),
    _row(
        "check_crc_on_recover",
        "Whether recovery compares the CRC of every record that it walks over.",
        True,
        key="checkCRCOnRecover",
    ),
    _row(
        "profile",
        "RocketMQ version whose derived files the store has, 5.3 or 5.5. Empty: the recorded or detected "
        "one; 5.5 for a new store.",
        "",
        since=None,
        key=f"{OWN_PREFIX}profile",
    ),
    _row(
        "store_host",
        "Address that records carry as the store's; part of every offset message id.",
        "127.0.0.1:10911",
        since=None,
    ),
    _row("broker_name", "Name of the broker in the column brokerName.", "broker-a"),
    _row("default_topic_queue_nums", "Queues of a topic that is created by its first message.", 8, bounds=(1, 65_536)),
    _row(
        "warm_maped_file_enable", "Whether a preallocated CommitLog file is filled with zeros before it is used.", False
    ),
    _row(
        "flush_least_pages_when_warm_maped_file",
        "Pages that are written between two syncs while a file is warmed.",
        4_096,
        "pages",
        (0, 1 << 20),
    ),
    _row(
        "flush_interval_commit_log",
        "Time between two syncs of the CommitLog with ASYNC_FLUSH.",
        500,
        "ms",
        (1, _INT_MAX),
    ),
    _row(
        "flush_commit_log_least_pages",
        "Pages that must be dirty before a sync is done. RocketMQ's default of 4 leaves up to 16 KiB of a "
        "quiet store unsynced until flushCommitLogThoroughInterval; 0 syncs everything at every interval.",
        0,
        "pages",
        (0, _INT_MAX),
    ),
    _row(
        "flush_commit_log_thorough_interval",
        "Time after which dirty pages are synced however few they are.",
        10_000,
        "ms",
        (0, _INT_MAX),
    ),
    _row(
        "flush_commit_log_timed",
        "Whether the CommitLog is synced at intervals only. False: a put wakes the flush thread as well, "
        "without waiting for it.",
        True,
    ),
    _row(
        "direct_io",
        "Whether sink commits bypass the page cache where the file system allows it. Saves the memory and "
        "time of new pages, most of all in virtual machines; the next reader reads from disk.",
        False,
        since=None,
        key=f"{OWN_PREFIX}directIO",
    ),
    _row(
        "transient_store_pool_enable",
        "Whether appends go to buffers outside of the page cache first (TransientStorePool). Records that "
        "are appended and not committed are lost with the process. Only with ASYNC_FLUSH, and not on a "
        "slave.",
        False,
    ),
    _row(
        "transient_store_pool_size",
        "Buffers of the TransientStorePool, each of the size of a CommitLog file.",
        5,
        bounds=(1, 1_024),
    ),
    _row(
        "fast_fail_if_no_buffer_in_store_pool",
        "What happens if no buffer is free for the next file: puts are refused (true), or written to the "
        "file directly (false).",
        False,
    ),
    _row("commit_interval_commit_log", "Time between two commits of buffers to the files.", 200, "ms", (1, _INT_MAX)),
    _row(
        "commit_commit_log_least_pages",
        "Pages that must be uncommitted before a commit is done.",
        4,
        "pages",
        (0, _INT_MAX),
    ),
    _row(
        "commit_commit_log_thorough_interval",
        "Time after which buffers are committed however few pages are uncommitted.",
        200,
        "ms",
        (0, _INT_MAX),
    ),
    _row(
        "broker_role",
        "Role of the broker; a SLAVE uses no TransientStorePool.",
        "ASYNC_MASTER",
        choices=("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),
    ),
    _row(
        "enable_controller_mode",
        "Whether a controller elects the master; a SLAVE may then use a TransientStorePool.",
        False,
        since="5.1.4",
    ),
    _row("flush_interval_consume_queue", "Time between two syncs of the ConsumeQueues.", 1_000, "ms", (1, _INT_MAX)),
    _row(
        "flush_consume_queue_least_pages",
        "Pages of a queue that must be dirty before it is synced.",
        2,
        "pages",
        (0, _INT_MAX),
    ),
    _row(
        "flush_consume_queue_thorough_interval", "Time after which all queues are synced.", 60_000, "ms", (0, _INT_MAX)
    ),
    _row(
        "sync_flush_timeout",
        "Time that a put waits for its sync; afterwards its status is FLUSH_DISK_TIMEOUT.",
        5_000,
        "ms",
        (1, _INT_MAX),
    ),
    _row(
        "max_async_put_message_requests",
        "Messages of asynchronous puts that may wait to be encoded; a caller waits for room, at most syncFlushTimeout.",
        5_000,
        "messages",
        (1, 1 << 20),
        since="5.1.4",
    ),
    _row(
        "enable_lmq",
        "Whether messages may name LMQs (light message queues) in the property INNER_MULTI_DISPATCH.",
        False,
    ),
    _row("enable_multi_dispatch", "Whether the LMQs that a message names get a ConsumeQueue unit.", False),
    _row("max_lmq_consume_queue_num", "LMQs that a store may have.", 20_000, bounds=(0, 1 << 31)),
    _row(
        "mapper_file_size_batch_consume_queue",
        "Size of a queue file of a BatchCQ topic; rounded up to complete units of 46 bytes.",
        300_000 * BATCH_UNIT_SIZE,
        "bytes",
        (BATCH_UNIT_SIZE, 1 << 31),
        since="5.1.4",
        effect=Effect.FILES,
    ),
    _row(
        "mapped_file_size_consume_queue_ext",
        "Size of a ConsumeQueueExt file; RocketFlow only reads them.",
        48 << 20,
        "bytes",
        (64, 1 << 31),
        effect=Effect.FILES,
    ),
    _row(
        "use_reentrant_lock_when_put_message",
        "RocketMQ's choice between a sleeping and a spinning put lock. RocketFlow's lock sleeps; the key "
        "is accepted so that a broker's file can be used.",
        True,
        effect=Effect.NONE,
    ),
    _row(
        "message_delay_level", "Delays of the levels 1, 2, ..., separated by blanks; units s, m, h, d.", _DELAY_LEVELS
    ),
    _row("timer_wheel_enable", "Whether messages with a delivery time of their own are accepted.", True, since="5.1.4"),
    _row(
        "timer_max_delay_sec",
        "Latest delivery time of a timer message, from the time it is put.",
        259_200,
        "s",
        (0, 1 << 40),
        since="5.1.4",
    ),
    _row("timer_precision_ms", "Length of a tick of the timer: 100, 200, 500 or 1000.", 1_000, "ms", since="5.1.4"),
    _row(
        "timer_roll_window_slot",
        "Ticks after which a waiting timer message is stored once more, so that retention does not remove it.",
        172_800,
        "ticks",
        (6, 604_800),
        since="5.1.4",
    ),
    _row(
        "timer_flush_interval_ms",
        "Time between two syncs of the timer's files.",
        1_000,
        "ms",
        (1, _INT_MAX),
        since="5.1.4",
    ),
    _row(
        "timer_congest_num_each_slot",
        "Messages that may wait in one tick before some are refused; all are refused from twice as many "
        "on. Counted while a TimerMessageService runs; applies to puts, not to rows of a sink.",
        (1 << 31) - 1,
        "messages",
        (1, (1 << 31) - 1),
        since="5.1.4",
    ),
    _row(
        "mapped_file_size_timer_log",
        "Size of a timer log file.",
        100 << 20,
        "bytes",
        (_TIMER_LOG_FILE, 1 << 31),
        since="5.1.4",
        effect=Effect.FILES,
    ),
    _row(
        "max_transfer_bytes_on_message_in_memory",
        "Largest answer of get_message if the records are likely in memory.",
        262_144,
        "bytes",
        (1, 1 << 31),
    ),
    _row(
        "max_transfer_count_on_message_in_memory",
        "Most messages of get_message if the records are likely in memory.",
        32,
        "messages",
        (1, 1 << 31),
    ),
    _row(
        "max_transfer_bytes_on_message_in_disk",
        "Largest answer of get_message if the records are likely on disk.",
        65_536,
        "bytes",
        (1, 1 << 31),
    ),
    _row(
        "max_transfer_count_on_message_in_disk",
        "Most messages of get_message if the records are likely on disk.",
        8,
        "messages",
        (1, 1 << 31),
    ),
    _row(
        "access_message_in_memory_max_ratio",
        "Share of the memory in which the newest records are taken to be.",
        40,
        "percent",
        (0, 100),
    ),
    _row("max_msgs_num_batch", "Most messages that a query by key or by tags returns.", 64, "messages"),
    _row(
        "os_page_cache_busy_time_out_mills",
        "Time that a put may hold the put lock before later ones are refused with OS_PAGE_CACHE_BUSY.",
        1_000,
        "ms",
        (1, _INT_MAX),
    ),
    _row("clean_resource_interval", "Time between two runs of retention.", 10_000, "ms", (1, _INT_MAX)),
    _row("delete_when", "Hours of the day (0 to 23, separated by ';') in which expired files are deleted.", "04"),
    _row("file_reserved_time", "Age at which a CommitLog file expires.", 72, "hours", (0, _INT_MAX)),
    _row(
        "delete_commit_log_files_interval", "Pause between two deletions of CommitLog files.", 100, "ms", (0, _INT_MAX)
    ),
    _row(
        "delete_consume_queue_files_interval", "Pause between two deletions of queue files.", 100, "ms", (0, _INT_MAX)
    ),
    _row(
        "destroy_maped_file_interval_forcibly",
        "Time after which a file that a reader still holds is deleted anyway.",
        120_000,
        "ms",
        (0, 1 << 31),
    ),
    _row(
        "redelete_hanged_file_interval", "Time between two attempts to delete such a file.", 120_000, "ms", (0, 1 << 31)
    ),
    _row(
        "delete_file_batch_max",
        "CommitLog files that one run of retention deletes at most.",
        10,
        bounds=(1, _INT_MAX),
        since="5.1.4",
    ),
    _row(
        "disk_max_used_space_ratio",
        "Used share of the disk from which expired files are deleted at any hour.",
        75,
        "percent",
        (0, 100),
    ),
    _row(
        "disk_space_clean_forcibly_ratio",
        "Used share of the disk from which files are deleted before they expire.",
        85,
        "percent",
        (0, 100),
        since="5.1.4",
    ),
    _row(
        "disk_space_warning_level_ratio",
        "Used share of the disk from which puts are refused.",
        90,
        "percent",
        (0, 100),
        since="5.1.4",
    ),
    _row(
        "clean_file_forcibly_enable",
        "Whether files may be deleted before they expire if the disk is nearly full.",
        True,
    ),
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
