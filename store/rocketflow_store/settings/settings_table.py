"""Every setting of a store: its key, kind, default, bounds, and when a value takes effect.

StoreConfig has its attributes from here; the loader, broker.conf and the environment read the rows. `broker_conf_keys`
has the kinds of RocketMQ's other keys, which no store uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.format.index_layout import DEFAULT_HASH_SLOT_NUM, DEFAULT_INDEX_NUM
from rocketflow_store.format.record import BLANK_SIZE, MIN_RECORD_SIZE
from rocketflow_store.model.setting import OWN_PREFIX, Effect, Kind, rocketmq_setting, rows_of
from rocketflow_store.model.status import FlushDiskType

_INT_MAX: Final = (1 << 31) - 1
_TIMER_LOG_FILE: Final = 52 + 16
"""The smallest file of a timer log: one record and the blank after the last."""
_DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The settings of a store, by RocketMQ's keys in snake case."""

    store_path_commit_log: str = rocketmq_setting(
        "Directories of the CommitLog, separated by multiPathSplitter, absolute or relative to the store. "
        "Empty: those of the last writer, else commitlog. New files go to them in turn.",
        "",
        important=True,
    )
    read_only_commit_log_store_paths: str = rocketmq_setting("Directories of the CommitLog that get no new files.", "")
    store_path_consume_queue: str = rocketmq_setting(
        "Directory of the ConsumeQueues. Empty: consumequeue in the store. RocketMQ ignores this key.", "", since=None
    )
    store_path_index: str = rocketmq_setting(
        "Directory of the index files. Empty: index in the store. RocketMQ ignores this key.", "", since=None
    )
    multi_path_splitter: str = rocketmq_setting(
        "Separator between directories. RocketMQ reads it from a system property, not from broker.conf.",
        ",",
        since=None,
    )
    flush_disk_type: FlushDiskType = rocketmq_setting(
        "When a put is acknowledged: after its records are synced to disk (SYNC_FLUSH), or once they are "
        "written (ASYNC_FLUSH).",
        FlushDiskType.ASYNC_FLUSH,
        choices=("ASYNC_FLUSH", "SYNC_FLUSH"),
        important=True,
    )
    mapped_file_size_commit_log: int = rocketmq_setting(
        "Size of a CommitLog file.", 1 << 30, "bytes", (MIN_RECORD_SIZE + BLANK_SIZE, 1 << 31), effect=Effect.FILES
    )
    mapped_file_size_consume_queue: int = rocketmq_setting(
        "Size of a ConsumeQueue file; rounded up to complete units of 20 bytes.",
        300_000 * UNIT_SIZE,
        "bytes",
        (UNIT_SIZE, 1 << 31),
        effect=Effect.FILES,
    )
    max_hash_slot_num: int = rocketmq_setting(
        "Hash slots of an index file.", DEFAULT_HASH_SLOT_NUM, bounds=(1, 1 << 29), effect=Effect.FILES
    )
    max_index_num: int = rocketmq_setting(
        "Entries of an index file; entry 0 is never used.", DEFAULT_INDEX_NUM, bounds=(2, 1 << 30), effect=Effect.FILES
    )
    message_index_enable: bool = rocketmq_setting("Whether keys of messages are indexed.", True, important=True)
    max_message_size: int = rocketmq_setting("Largest body of a message.", 4 << 20, "bytes", (1, 1 << 29))
    enabled_append_prop_crc: bool | None = rocketmq_setting(
        "Whether every record ends with a CRC of the complete record. Brokers before 5.2 cannot read such "
        "records. Unset: on for stores that RocketFlow created, off for others.",
        None,
        key="enabledAppendPropCRC",
        kind=Kind.FLAG,
        since="5.3.3",
    )
    check_crc_on_recover: bool = rocketmq_setting(
        "Whether recovery compares the CRC of every record that it walks over.", True, key="checkCRCOnRecover"
    )
    profile: str = rocketmq_setting(
        "RocketMQ version whose derived files the store has, 5.3 or 5.5. Empty: the recorded or detected "
        "one; 5.5 for a new store.",
        "",
        key=f"{OWN_PREFIX}profile",
        since=None,
    )
    store_host: str = rocketmq_setting(
        "Address that records carry as the store's; part of every offset message id.", "127.0.0.1:10911", since=None
    )
    broker_name: str = rocketmq_setting("Name of the broker in the column brokerName.", "broker-a", important=True)
    default_topic_queue_nums: int = rocketmq_setting(
        "Queues of a topic that is created by its first message.", 8, bounds=(1, 65_536)
    )
    warm_maped_file_enable: bool = rocketmq_setting(
        "Whether a preallocated CommitLog file is filled with zeros before it is used.", False
    )
    flush_least_pages_when_warm_maped_file: int = rocketmq_setting(
        "Pages that are written between two syncs while a file is warmed.", 4_096, "pages", (0, 1 << 20)
    )
    flush_interval_commit_log: int = rocketmq_setting(
        "Time between two syncs of the CommitLog with ASYNC_FLUSH.", 500, "ms", (1, _INT_MAX), important=True
    )
    flush_commit_log_least_pages: int = rocketmq_setting(
        "Pages that must be dirty before a sync is done. RocketMQ's default of 4 leaves up to 16 KiB of a "
        "quiet store unsynced until flushCommitLogThoroughInterval; 0 syncs everything at every interval.",
        0,
        "pages",
        (0, _INT_MAX),
    )
    flush_commit_log_thorough_interval: int = rocketmq_setting(
        "Time after which dirty pages are synced however few they are.", 10_000, "ms", (0, _INT_MAX)
    )
    flush_commit_log_timed: bool = rocketmq_setting(
        "Whether the CommitLog is synced at intervals only. False: a put wakes the flush thread as well, "
        "without waiting for it.",
        True,
        important=True,
    )
    direct_io: bool = rocketmq_setting(
        "Whether sink commits bypass the page cache where the file system allows it. Saves the memory and "
        "time of new pages, most of all in virtual machines; the next reader reads from disk.",
        False,
        key=f"{OWN_PREFIX}directIO",
        since=None,
    )
    transient_store_pool_enable: bool = rocketmq_setting(
        "Whether appends go to buffers outside of the page cache first (TransientStorePool). Records that "
        "are appended and not committed are lost with the process. Only with ASYNC_FLUSH, and not on a "
        "slave.",
        False,
        important=True,
    )
    transient_store_pool_size: int = rocketmq_setting(
        "Buffers of the TransientStorePool, each of the size of a CommitLog file.", 5, bounds=(1, 1_024)
    )
    fast_fail_if_no_buffer_in_store_pool: bool = rocketmq_setting(
        "What happens if no buffer is free for the next file: puts are refused (true), or written to the "
        "file directly (false).",
        False,
    )
    commit_interval_commit_log: int = rocketmq_setting(
        "Time between two commits of buffers to the files.", 200, "ms", (1, _INT_MAX), important=True
    )
    commit_commit_log_least_pages: int = rocketmq_setting(
        "Pages that must be uncommitted before a commit is done.", 4, "pages", (0, _INT_MAX)
    )
    commit_commit_log_thorough_interval: int = rocketmq_setting(
        "Time after which buffers are committed however few pages are uncommitted.", 200, "ms", (0, _INT_MAX)
    )
    broker_role: str = rocketmq_setting(
        "Role of the broker; a SLAVE uses no TransientStorePool.",
        "ASYNC_MASTER",
        choices=("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),
        important=True,
    )
    enable_controller_mode: bool = rocketmq_setting(
        "Whether a controller elects the master; a SLAVE may then use a TransientStorePool.", False, since="5.1.4"
    )
    flush_interval_consume_queue: int = rocketmq_setting(
        "Time between two syncs of the ConsumeQueues.", 1_000, "ms", (1, _INT_MAX)
    )
    flush_consume_queue_least_pages: int = rocketmq_setting(
        "Pages of a queue that must be dirty before it is synced.", 2, "pages", (0, _INT_MAX)
    )
    flush_consume_queue_thorough_interval: int = rocketmq_setting(
        "Time after which all queues are synced.", 60_000, "ms", (0, _INT_MAX)
    )
    sync_flush_timeout: int = rocketmq_setting(
        "Time that a put waits for its sync; afterwards its status is FLUSH_DISK_TIMEOUT.", 5_000, "ms", (1, _INT_MAX)
    )
    max_async_put_message_requests: int = rocketmq_setting(
        "Messages of asynchronous puts that may wait to be encoded; a caller waits for room, at most syncFlushTimeout.",
        5_000,
        "messages",
        (1, 1 << 20),
        since="5.1.4",
    )
    enable_lmq: bool = rocketmq_setting(
        "Whether messages may name LMQs (light message queues) in the property INNER_MULTI_DISPATCH.", False
    )
    enable_multi_dispatch: bool = rocketmq_setting(
        "Whether the LMQs that a message names get a ConsumeQueue unit.", False
    )
    max_lmq_consume_queue_num: int = rocketmq_setting("LMQs that a store may have.", 20_000, bounds=(0, 1 << 31))
    mapper_file_size_batch_consume_queue: int = rocketmq_setting(
        "Size of a queue file of a BatchCQ topic; rounded up to complete units of 46 bytes.",
        300_000 * BATCH_UNIT_SIZE,
        "bytes",
        (BATCH_UNIT_SIZE, 1 << 31),
        effect=Effect.FILES,
        since="5.1.4",
    )
    mapped_file_size_consume_queue_ext: int = rocketmq_setting(
        "Size of a ConsumeQueueExt file; RocketFlow only reads them.",
        48 << 20,
        "bytes",
        (64, 1 << 31),
        effect=Effect.FILES,
    )
    use_reentrant_lock_when_put_message: bool = rocketmq_setting(
        "RocketMQ's choice between a sleeping and a spinning put lock. RocketFlow's lock sleeps; the key "
        "is accepted so that a broker's file can be used.",
        True,
        effect=Effect.NONE,
    )
    message_delay_level: str = rocketmq_setting(
        "Delays of the levels 1, 2, ..., separated by blanks; units s, m, h, d.", _DELAY_LEVELS
    )
    timer_wheel_enable: bool = rocketmq_setting(
        "Whether messages with a delivery time of their own are accepted.", True, since="5.1.4"
    )
    timer_max_delay_sec: int = rocketmq_setting(
        "Latest delivery time of a timer message, from the time it is put.", 259_200, "s", (0, 1 << 40), since="5.1.4"
    )
    timer_precision_ms: int = rocketmq_setting(
        "Length of a tick of the timer: 100, 200, 500 or 1000.", 1_000, "ms", since="5.1.4"
    )
    timer_roll_window_slot: int = rocketmq_setting(
        "Ticks after which a waiting timer message is stored once more, so that retention does not remove it.",
        172_800,
        "ticks",
        (6, 604_800),
        since="5.1.4",
    )
    timer_flush_interval_ms: int = rocketmq_setting(
        "Time between two syncs of the timer's files.", 1_000, "ms", (1, _INT_MAX), since="5.1.4"
    )
    timer_congest_num_each_slot: int = rocketmq_setting(
        "Messages that may wait in one tick before some are refused; all are refused from twice as many "
        "on. Counted while a TimerMessageService runs; applies to puts, not to rows of a sink.",
        (1 << 31) - 1,
        "messages",
        (1, (1 << 31) - 1),
        since="5.1.4",
    )
    mapped_file_size_timer_log: int = rocketmq_setting(
        "Size of a timer log file.", 100 << 20, "bytes", (_TIMER_LOG_FILE, 1 << 31), effect=Effect.FILES, since="5.1.4"
    )
    max_transfer_bytes_on_message_in_memory: int = rocketmq_setting(
        "Largest answer of get_message if the records are likely in memory.",
        262_144,
        "bytes",
        (1, 1 << 31),
        important=True,
    )
    max_transfer_count_on_message_in_memory: int = rocketmq_setting(
        "Most messages of get_message if the records are likely in memory.",
        32,
        "messages",
        (1, 1 << 31),
        important=True,
    )
    max_transfer_bytes_on_message_in_disk: int = rocketmq_setting(
        "Largest answer of get_message if the records are likely on disk.",
        65_536,
        "bytes",
        (1, 1 << 31),
        important=True,
    )
    max_transfer_count_on_message_in_disk: int = rocketmq_setting(
        "Most messages of get_message if the records are likely on disk.", 8, "messages", (1, 1 << 31), important=True
    )
    access_message_in_memory_max_ratio: int = rocketmq_setting(
        "Share of the memory in which the newest records are taken to be.", 40, "percent", (0, 100), important=True
    )
    max_msgs_num_batch: int = rocketmq_setting("Most messages that a query by key or by tags returns.", 64, "messages")
    os_page_cache_busy_time_out_mills: int = rocketmq_setting(
        "Time that a put may hold the put lock before later ones are refused with OS_PAGE_CACHE_BUSY.",
        1_000,
        "ms",
        (1, _INT_MAX),
        kind=Kind.LONG,
    )
    clean_resource_interval: int = rocketmq_setting("Time between two runs of retention.", 10_000, "ms", (1, _INT_MAX))
    delete_when: str = rocketmq_setting(
        "Hours of the day (0 to 23, separated by ';') in which expired files are deleted.", "04", important=True
    )
    file_reserved_time: int = rocketmq_setting(
        "Age at which a CommitLog file expires.", 72, "hours", (0, _INT_MAX), important=True
    )
    delete_commit_log_files_interval: int = rocketmq_setting(
        "Pause between two deletions of CommitLog files.", 100, "ms", (0, _INT_MAX)
    )
    delete_consume_queue_files_interval: int = rocketmq_setting(
        "Pause between two deletions of queue files.", 100, "ms", (0, _INT_MAX)
    )
    destroy_maped_file_interval_forcibly: int = rocketmq_setting(
        "Time after which a file that a reader still holds is deleted anyway.", 120_000, "ms", (0, 1 << 31)
    )
    redelete_hanged_file_interval: int = rocketmq_setting(
        "Time between two attempts to delete such a file.", 120_000, "ms", (0, 1 << 31)
    )
    delete_file_batch_max: int = rocketmq_setting(
        "CommitLog files that one run of retention deletes at most.",
        10,
        bounds=(1, _INT_MAX),
        since="5.1.4",
        important=True,
    )
    disk_max_used_space_ratio: int = rocketmq_setting(
        "Used share of the disk from which expired files are deleted at any hour.", 75, "percent", (0, 100)
    )
    disk_space_clean_forcibly_ratio: int = rocketmq_setting(
        "Used share of the disk from which files are deleted before they expire.",
        85,
        "percent",
        (0, 100),
        since="5.1.4",
    )
    disk_space_warning_level_ratio: int = rocketmq_setting(
        "Used share of the disk from which puts are refused.", 90, "percent", (0, 100), since="5.1.4"
    )
    clean_file_forcibly_enable: bool = rocketmq_setting(
        "Whether files may be deleted before they expire if the disk is nearly full.", True, important=True
    )


SETTINGS: Final = rows_of(StoreSettings)
BY_KEY: Final = {one.key: one for one in SETTINGS}
LIMITS: Final = {one.field: one.bounds for one in SETTINGS if one.bounds is not None}
"""Lowest and highest value of each setting that is a number, by field."""
