"""Settings of a store as an entry point is given them: the one loader of all.

Each key has one value. Later sources win over earlier ones:

    RocketMQ's default < broker.conf (`--config FILE`, option `config`) < environment (ROCKETFLOW_<key>) < command line

The command line (and Spark, Kafka or job options) names a setting by an option of its own where it has one. Keys and
values are RocketMQ's, of 4.9 to 5.5.1, and mean what they mean there: numbers that RocketMQ moves into a range are
moved here too. `rocketflow.<key>` are the settings of RocketFlow alone (`rocketflow.directIO`), in the environment
ROCKETFLOW_<key>. A key that no store uses is accepted and named by a warning; one that RocketMQ does not know is an
error that names the nearest known one.
"""

from __future__ import annotations

import os
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.format.record import BLANK_SIZE, MIN_RECORD_SIZE
from rocketflow_store.model.message_id import encode_host
from rocketflow_store.settings.broker_conf import OWN_PREFIX, environment_settings, load_broker_conf
from rocketflow_store.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocketflow_store.settings.store_config import StoreConfig

_INT_MAX: Final = (1 << 31) - 1
_TIMER_LOG_FILE: Final = 52 + 16
"""The smallest file of a timer log: one record and the blank after the last."""
LIMITS: Final[dict[str, tuple[int, int]]] = {
    "mapped_file_size_commit_log": (MIN_RECORD_SIZE + BLANK_SIZE, 1 << 31),
    "mapped_file_size_consume_queue": (UNIT_SIZE, 1 << 31),
    "max_hash_slot_num": (1, 1 << 29),
    "max_index_num": (2, 1 << 30),
    "max_message_size": (1, 1 << 29),
    "default_topic_queue_nums": (1, 65_536),
    "flush_least_pages_when_warm_maped_file": (0, 1 << 20),
    "flush_interval_commit_log": (1, _INT_MAX),
    "flush_commit_log_least_pages": (0, _INT_MAX),
    "flush_commit_log_thorough_interval": (0, _INT_MAX),
    "transient_store_pool_size": (1, 1_024),
    "commit_interval_commit_log": (1, _INT_MAX),
    "commit_commit_log_least_pages": (0, _INT_MAX),
    "commit_commit_log_thorough_interval": (0, _INT_MAX),
    "flush_interval_consume_queue": (1, _INT_MAX),
    "flush_consume_queue_least_pages": (0, _INT_MAX),
    "flush_consume_queue_thorough_interval": (0, _INT_MAX),
    "sync_flush_timeout": (1, _INT_MAX),
    "max_transfer_bytes_on_message_in_memory": (1, 1 << 31),
    "max_transfer_count_on_message_in_memory": (1, 1 << 31),
    "max_transfer_bytes_on_message_in_disk": (1, 1 << 31),
    "max_transfer_count_on_message_in_disk": (1, 1 << 31),
    "access_message_in_memory_max_ratio": (0, 100),
    "max_async_put_message_requests": (1, 1 << 20),
    "max_lmq_consume_queue_num": (0, 1 << 31),
    "mapper_file_size_batch_consume_queue": (BATCH_UNIT_SIZE, 1 << 31),
    "mapped_file_size_consume_queue_ext": (64, 1 << 31),
    "mapped_file_size_timer_log": (_TIMER_LOG_FILE, 1 << 31),
    "timer_max_delay_sec": (0, 1 << 40),
    "timer_roll_window_slot": (6, 604_800),
    "timer_flush_interval_ms": (1, _INT_MAX),
    "timer_congest_num_each_slot": (1, (1 << 31) - 1),
    "os_page_cache_busy_time_out_mills": (1, _INT_MAX),
    "clean_resource_interval": (1, _INT_MAX),
    "file_reserved_time": (0, _INT_MAX),
    "delete_commit_log_files_interval": (0, _INT_MAX),
    "delete_consume_queue_files_interval": (0, _INT_MAX),
    "destroy_maped_file_interval_forcibly": (0, 1 << 31),
    "redelete_hanged_file_interval": (0, 1 << 31),
    "delete_file_batch_max": (1, _INT_MAX),
    "disk_max_used_space_ratio": (0, 100),
    "disk_space_clean_forcibly_ratio": (0, 100),
    "disk_space_warning_level_ratio": (0, 100),
}
"""Lowest and highest value of each setting that is a number."""
_FIXED: Final = frozenset(
    {
        "mapped_file_size_commit_log",
        "mapped_file_size_consume_queue",
        "mapper_file_size_batch_consume_queue",
        "mapped_file_size_consume_queue_ext",
        "mapped_file_size_timer_log",
        "max_hash_slot_num",
        "max_index_num",
    }
)
"""Sizes of files: refused outside the limits instead of moved. A broker does not start with them, or keeps nothing."""
_PATH_FIELDS: Final = (
    "store_path_commit_log",
    "read_only_commit_log_store_paths",
    "store_path_consume_queue",
    "store_path_index",
)
_RELATED_KEYS: Final = frozenset({"storePathRootDir", "brokerIP1", "listenPort"})
"""Keys that are no setting of a store, and have a part in one."""
_KEYLESS_FIELDS: Final = frozenset({"clock", "without_effect"})
_IDLE_FIELDS: Final = frozenset({"use_reentrant_lock_when_put_message"})
"""Settings that are kept as they are given, and change nothing here."""
_ODD_KEYS: Final = {
    "enabled_append_prop_crc": "enabledAppendPropCRC",
    "direct_io": f"{OWN_PREFIX}directIO",
    "profile": f"{OWN_PREFIX}profile",
}
"""Keys that follow no rule: RocketMQ's, and RocketFlow's own."""
_PRECISIONS_MS: Final = (100, 200, 500, 1_000)
_WHEEL_SLOTS: Final = 7 * 86_400
_BLANK_SLOTS: Final = 60


