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
from rocketflow_store.model.setting import ValueNotAllowedError
from rocketflow_store.model.status import FlushDiskType
from rocketflow_store.settings.loader import fields_of, load_settings, without_effect
from rocketflow_store.settings.settings_table import SETTINGS, StoreSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

_DELAY: Final = re.compile("[0-9]{1,9}[smhd]")
_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class StoreConfig(StoreSettings):
    """RocketMQ's MessageStoreConfig as far as it is used; `settings_table` says what each is about.

    File sizes are properties of the files of a store, not of the process that opens it:
    `metadata.layout.file_sizes.fitted_to` takes them from there.
    """

    clock: Clock = field(default_factory=SystemClock)
    without_effect: tuple[str, ...] = field(default=(), compare=False)
    """RocketMQ's keys that were given and have no effect here; the open logs one warning for them."""

    def __post_init__(self) -> None:
        for one in SETTINGS:
            value = getattr(self, one.field)
            if value == one.default:
                continue
            try:
                if one.bounds is not None:
                    one.check(value)
                elif one.choices:
                    object.__setattr__(self, one.field, one.typed(str(getattr(value, "value", value))))
            except ValueNotAllowedError as error:
                raise StoreConfigError(one.key, value, str(error)) from error
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
