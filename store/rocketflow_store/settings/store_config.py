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
from rocketflow_store.format.index_layout import index_file_size
from rocketflow_store.model.clock import Clock, SystemClock
from rocketflow_store.model.errors import StoreConfigError
from rocketflow_store.model.message_id import encode_host
from rocketflow_store.model.status import FlushDiskType
from rocketflow_store.settings.loader import fields_of, load_settings, without_effect
from rocketflow_store.settings.settings_table import BY_FIELD, check_bounds, default_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_DELAY: Final = re.compile("[0-9]{1,9}[smhd]")
_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """RocketMQ's MessageStoreConfig as far as it is used; `settings_table` says what each is about.

    File sizes are properties of the files of a store, not of the process that opens it:
    `metadata.layout.file_sizes.fitted_to` takes them from there.
    """

    store_path_commit_log: str = default_of("store_path_commit_log")
    read_only_commit_log_store_paths: str = default_of("read_only_commit_log_store_paths")
    store_path_consume_queue: str = default_of("store_path_consume_queue")
    store_path_index: str = default_of("store_path_index")
    multi_path_splitter: str = default_of("multi_path_splitter")
    flush_disk_type: FlushDiskType = default_of("flush_disk_type")
    mapped_file_size_commit_log: int = default_of("mapped_file_size_commit_log")
    mapped_file_size_consume_queue: int = default_of("mapped_file_size_consume_queue")
    max_hash_slot_num: int = default_of("max_hash_slot_num")
    max_index_num: int = default_of("max_index_num")
    message_index_enable: bool = default_of("message_index_enable")
    max_message_size: int = default_of("max_message_size")
    enabled_append_prop_crc: bool | None = default_of("enabled_append_prop_crc")
    check_crc_on_recover: bool = default_of("check_crc_on_recover")
    profile: str = default_of("profile")
    store_host: str = default_of("store_host")
    broker_name: str = default_of("broker_name")
    default_topic_queue_nums: int = default_of("default_topic_queue_nums")
    warm_maped_file_enable: bool = default_of("warm_maped_file_enable")
    flush_least_pages_when_warm_maped_file: int = default_of("flush_least_pages_when_warm_maped_file")
    flush_interval_commit_log: int = default_of("flush_interval_commit_log")
    flush_commit_log_least_pages: int = default_of("flush_commit_log_least_pages")
    flush_commit_log_thorough_interval: int = default_of("flush_commit_log_thorough_interval")
    flush_commit_log_timed: bool = default_of("flush_commit_log_timed")
    direct_io: bool = default_of("direct_io")
    transient_store_pool_enable: bool = default_of("transient_store_pool_enable")
    transient_store_pool_size: int = default_of("transient_store_pool_size")
    fast_fail_if_no_buffer_in_store_pool: bool = default_of("fast_fail_if_no_buffer_in_store_pool")
    commit_interval_commit_log: int = default_of("commit_interval_commit_log")
    commit_commit_log_least_pages: int = default_of("commit_commit_log_least_pages")
    commit_commit_log_thorough_interval: int = default_of("commit_commit_log_thorough_interval")
    broker_role: str = default_of("broker_role")
    enable_controller_mode: bool = default_of("enable_controller_mode")
    flush_interval_consume_queue: int = default_of("flush_interval_consume_queue")
    flush_consume_queue_least_pages: int = default_of("flush_consume_queue_least_pages")
    flush_consume_queue_thorough_interval: int = default_of("flush_consume_queue_thorough_interval")
    sync_flush_timeout: int = default_of("sync_flush_timeout")
    max_async_put_message_requests: int = default_of("max_async_put_message_requests")
    enable_lmq: bool = default_of("enable_lmq")
    enable_multi_dispatch: bool = default_of("enable_multi_dispatch")
    max_lmq_consume_queue_num: int = default_of("max_lmq_consume_queue_num")
    mapper_file_size_batch_consume_queue: int = default_of("mapper_file_size_batch_consume_queue")
    mapped_file_size_consume_queue_ext: int = default_of("mapped_file_size_consume_queue_ext")
    use_reentrant_lock_when_put_message: bool = default_of("use_reentrant_lock_when_put_message")
    message_delay_level: str = default_of("message_delay_level")
    timer_wheel_enable: bool = default_of("timer_wheel_enable")
    timer_max_delay_sec: int = default_of("timer_max_delay_sec")
    timer_precision_ms: int = default_of("timer_precision_ms")
    timer_roll_window_slot: int = default_of("timer_roll_window_slot")
    timer_flush_interval_ms: int = default_of("timer_flush_interval_ms")
    timer_congest_num_each_slot: int = default_of("timer_congest_num_each_slot")
    mapped_file_size_timer_log: int = default_of("mapped_file_size_timer_log")
    max_transfer_bytes_on_message_in_memory: int = default_of("max_transfer_bytes_on_message_in_memory")
    max_transfer_count_on_message_in_memory: int = default_of("max_transfer_count_on_message_in_memory")
    max_transfer_bytes_on_message_in_disk: int = default_of("max_transfer_bytes_on_message_in_disk")
    max_transfer_count_on_message_in_disk: int = default_of("max_transfer_count_on_message_in_disk")
    access_message_in_memory_max_ratio: int = default_of("access_message_in_memory_max_ratio")
    max_msgs_num_batch: int = default_of("max_msgs_num_batch")
    os_page_cache_busy_time_out_mills: int = default_of("os_page_cache_busy_time_out_mills")
    clean_resource_interval: int = default_of("clean_resource_interval")
    delete_when: str = default_of("delete_when")
    file_reserved_time: int = default_of("file_reserved_time")
    delete_commit_log_files_interval: int = default_of("delete_commit_log_files_interval")
    delete_consume_queue_files_interval: int = default_of("delete_consume_queue_files_interval")
    destroy_maped_file_interval_forcibly: int = default_of("destroy_maped_file_interval_forcibly")
    redelete_hanged_file_interval: int = default_of("redelete_hanged_file_interval")
    delete_file_batch_max: int = default_of("delete_file_batch_max")
    disk_max_used_space_ratio: int = default_of("disk_max_used_space_ratio")
    disk_space_clean_forcibly_ratio: int = default_of("disk_space_clean_forcibly_ratio")
    disk_space_warning_level_ratio: int = default_of("disk_space_warning_level_ratio")
    clean_file_forcibly_enable: bool = default_of("clean_file_forcibly_enable")
    clock: Clock = field(default_factory=SystemClock)
    without_effect: tuple[str, ...] = field(default=(), compare=False)
    """RocketMQ's keys that were given and have no effect here; the open logs one warning for them."""

    def __post_init__(self) -> None:
        check_bounds(self)
        try:
            object.__setattr__(self, "flush_disk_type", FlushDiskType(self.flush_disk_type))
        except ValueError as error:
            why = "must be SYNC_FLUSH or ASYNC_FLUSH"
            raise StoreConfigError("flushDiskType", self.flush_disk_type, why) from error
        roles = BY_FIELD["broker_role"].choices
        if self.broker_role not in roles:
            raise StoreConfigError("brokerRole", self.broker_role, f"must be one of {', '.join(roles)}")
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
        """True if appends go through a TransientStorePool."""
        return (
            self.transient_store_pool_enable
            and self.flush_disk_type is FlushDiskType.ASYNC_FLUSH
            and (self.enable_controller_mode or self.broker_role != "SLAVE")
        )

    @property
    def sync_flush(self) -> bool:
        """True if a put succeeds only after its message is synced."""
        return self.flush_disk_type is FlushDiskType.SYNC_FLUSH

    @property
    def append_prop_crc(self) -> bool:
        """True if `enabled_append_prop_crc` is decided and on."""
        return self.enabled_append_prop_crc is True

    @property
    def tag_entries(self) -> bool:
        """True if the index has entries for TAGS; valid after the profile is decided."""
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
        """Return the settings of RocketMQ's camelCase keys; keys that no store uses go to `without_effect`."""
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
