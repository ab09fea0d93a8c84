"""Settings of a store, under RocketMQ's key names in snake_case, and the places of its files."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.format.derived_profile import PROFILE_55, PROFILES
from rocketflow_store.format.index_layout import DEFAULT_HASH_SLOT_NUM, DEFAULT_INDEX_NUM, index_file_size
from rocketflow_store.model.clock import Clock, SystemClock
from rocketflow_store.model.errors import StoreConfigError
from rocketflow_store.model.message_id import encode_host
from rocketflow_store.model.status import FlushDiskType
from rocketflow_store.settings.loader import LIMITS, camel_case, fields_of, load_settings, without_effect

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_MESSAGE_DELAY_LEVEL: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_BROKER_ROLES: Final = ("ASYNC_MASTER", "SYNC_MASTER", "SLAVE")
_DELAY: Final = re.compile("[0-9]{1,9}[smhd]")
_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """RocketMQ's MessageStoreConfig as far as it is used; sizes in bytes, times in ms.

    File sizes are properties of the files of a store, not of the process that opens it:
    `metadata.layout.file_sizes.fitted_to` takes them from there.
    """

    store_path_commit_log: str = ""
    """Directories of the log, separated by `multi_path_splitter`, from the root on or absolute; "": what the store's
    last writer used, else `commitlog`. New files go to them in turn."""
    read_only_commit_log_store_paths: str = ""
    """Directories of the log that get no new files."""
    store_path_consume_queue: str = ""
    store_path_index: str = ""
    multi_path_splitter: str = ","
    flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH
    mapped_file_size_commit_log: int = 1 << 30
    mapped_file_size_consume_queue: int = 300_000 * UNIT_SIZE
    max_hash_slot_num: int = DEFAULT_HASH_SLOT_NUM
    max_index_num: int = DEFAULT_INDEX_NUM
    message_index_enable: bool = True
    max_message_size: int = 4 << 20
    enabled_append_prop_crc: bool | None = None
    """Whether every record ends with a CRC of itself (a broker before 5.2 cannot read that). None leaves it to the
    store: one that was made by this version has it on, one that another writer made has not."""
    check_crc_on_recover: bool = True
    profile: str = ""
    """The RocketMQ version whose derived files the store has, "5.3" or "5.5" (no key of RocketMQ). Empty leaves it to
    the store: what was recorded or is found there, "5.5" for a new one."""
    store_host: str = "127.0.0.1:10911"
    broker_name: str = "broker-a"
    default_topic_queue_nums: int = 8
    warm_maped_file_enable: bool = False
    flush_least_pages_when_warm_maped_file: int = 4_096
    flush_interval_commit_log: int = 500
    flush_commit_log_least_pages: int = 0
    """RocketMQ's default of 4 leaves up to 16 KiB of a quiet store unsynced for `flush_commit_log_thorough_interval`;
    ours syncs all there is at every interval."""
    flush_commit_log_thorough_interval: int = 10_000
    flush_commit_log_timed: bool = True
    """False: a put wakes the flush, and does not wait for it."""
    direct_io: bool = False
    """Sink commits are written around the page cache, where the file system can (no key of RocketMQ). Spares the memory
    and the time that new pages cost, most in virtual machines; who reads what was just written finds it on the disk."""
    transient_store_pool_enable: bool = False
    """Appends go to `transient_store_pool_size` buffers of a log file's size, and are committed to the files from
    there: what was appended and not committed is lost with the process. Only with ASYNC_FLUSH, and not on a slave."""
    transient_store_pool_size: int = 5
    fast_fail_if_no_buffer_in_store_pool: bool = False
    """Without a buffer for the next file: refuse puts (True), or write to the file at once (False)."""
    commit_interval_commit_log: int = 200
    commit_commit_log_least_pages: int = 4
    commit_commit_log_thorough_interval: int = 200
    broker_role: str = "ASYNC_MASTER"
    enable_controller_mode: bool = False
    flush_interval_consume_queue: int = 1_000
    flush_consume_queue_least_pages: int = 2
    flush_consume_queue_thorough_interval: int = 60_000
    sync_flush_timeout: int = 5_000
    max_async_put_message_requests: int = 5_000
    """Messages of asynchronous puts that wait for the encoder; more are waited for, at most `sync_flush_timeout`."""
    enable_lmq: bool = False
    enable_multi_dispatch: bool = False
    max_lmq_consume_queue_num: int = 20_000
    mapper_file_size_batch_consume_queue: int = 300_000 * BATCH_UNIT_SIZE
    mapped_file_size_consume_queue_ext: int = 48 << 20
    use_reentrant_lock_when_put_message: bool = True
    """RocketMQ chooses between a lock that sleeps and one that spins. Python has the one that sleeps: both values mean
    it, and the key is kept so that a broker's file can be used."""
    message_delay_level: str = DEFAULT_MESSAGE_DELAY_LEVEL
    timer_wheel_enable: bool = True
    timer_max_delay_sec: int = 259_200
    timer_precision_ms: int = 1_000
    timer_roll_window_slot: int = 172_800
    """A timer message that is due later than so many ticks is put again on the way: retention may not take it."""
    timer_flush_interval_ms: int = 1_000
    timer_congest_num_each_slot: int = (1 << 31) - 1
    """So many messages that wait in one tick are enough: of more some are refused, all from twice as many on, while a
    TimerMessageService counts them. It goes for messages put, not for those of a sink's or another batch's rows."""
    mapped_file_size_timer_log: int = 100 << 20
    max_transfer_bytes_on_message_in_memory: int = 262_144
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 65_536
    max_transfer_count_on_message_in_disk: int = 8
    access_message_in_memory_max_ratio: int = 40
    max_msgs_num_batch: int = 64
    os_page_cache_busy_time_out_mills: int = 1_000
    clean_resource_interval: int = 10_000
    delete_when: str = "04"
    file_reserved_time: int = 72
    delete_commit_log_files_interval: int = 100
    delete_consume_queue_files_interval: int = 100
    destroy_maped_file_interval_forcibly: int = 120_000
    redelete_hanged_file_interval: int = 120_000
    delete_file_batch_max: int = 10
    disk_max_used_space_ratio: int = 75
    disk_space_clean_forcibly_ratio: int = 85
    disk_space_warning_level_ratio: int = 90
    clean_file_forcibly_enable: bool = True
    clock: Clock = field(default_factory=SystemClock)
    without_effect: tuple[str, ...] = field(default=(), compare=False)
    """RocketMQ's keys that were given and change nothing here; the open warns of them once."""

    def __post_init__(self) -> None:
        for name, (low, high) in LIMITS.items():
            value = getattr(self, name)
            if not isinstance(value, int) or not low <= value <= high:
                raise StoreConfigError(camel_case(name), value, f"must be between {low} and {high}")
        try:
            object.__setattr__(self, "flush_disk_type", FlushDiskType(self.flush_disk_type))
        except ValueError as error:
            why = "must be SYNC_FLUSH or ASYNC_FLUSH"
            raise StoreConfigError("flushDiskType", self.flush_disk_type, why) from error
        if self.broker_role not in _BROKER_ROLES:
            raise StoreConfigError("brokerRole", self.broker_role, f"must be one of {', '.join(_BROKER_ROLES)}")
        if self.profile not in ("", *PROFILES):
            raise StoreConfigError("rocketflow.profile", self.profile, f"must be one of {', '.join(PROFILES)}")
        if self.timer_precision_ms not in (100, 200, 500, 1_000):
            raise StoreConfigError("timerPrecisionMs", self.timer_precision_ms, "must be 100, 200, 500 or 1000")
        if self.mapped_file_size_consume_queue % UNIT_SIZE:
            rounded = -(-self.mapped_file_size_consume_queue // UNIT_SIZE) * UNIT_SIZE
            object.__setattr__(self, "mapped_file_size_consume_queue", rounded)
        if self.mapper_file_size_batch_consume_queue % BATCH_UNIT_SIZE:
            rounded = -(-self.mapper_file_size_batch_consume_queue // BATCH_UNIT_SIZE) * BATCH_UNIT_SIZE
            object.__setattr__(self, "mapper_file_size_batch_consume_queue", rounded)
        try:
            encode_host(self.store_host)
        except ValueError as error:
            raise StoreConfigError("storeHost", self.store_host, str(error)) from error
        _ = self.delay_levels_ms
        hours = [one for one in self.delete_when.split(";") if one.strip()]
        if not all(one.strip().isdecimal() and int(one) < 24 for one in hours):
            raise StoreConfigError("deleteWhen", self.delete_when, "must be hours 0 to 23, separated by ';', e.g. '04'")

    @property
    def transient_store_pool_used(self) -> bool:
        """Whether appends go through a TransientStorePool."""
        return (
            self.transient_store_pool_enable
            and self.flush_disk_type is FlushDiskType.ASYNC_FLUSH
            and (self.enable_controller_mode or self.broker_role != "SLAVE")
        )

    @property
    def append_prop_crc(self) -> bool:
        """`enabled_append_prop_crc` where it is decided."""
        return self.enabled_append_prop_crc is True

    @property
    def tag_entries(self) -> bool:
        """Whether the index names the TAGS of messages; once the profile is decided."""
        return self.profile == PROFILE_55

    @property
    def delay_levels_ms(self) -> tuple[int, ...]:
        """Delay of level 1, 2, ... in ms."""
        return _delays_ms(self.message_delay_level)

    @property
    def index_file_size(self) -> int:
        return index_file_size(self.max_hash_slot_num, self.max_index_num)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], **overrides: Any) -> StoreConfig:
        """Return settings from RocketMQ's camelCase keys; `without_effect` names the keys that no store uses."""
        return cls(**{**fields_of(values), "without_effect": without_effect(values), **overrides})

    @classmethod
    def load(
        cls,
        file: str | os.PathLike[str] | None = None,
        environ: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> StoreConfig:
        """Return the settings of an entry point: see `rocketflow_store.settings.loader`."""
        return cls.from_mapping(load_settings(file, environ, options))

    @classmethod
    def from_broker_conf(cls, path: str | os.PathLike[str], **overrides: Any) -> StoreConfig:
        """Return the settings of a RocketMQ properties file (`broker.conf`) alone."""
        return cls.from_mapping(load_settings(path, {}), **overrides)


@cache
def _delays_ms(levels: str) -> tuple[int, ...]:
    words = levels.split()
    if not words or not all(_DELAY.fullmatch(word) for word in words):
        raise StoreConfigError("messageDelayLevel", levels, "must be numbers with s, m, h or d, e.g. '1s 5s 1m 2h'")
    return tuple(int(word[:-1]) * _UNIT_MS[word[-1]] for word in words)
