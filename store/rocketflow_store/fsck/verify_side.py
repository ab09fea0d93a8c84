"""Verification of the small files and of the directory: checkpoint, config, store.meta, names and sizes of files."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketflow_store.files import os_files
from rocketflow_store.files.fastjson import parse_json_object
from rocketflow_store.files.json_fields import int64_field, text_field
from rocketflow_store.files.mapped.mapped_file import file_name
from rocketflow_store.format.checkpoint_layout import CHECKPOINT_SIZE, CHECKPOINT_STRUCT, decode_checkpoint
from rocketflow_store.format.derived_profile import PROFILES
from rocketflow_store.metadata.config_files import ConfigFiles
from rocketflow_store.metadata.layout.store_layout import StoreLayout
from rocketflow_store.metadata.native.store_meta_fields import (
    FORMAT_VERSION_KEY,
    PROFILE_KEY,
    SIZE_KEYS,
    STORE_ID_KEY,
    read_meta_fields,
)
from rocketflow_store.model.errors import StoreError
from rocketflow_store.model.topic_names import LMQ_PREFIX, SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rocketflow_store.fsck.findings import Findings
    from rocketflow_store.fsck.observation import Observation
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.settings.store_config import StoreConfig

_NAME_DIGITS: Final = 20
_INDEX_NAME_DIGITS: Final = 17
_LATEST_MS: Final = 1 << 46
_LAST_OFFSET: Final = 1 << 56


def check_config(paths: StorePaths, found: Findings) -> dict[str, int] | None:
    """Check the JSON files; return the store's topics with their numbers of queues, None if they cannot be read.

    Without a topics.json, a deleted topic cannot be distinguished from one whose queues are missing.
    """
    files = ConfigFiles(paths.config)
    topics: dict[str, int] | None = None
    for one in files.every:
        path = paths.config / one.NAME
        try:
            _ = one.data_version  # reads the file, or its .bak
            if one is files.topics and (path.exists() or path.with_name(path.name + ".bak").exists()):
                known = files.topics.topics().items()
                topics = {name: max(topic.read_queue_nums, topic.write_queue_nums) for name, topic in known}
        except StoreError as error:
            found.add("config", path, 0, _size(path), str(error))
            continue
        why = _why_unreadable(path)
        if why is not None:
            found.add("config", path, 0, _size(path), f"{why}; its .bak is good")
    return topics


def _why_unreadable(path: Path) -> str | None:
    """Return why a config file with a good `.bak` cannot be used; None if it can, or if there is no `.bak`."""
    if not path.exists():
        return "is missing" if path.with_name(path.name + ".bak").exists() else None
    try:
        parse_json_object(os_files.read_file(path).decode("utf-8"))
        return None
    except (OSError, ValueError) as error:
        return f"cannot be understood ({error})"


def check_checkpoint(seen: Observation, newest: int, found: Findings) -> None:
    """Check the checkpoint of a log whose newest record was stored at `newest` (ms)."""
    settled, size = seen.is_clean, seen.log_file_size
    # after a blank at the end of the last file the log continues in the next one, which need not exist
    end = -(-seen.end // size) * size
    path = seen.reader.paths.checkpoint
    if not path.exists():
        if settled and end:
            found.add("checkpoint", path, 0, 0, "is missing after an orderly stop")
        return
    if path.is_dir():
        found.add("checkpoint", path, 0, 0, "is a directory")
        return
    try:
        raw = os_files.read_file(path)
    except OSError as error:
        raise os_files.access_error(path, error) from error
    if len(raw) != CHECKPOINT_SIZE:
        found.add("checkpoint", path, 0, len(raw), f"has {len(raw)} bytes, not {CHECKPOINT_SIZE}")
        return
    fields = decode_checkpoint(raw)
    latest = newest if settled and newest else _LATEST_MS
    limits = {
        "physic_msg_timestamp": latest,
        "logics_msg_timestamp": latest,
        "index_msg_timestamp": latest,
        "master_flushed_offset": _LAST_OFFSET,
        "confirm_phy_offset": end if settled else _LAST_OFFSET,
        "logics_physical_offset": end if settled else _LAST_OFFSET,
    }
    for at, (name, limit) in enumerate(limits.items()):
        value = getattr(fields, name)
        if not (-1 if at > 2 else 0) <= value <= limit:
            found.add("checkpoint", path, 8 * at, 8, f"{name} is {value}, more than the log has ({limit})")
    queues_until = fields.logics_physical_offset
    known = settled and seen.reader.log.min_phy_offset <= queues_until < seen.end
    if known and seen.reader.log.record_size_at(queues_until) is None:
        found.add("checkpoint", path, 40, 8, f"logics_physical_offset is {queues_until}, where no record begins")
    if any(raw[CHECKPOINT_STRUCT.size :]):
        at = next(at for at in range(CHECKPOINT_STRUCT.size, len(raw)) if raw[at])
        found.add("checkpoint", path, at, 1, "holds something where nothing is written")


def check_meta(paths: StorePaths, config: StoreConfig, found: Findings) -> None:
    """Check `rocketflow/store.meta` against the sizes of the files."""
    if not paths.meta.exists():
        return
    size = _size(paths.meta)
    try:
        body = read_meta_fields(paths.meta)
        profile = text_field(body, PROFILE_KEY, "")
        if profile not in ("", *PROFILES):
            raise ValueError(f"derivedProfile is {profile!r}, not one of {', '.join(PROFILES)}")
        _ = body[STORE_ID_KEY], int64_field({FORMAT_VERSION_KEY: body[FORMAT_VERSION_KEY]}, FORMAT_VERSION_KEY, 0)
        sizes = {name: int64_field({name: body[key]}, name, 0) for name, key in SIZE_KEYS.items()}
        StoreLayout.from_dict(body)
    except (OSError, ValueError, KeyError) as error:
        found.add("meta", paths.meta, 0, size, f"cannot be understood ({error})")
        return
    for name, stored in sizes.items():
        if stored != getattr(config, name):
            found.add(
                "meta", paths.meta, 0, size, f"{SIZE_KEYS[name]} is {stored}, the files say {getattr(config, name)}"
            )


def check_files(paths: StorePaths, config: StoreConfig, found: Findings) -> None:
    """Check names and sizes of the large files, and the CommitLog for gaps; a writer may be creating a new file."""
    bases: list[int] = []
    for directory in paths.commit_logs:
        _directory(directory, config.mapped_file_size_commit_log, found)
        bases += [int(one.name) for one in _files(directory) if _is_name(one.name, _NAME_DIGITS) and _size(one)]
    bases.sort()
    size = config.mapped_file_size_commit_log
    for base, following in pairwise(bases):
        for missing in range(base + size, following, size):
            found.add("missing-file", paths.commit_log / file_name(missing), 0, size, "a CommitLog file is missing")
    for room, size in (
        (paths.consume_queue, config.mapped_file_size_consume_queue),
        (paths.batch_consume_queue, config.mapper_file_size_batch_consume_queue),
    ):
        for queue in [one for topic in _directories(room, found) for one in _directories(topic, found)]:
            if queue.name.isdigit():
                _directory(queue, size, found)
            else:
                found.add("foreign-file", queue, 0, 0, "is no queue")
    for one in _files(paths.index):
        if not _is_name(one.name, _INDEX_NAME_DIGITS):
            found.add("foreign-file", one, 0, _size(one), "is no index file")
        elif _size(one) != config.index_file_size:
            found.add("file-size", one, 0, _size(one), f"an index file has {config.index_file_size} bytes")


def _directory(directory: Path, file_size: int, found: Findings) -> None:
    for one in _files(directory):
        size = _size(one)
        if not _is_name(one.name, _NAME_DIGITS) or int(one.name) % file_size:
            found.add(
                "foreign-file", one, 0, size, f"no file of this directory can have this name ({file_size} bytes each)"
            )
        elif one.is_dir():
            found.add("foreign-file", one, 0, 0, "is a directory")
        elif size != file_size:
            found.add("file-size", one, 0, size, f"has {size} bytes, the others have {file_size}")


def offsets_beyond(
    paths: StorePaths, ends: Mapping[tuple[str, int], int], topics: Mapping[str, int] | None, found: Findings
) -> None:
    """Report stored positions after the end of their queue (`ends`: the number after the last message)."""
    files = ConfigFiles(paths.config)
    for file in files.positions:
        try:
            for (topic, group), offsets in file.table().items():
                listed = topics is None or topic in topics
                for queue_id, offset in offsets.items():
                    end = ends.get((topic, queue_id), 0)
                    if offset > end and (listed or (topic.startswith(LMQ_PREFIX) and (topic, queue_id) in ends)):
                        what = f"{topic}@{group} queue {queue_id} is at {offset}, its end is {end}"
                        found.add("offset", file.path, 0, _size(file.path), what)
        except StoreError as error:
            _unlisted(file.path, error, found)
    try:
        for level, offset in files.delay_offsets.offsets().items():
            end = ends.get((SCHEDULE_TOPIC, level - 1), 0)
            if level >= 1 and offset > end:  # other levels have no owner
                what = f"delay level {level} is at {offset}, the end of its queue is {end}"
                found.add("offset", files.delay_offsets.path, 0, _size(files.delay_offsets.path), what)
    except StoreError as error:
        _unlisted(files.delay_offsets.path, error, found)


def _unlisted(path: Path, error: StoreError, found: Findings) -> None:
    """Report a file that cannot be read, unless the check of the config files did."""
    if not any(one.file == str(path) for one in found.listed):
        found.add("config", path, 0, _size(path), str(error))


def _files(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _directories(directory: Path, found: Findings) -> Iterator[Path]:
    """Yield the directories of one that holds no other files; those are findings."""
    for one in _files(directory):
        if one.is_dir():
            yield one
        else:
            found.add("foreign-file", one, 0, _size(one), "is a file, where a directory belongs")


def _is_name(name: str, digits: int) -> bool:
    return name.isascii() and name.isdigit() and len(name) >= digits


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
