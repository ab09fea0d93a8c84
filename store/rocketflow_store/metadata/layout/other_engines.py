"""Parts of a store that RocketMQ keeps in RocksDB or DLedger, which RocketFlow neither reads nor writes.

A reader would show an empty store and a writer would put files into a database's directory, so both refuse the store
before they touch anything. `rocksdbstore/` is different: every store of RocketMQ 5.5 has an empty one. If it holds data
(index, timer or transactions), log and queue files are still complete for readers, but a writer would leave the
database out of date.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow_store.files.os_files import access_error
from rocketflow_store.model.errors import OtherEngineError
from rocketflow_store.telemetry import events

if TYPE_CHECKING:
    from pathlib import Path

_CONFIG_DATABASES: Final = ("topics", "subscriptionGroups", "consumerOffsets", "metadata", "rdb")
_QUEUES: Final = (
    "ConsumeQueue in RocksDB",
    "storeType=defaultRocksDB",
    "start the broker with storeType=default, which builds queue files from the CommitLog, or copy commitlog/ to a "
    "directory of its own and run 'rocketflow store rebuild' there",
)
_warned: Final[set[tuple[Path, Path]]] = set()


class OtherEngine(NamedTuple):
    """A part that another engine keeps: its path, its name, the setting that caused it, and the remedy."""

    path: Path
    feature: str
    setting: str
    way_out: str


def refuse_other_engines(root: Path, consume_queue: str) -> None:
    """Raise OtherEngineError if queues, configuration, log or POP state of the store at `root` are not in files."""
    found = _find(root, consume_queue)
    if found is not None:
        raise OtherEngineError(*found)


def refuse_rocksdb_data(root: Path) -> None:
    """Raise OtherEngineError if `rocksdbstore/` holds data: a writer would not keep it up to date with the log."""
    found = _rocksdb_data(root)
    if found is not None:
        raise OtherEngineError(*found)


def warn_of_rocksdb_data(root: Path) -> None:
    """Log once per process that `rocksdbstore/` holds data that is not read; log and queue files are."""
    found = _rocksdb_data(root)
    if found is not None and (root, found.path) not in _warned:
        _warned.add((root, found.path))
        why = f"{found.feature} ({found.setting}) is not read; messages come from log and queue files"
        events.report(events.NO_EFFECT, root, found.path, why)


def _find(root: Path, consume_queue: str) -> OtherEngine | None:
    if "CURRENT" in _names(root / consume_queue):
        return OtherEngine(root / consume_queue, *_QUEUES)
    separate = root / "consumequeue_rocksdb"
    if _names(separate):
        feature, setting, way_out = _QUEUES
        return OtherEngine(separate, feature, f"{setting}, useSeparateStorePathForRocksdbCQ=true", way_out)
    for name in _CONFIG_DATABASES:
        path = root / "config" / name
        if _names(path):
            return OtherEngine(
                path,
                "configuration in RocksDB",
                "storeType=defaultRocksDB, useSingleRocksDBForAllConfigs or configManagerVersion=v2",
                "export it with 'mqadmin rocksDBConfigToJson' to config/*.json, and move the database away",
            )
    for name in sorted(_names(root)):
        if name.startswith("dledger-") and _names(root / name):
            return OtherEngine(
                root / name,
                "CommitLog in DLedger",
                "enableDLegerCommitLog=true",
                "copy the messages to a broker without DLedger (controller mode keeps plain files)",
            )
    if _names(root / "kvStore"):
        return OtherEngine(
            root / "kvStore",
            "POP state in RocksDB",
            "popConsumerKVServiceEnable=true",
            "let the broker run with popConsumerKVServiceEnable=false until no POP message is in flight, and move "
            "kvStore/ away",
        )
    return None


def _rocksdb_data(root: Path) -> OtherEngine | None:
    path = root / "rocksdbstore"
    for name in _names(path):
        if name.endswith(".sst") or (name.endswith(".log") and _size(path / name) > 0):
            return OtherEngine(
                path,
                "index, timer or transactions in RocksDB",
                "indexRocksDBEnable, timerRocksDBEnable or transRocksDBEnable",
                "switch them off in the broker until its database is drained, and move rocksdbstore/ away; readers "
                "take messages from log and queue files",
            )
    return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise access_error(path, error) from error


def _names(path: Path) -> frozenset[str]:
    try:
        return frozenset(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError as error:
        raise access_error(path, error) from error