def load_settings(
    file: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the values by key: those of `options` (None is not given), `environ` (default os.environ), `file`.

    Raises:
        StoreAccessError: The file cannot be read.
        StoreConfigError: A key is unknown, or a value cannot be one of its key.
    """
    values = {} if file is None else load_broker_conf(Path(file))
    values |= environment_settings(os.environ if environ is None else environ)
    values |= {key: value for key, value in (options or {}).items() if value is not None}
    return values


def camel_case(name: str) -> str:
    """Return the key of a field: `max_index_num` -> `maxIndexNum`."""
    head, *rest = name.split("_")
    return _ODD_KEYS.get(name) or head + "".join(word.capitalize() for word in rest)


@cache
def _fields_by_key() -> dict[str, str]:
    from rocketflow_store.settings.store_config import StoreConfig  # which needs this module

    return {camel_case(one.name): one.name for one in fields(StoreConfig) if one.name not in _KEYLESS_FIELDS}


def without_effect(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the given keys that change nothing here, sorted."""
    known = _fields_by_key()
    idle = {key for key in values if key not in _RELATED_KEYS and known.get(key) in {None, *_IDLE_FIELDS}}
    if not _is_address(values.get("brokerIP1", "127.0.0.1")):
        idle.add("brokerIP1")
    return tuple(sorted(idle))


_warned: Final[set[tuple[Path, tuple[str, ...]]]] = set()


def warn_once(config: StoreConfig, path: Path) -> None:
    """Log the keys of `config` that have no effect, once for a store in a process."""
    keys = config.without_effect
    if keys and (path, keys) not in _warned:
        _warned.add((path, keys))
        why = f"settings without effect in RocketFlow: {', '.join(keys)}"
        events.tell(events.NO_EFFECT, path, path, why, count=len(keys))


def fields_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return StoreConfig's fields from values by key, as RocketMQ takes them."""
    known = _fields_by_key()
    chosen = {known[key]: value for key, value in values.items() if key in known}
    for name, value in chosen.items():
        chosen[name] = _as_rocketmq(name, value)
    if "brokerIP1" in values or "listenPort" in values:
        address = values.get("brokerIP1", "127.0.0.1")
        host = address if _is_address(address) else "127.0.0.1"
        chosen.setdefault("store_host", f"{host}:{values.get('listenPort', 10911)}")
    root, splitter = values.get("storePathRootDir"), chosen.get("multi_path_splitter", ",")
    for name in _PATH_FIELDS:
        if root and chosen.get(name):
            chosen[name] = splitter.join(_beneath(root, one.strip()) for one in chosen[name].split(splitter or ","))
    return chosen


def _as_rocketmq(name: str, value: Any) -> Any:
    """Return what RocketMQ makes of a value that it accepts: some setters and users move it."""
    if name == "timer_precision_ms" and isinstance(value, int):
        return max((one for one in _PRECISIONS_MS if one <= value), default=_PRECISIONS_MS[0])
    if name == "timer_roll_window_slot" and isinstance(value, int) and not 2 <= value <= _WHEEL_SLOTS - _BLANK_SLOTS:
        return _WHEEL_SLOTS - _BLANK_SLOTS
    if name == "delete_when" and isinstance(value, str):
        return ";".join(one for one in value.split(";") if not (one.strip().isdecimal() and int(one) >= 24))
    if name in LIMITS and name not in _FIXED and isinstance(value, int):
        low, high = LIMITS[name]
        return min(max(value, low), high)
    return value


def _is_address(text: Any) -> bool:
    """Whether brokerIP1 is an address; RocketMQ looks up a name, which nothing in a store needs."""
    try:
        encode_host(f"{text}:0")
    except ValueError:
        return False
    return True


def _beneath(root: str, path: str) -> str:
    """Return `path` relative to `root` if it lies beneath it: a settings file stays right for a copy of its store."""
    relative = os.path.relpath(path, root) if os.path.isabs(path) and os.path.isabs(root) else path
    return path if relative.startswith("..") or relative == "." else relative
