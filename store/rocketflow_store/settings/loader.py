"""The loader of a store's settings, used by every entry point.

Each key has one value. Later sources win over earlier ones:

    RocketMQ's default < broker.conf (`--config FILE`, option `config`) < environment (ROCKETFLOW_<key>) < command line

Some settings have an option on the command line (and in Spark, Kafka or jobs). Keys and values are those of RocketMQ
4.9 to 5.5.1 with the same meaning: numbers that RocketMQ moves into a range are moved here too. `rocketflow.<key>` are
RocketFlow's settings (`rocketflow.directIO`), in the environment ROCKETFLOW_<key>. A key that no store uses is accepted
and named by a warning; a key that RocketMQ does not know is an error that names the nearest known key.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.model.message_id import encode_host
from rocketflow_store.model.setting import Effect
from rocketflow_store.settings.broker_conf import STORE_TABLE, SettingTable, read_properties
from rocketflow_store.settings.settings_table import BY_KEY
from rocketflow_store.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocketflow_store.model.setting import Setting

_PATH_FIELDS: Final = (
    "store_path_commit_log",
    "read_only_commit_log_store_paths",
    "store_path_consume_queue",
    "store_path_index",
)
_RELATED_KEYS: Final = frozenset({"storePathRootDir", "brokerIP1", "listenPort"})
"""Keys that are not settings of a store, but contribute to one."""
_PRECISIONS_MS: Final = (100, 200, 500, 1_000)
_WHEEL_SLOTS: Final = 7 * 86_400
_BLANK_SLOTS: Final = 60


def load_settings(
    file: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    table: SettingTable = STORE_TABLE,
) -> dict[str, Any]:
    """Return the values by key from `file`, `environ` (default os.environ) and `options`; later sources win.

    Options that are None count as not given. `table` has the keys that file and environment may have.

    Raises:
        StoreAccessError: The file cannot be read.
        StoreConfigError: A key is unknown, or a value does not fit its key.
    """
    values = {} if file is None else table.typed_values(read_properties(Path(file)))
    values |= table.typed_values(table.of_environment(os.environ if environ is None else environ))
    values |= {key: value for key, value in (options or {}).items() if value is not None}
    return values


def without_effect(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the given keys that change nothing here, sorted."""
    idle = {key for key in values if key not in _RELATED_KEYS and not _has_effect(key)}
    if not _is_address(values.get("brokerIP1", "127.0.0.1")):
        idle.add("brokerIP1")
    return tuple(sorted(idle))


def _has_effect(key: str) -> bool:
    return key in BY_KEY and BY_KEY[key].effect is not Effect.NONE


_warned: Final[set[tuple[Path, tuple[str, ...]]]] = set()


def warn_once(keys: tuple[str, ...], path: Path) -> None:
    """Log the keys of a StoreConfig that have no effect, once for a store in a process."""
    if keys and (path, keys) not in _warned:
        _warned.add((path, keys))
        why = f"settings without effect in RocketFlow: {', '.join(keys)}"
        events.report(events.NO_EFFECT, path, path, why, count=len(keys))


def fields_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return StoreConfig's fields from values by key, as RocketMQ takes them."""
    given = [(BY_KEY[key], value) for key, value in values.items() if key in BY_KEY]
    chosen = {setting.field: _as_rocketmq(setting, value) for setting, value in given}
    if "brokerIP1" in values or "listenPort" in values:
        address = values.get("brokerIP1", "127.0.0.1")
        host = address if _is_address(address) else "127.0.0.1"
        chosen.setdefault("store_host", f"{host}:{values.get('listenPort', 10911)}")
    root, splitter = values.get("storePathRootDir"), chosen.get("multi_path_splitter", ",")
    for name in _PATH_FIELDS:
        if root and chosen.get(name):
            chosen[name] = splitter.join(_beneath(root, one.strip()) for one in chosen[name].split(splitter or ","))
    return chosen


def _as_rocketmq(setting: Setting, value: Any) -> Any:
    """Return what RocketMQ makes of a value that it accepts: some setters and users move it."""
    name = setting.field
    if name == "timer_precision_ms" and isinstance(value, int):
        return max((one for one in _PRECISIONS_MS if one <= value), default=_PRECISIONS_MS[0])
    if name == "timer_roll_window_slot" and isinstance(value, int) and not 2 <= value <= _WHEEL_SLOTS - _BLANK_SLOTS:
        return _WHEEL_SLOTS - _BLANK_SLOTS
    if name == "delete_when" and isinstance(value, str):
        return ";".join(one for one in value.split(";") if not (one.strip().isdecimal() and int(one) >= 24))
    return setting.fitted(value)


def _is_address(text: Any) -> bool:
    """Check that brokerIP1 is an address; RocketMQ also resolves host names, which a store does not need."""
    try:
        encode_host(f"{text}:0")
    except ValueError:
        return False
    return True


def _beneath(root: str, path: str) -> str:
    """Return `path` relative to `root` if it lies beneath it: a settings file stays right for a copy of its store."""
    relative = os.path.relpath(path, root) if os.path.isabs(path) and os.path.isabs(root) else path
    return path if relative.startswith("..") or relative == "." else relative
