"""Limits of the system for a process that writes a store, and remedies if they are too low."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketflow_store import StoreConfig

_MIN_OPEN_FILES: Final = 1024
_OPEN_FILES_A_BIG_STORE: Final = 65_536
_MIN_MAP_COUNT: Final = 65_530
_MAP_COUNT_ROCKETMQ: Final = 655_360
_MAX_SWAPPINESS: Final = 10


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit: `value` in its own unit (-1: none), whether a store can be written with it, and a remedy."""

    name: str
    value: int
    ok: bool
    detail: str
    remedy: str = ""


def limits(config: StoreConfig | None = None, proc: Path = Path("/proc")) -> list[Limit]:
    """Return the limits for a store of this configuration (by default RocketMQ's), as far as `proc` has them."""
    config = config or StoreConfig()
    found = [_open_files(), _file_size(config), _locked_memory(config, proc)]
    for name, check in (("max_map_count", _map_count), ("swappiness", _swappiness)):
        try:
            found.append(check(int((proc / "sys/vm" / name).read_text())))
        except (OSError, ValueError):
            continue
    return found


def _open_files() -> Limit:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    value = _number(soft)
    remedy = ""
    if 0 <= value < _OPEN_FILES_A_BIG_STORE:
        remedy = f"faster with thousands of queues: ulimit -n {_OPEN_FILES_A_BIG_STORE} (nofile in limits.conf)"
    detail = f"{_text(value)} (at most {_text(_number(hard))}); half of them are for files of stores"
    return Limit("open files", value, value < 0 or value >= _MIN_OPEN_FILES, detail, remedy)


def _file_size(config: StoreConfig) -> Limit:
    value = _number(resource.getrlimit(resource.RLIMIT_FSIZE)[0])
    needed = max(config.mapped_file_size_commit_log, config.index_file_size)
    fine = value < 0 or value >= needed
    remedy = "" if fine else f"ulimit -f unlimited, or a mappedFileSizeCommitLog and index below {value} bytes"
    return Limit("file size", value, fine, f"{_text(value)}; the largest file has {needed:,} bytes", remedy)


def _locked_memory(config: StoreConfig, proc: Path) -> Limit:
    value = _number(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0])
    files = 3 * config.mapped_file_size_commit_log
    pool = config.transient_store_pool_size * config.mapped_file_size_commit_log
    if value < 0 or value >= max(files, pool) or _may_lock_anything(proc):
        return Limit("locked memory", value, True, f"{_text(value)}; enough for warm-up and store pool")
    detail = f"{_text(value)}; warmMapedFileEnable would lock {files:,} bytes, transientStorePoolEnable {pool:,}"
    remedy = "if you use them: ulimit -l unlimited (memlock in limits.conf), or CAP_IPC_LOCK; else nothing is locked"
    return Limit("locked memory", value, True, detail, remedy)


def _may_lock_anything(proc: Path) -> bool:
    """Return True if the process has CAP_IPC_LOCK, capability 14."""
    try:
        status = (proc / "self/status").read_text()
    except OSError:
        return False
    effective = next((line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), "0")
    return bool(int(effective, 16) >> 14 & 1)


def _map_count(value: int) -> Limit:
    remedy = (
        "" if value >= _MAP_COUNT_ROCKETMQ else f"as RocketMQ's os.sh: sysctl -w vm.max_map_count={_MAP_COUNT_ROCKETMQ}"
    )
    return Limit("memory maps", value, value >= _MIN_MAP_COUNT, f"vm.max_map_count is {value:,}", remedy)


def _swappiness(value: int) -> Limit:
    remedy = "" if value <= _MAX_SWAPPINESS else f"as RocketMQ's os.sh: sysctl -w vm.swappiness={_MAX_SWAPPINESS}"
    return Limit("swappiness", value, True, f"vm.swappiness is {value}", remedy)


def _number(value: int) -> int:
    return -1 if value == resource.RLIM_INFINITY else value


def _text(value: int) -> str:
    return "unlimited" if value < 0 else f"{value:,}"
