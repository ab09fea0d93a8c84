"""Any single file of a store as dicts, one for each item: the stored values, without any check.

The kind of a file follows from its name and the folder it is in; for a file outside of a store, from its content.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.files import os_files
from rocketflow_store.files.os_files import access_error
from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE, BATCH_UNIT_STRUCT
from rocketflow_store.format.checkpoint_layout import decode_checkpoint
from rocketflow_store.format.consume_queue_unit import PRE_BLANK_SIZE, UNIT_SIZE, UNIT_STRUCT
from rocketflow_store.format.index_layout import (
    ENTRY_SIZE,
    ENTRY_STRUCT,
    HEADER_SIZE,
    HEADER_STRUCT,
    INDEX_NAME_DIGITS,
    layout_of_size,
)
from rocketflow_store.format.index_layout import (
    SLOT_SIZE as INDEX_SLOT_SIZE,
)
from rocketflow_store.format.record import (
    BLANK_MAGIC,
    BLANK_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    SIZE_AND_MAGIC,
    decode_record,
)
from rocketflow_store.format.timer_checkpoint_layout import TIMER_CHECKPOINT_STRUCT
from rocketflow_store.format.timer_layout import (
    DELETE,
    ROLL,
    SLOT_SIZE,
    SLOT_STRUCT,
    TIMER_BLANK,
    TIMER_UNIT_SIZE,
    TIMER_UNIT_STRUCT,
    WHEEL_SIZE,
)
from rocketflow_store.model.errors import CorruptRecordError, NotAStoreError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

_TIMER_UNIT_HEAD: Final = struct.pack(">i", TIMER_UNIT_SIZE)
_LOOK: Final = 1 << 20
_NATIVE: Final = {
    **dict.fromkeys(("stop", "ends", "deleted", "timer", "swap", "broker"), "checked"),
    "confirm": "confirm",
    "healing": "json",
    "store.id": "text",
}
"""Kinds of RocketFlow's files, by name; they are in the folder `rocketflow`."""
_USERS: Final = "rocketflowUsers.json"
_SECRETS: Final = frozenset({"secret", "password"})
"""Members of `rocketflow/broker` and `config/rocketflowUsers.json` that are not shown."""


def dump_file(file: str | Path) -> Iterator[dict[str, Any]]:
    """Yield the items of `file`, in order; raise NotAStoreError for a file that does not belong to a store."""
    path = Path(file)
    if not path.is_file():
        raise NotAStoreError(path, "is not a file; give one file of a store")
    try:
        data = os_files.read_file(path) if path.stat().st_size < 1 << 20 else None
        kind = kind_of(path)
        if kind is None:
            raise NotAStoreError(path, "is not a file of a store (by its name, its folder and its content)")
        if data is None:
            fd = os_files.open_file(path, write=False)
            try:
                data = os_files.map_file(fd, path, os_files.file_size(fd), write=False)  # type: ignore[assignment]
            finally:
                os_files.close_file(fd)
    except OSError as error:
        raise access_error(path, error) from error
    yield from _DUMPERS[kind](path, memoryview(data))  # type: ignore[arg-type]


def kind_of(path: Path) -> str | None:
    """Return the kind of a file, None if it is unknown."""
    named = {
        "checkpoint": "checkpoint",
        "timerwheel": "timerwheel",
        "timercheck": "timercheck",
        "abort": "text",
        "lock": "text",
        "epochFileCheckpoint": "text",
        "brokerIdentity": "text",
    }
    name = path.name.removesuffix(".bak")
    if name in named:
        return named[name]
    if "rocketflow" in (path.parent.name, path.parent.parent.name) and name in _NATIVE:
        return _NATIVE[name]
    if path.suffix in (".json", ".bak") or name in (
        "timermetrics",
        "transactionMetrics",
        "position-checkpoint",
        "store.meta",
    ):
        return "json"
    folders = [parent.name for parent in path.parents]
    for folder, kind in (
        ("commitlog", "commitlog"),
        ("consumequeue", "consumequeue"),
        ("batchconsumequeue", "batchconsumequeue"),
        ("index", "index"),
        ("timerlog", "timerlog"),
    ):
        if folder in folders[:3]:
            return kind
    return _kind_by_content(path)


def _kind_by_content(path: Path) -> str | None:
    fd = os_files.open_file(path, write=False)
    try:
        head = os_files.read_at(fd, 0, 64, path)
    finally:
        os_files.close_file(fd)
    if len(head) >= BLANK_SIZE and SIZE_AND_MAGIC.unpack_from(head)[1] in (MAGIC_V1, MAGIC_V2, BLANK_MAGIC):
        return "commitlog"
    if path.stat().st_size == WHEEL_SIZE:
        return "timerwheel"
    if len(head) >= TIMER_UNIT_SIZE and head[:4] == _TIMER_UNIT_HEAD and 0 < head[15] < 16 and not any(head[12:15]):
        return "timerlog"
    if path.name.isdigit() and len(path.name) == INDEX_NAME_DIGITS and layout_of_size(path.stat().st_size):
        return "index"
    if path.name.isdigit() and len(path.name) >= 20 and path.stat().st_size % UNIT_SIZE == 0:
        return "consumequeue"
    if head.lstrip()[:1] in (b"{", b"["):
        return "json"
    return None


def _commit_log(path: Path, data: memoryview) -> Iterator[dict[str, Any]]:
    position = 0
    while position + BLANK_SIZE <= len(data):
        size, magic = SIZE_AND_MAGIC.unpack_from(data, position)
        if magic == BLANK_MAGIC:
            yield {"kind": "blank", "position": position, "size": size}
            return
        if magic not in (MAGIC_V1, MAGIC_V2) or size < MIN_RECORD_SIZE:
            if _first_written(data, position) >= 0:
                yield {"kind": "damaged", "position": position, "size": size, "why": "no record begins here"}
            return
        try:
            message = decode_record(data, position, path, check_crc=False)
        except CorruptRecordError as error:
            yield {"kind": "damaged", "position": position, "size": size, "why": error.why}
            return
        yield {
            "kind": "record",
            "position": position,
            "size": size,
            "magicCode": f"{magic & 0xFFFFFFFF:#010x}",
            "bodyCRC": message.body_crc,
            "queueId": message.queue_id,
            "flag": message.flag,
            "queueOffset": message.queue_offset,
            "physicalOffset": message.physical_offset,
            "sysFlag": message.sys_flag,
            "bornTimestamp": message.born_timestamp,
            "bornHost": message.born_host,
            "storeTimestamp": message.store_timestamp,
            "storeHost": message.store_host,
            "reconsumeTimes": message.reconsume_times,
            "preparedTransactionOffset": message.prepared_transaction_offset,
            "bodySize": len(message.stored_body),
            "topic": message.topic,
            "properties": dict(message.properties),
        }
        position += size


def _first_written(data: memoryview, position: int) -> int:
    """Return the position of the first byte from `position` on that is not zero; -1 if there is none."""
    for at in range(position, len(data), _LOOK):
        block = bytes(data[at : at + _LOOK])
        if block != bytes(len(block)):
            return at + len(block) - len(block.lstrip(b"\0"))
    return -1


def _consume_queue(path: Path, data: memoryview) -> Iterator[dict[str, Any]]:
    first = int(path.name) // UNIT_SIZE if path.name.isdigit() else 0
    for position in range(0, len(data) - UNIT_SIZE + 1, UNIT_SIZE):
        phy_offset, size, tags_code = UNIT_STRUCT.unpack_from(data, position)
        if size <= 0:
            following = _first_written(data, position)
            if following >= 0:
                count = (following - position) // UNIT_SIZE
                why = f"{count} units are empty, and others follow" if count else "is no unit"
                yield {"kind": "damaged", "position": position, "size": max(count, 1) * UNIT_SIZE, "why": why}
            return
        yield {
            "kind": "pre-blank" if size == PRE_BLANK_SIZE else "unit",
            "position": position,
            "queueOffset": first + position // UNIT_SIZE,
            "physicalOffset": phy_offset,
            "size": size,
            "tagsCode": tags_code,
        }


def _batch_consume_queue(path: Path, data: memoryview) -> Iterator[dict[str, Any]]:
    for position in range(0, len(data) - BATCH_UNIT_SIZE + 1, BATCH_UNIT_SIZE):
        phy_offset, size, tags_code, store_time, base, count, _, _ = BATCH_UNIT_STRUCT.unpack_from(data, position)
        if size <= 0 or count <= 0:
            return
        yield {
            "kind": "batch-unit",
            "position": position,
            "physicalOffset": phy_offset,
            "size": size,
            "tagsCode": tags_code,
            "storeTimestamp": store_time,
            "msgBaseOffset": base,
            "batchSize": count,
        }


def _index(path: Path, data: memoryview) -> Iterator[dict[str, Any]]:
    if len(data) < HEADER_SIZE:
        raise CorruptRecordError(path, 0, f"{len(data)} bytes, the header of an index file alone has {HEADER_SIZE}")
    names = ("beginTimestamp", "endTimestamp", "beginPhyOffset", "endPhyOffset", "hashSlotCount", "indexCount")
    header = dict(zip(names, HEADER_STRUCT.unpack_from(data), strict=True))
    layout = layout_of_size(len(data))
    yield {"kind": "header", "position": 0, **header, "slots": layout[0] if layout else None}
    if layout is None:
        return
    start = HEADER_SIZE + INDEX_SLOT_SIZE * layout[0]
    for number in range(1, min(header["indexCount"], layout[1])):
        position = start + ENTRY_SIZE * number
        key_hash, phy_offset, time_diff, previous = ENTRY_STRUCT.unpack_from(data, position)
        yield {
            "kind": "entry",
            "position": position,
            "number": number,
            "keyHash": key_hash,
            "slot": key_hash % layout[0],
            "physicalOffset": phy_offset,
            "timeDiff": time_diff,
            "prevIndex": previous,
        }


def _checkpoint(path: Path, data: memoryview) -> Iterator[dict[str, Any]]:
    fields = decode_checkpoint(bytes(data))
    yield {
        "kind": "checkpoint",
        "physicMsgTimestamp": fields.physic_msg_timestamp,
        "logicsMsgTimestamp": fields.logics_msg_timestamp,
        "indexMsgTimestamp": fields.index_msg_timestamp,
        "masterFlushedOffset": fields.master_flushed_offset,
        "confirmPhyOffset": fields.confirm_phy_offset,
        "logicsPhysicalOffset": fields.logics_physical_offset,
    }


def _timer_wheel(path: Path, data: memoryview) -> Iterator[dict[str, Any]]:
    for position in range(0, len(data) - SLOT_SIZE + 1, SLOT_SIZE):
        tick, first, last, count, magic = SLOT_STRUCT.unpack_from(data, position)
        if tick or count:
            yield {
                "kind": "slot",
                "position": position,
                "slot": position // SLOT_SIZE,
                "timeSeconds": tick,
                "timeMs": tick * 1000,
                "firstPos": first,
                "lastPos": last,
                "num": count,
                "magic": magic,
            }


def _timer_log(path: Path, data: memoryview) -> Iterator[dict[str, Any]]:
    position, base = 0, int(path.name) if path.name.isdigit() else 0
    while position + TIMER_BLANK.size <= len(data):
        size, _, blank_magic = TIMER_BLANK.unpack_from(data, position)
        if blank_magic == BLANK_MAGIC:
            yield {"kind": "blank", "position": position, "size": size}
            return
        if size != TIMER_UNIT_SIZE or position + size > len(data):
            if any(data[position : position + TIMER_UNIT_SIZE]):
                yield {"kind": "damaged", "position": position, "why": f"a record of {size} bytes"}
            return
        _, previous, magic, written_ms, delay_ms, phy_offset, msg_size, topic_hash, _ = TIMER_UNIT_STRUCT.unpack_from(
            data, position
        )
        yield {
            "kind": "timer",
            "position": position,
            "offset": base + position,
            "prevPos": previous,
            "magic": magic,
            "roll": bool(magic & ROLL),
            "delete": bool(magic & DELETE),
            "writeTimeMs": written_ms,
            "delayMs": delay_ms,
            "dueTimeMs": written_ms + delay_ms,
            "physicalOffset": phy_offset,
            "size": msg_size,
            "topicHash": topic_hash,
        }
        position += size


def _timer_check(path: Path, data: memoryview) -> Iterator[dict[str, Any]]:
    names = (
        "lastReadTimeMs",
        "lastTimerLogFlushPos",
        "lastTimerQueueOffset",
        "masterTimerQueueOffset",
        "stateVersion",
        "timestamp",
        "counter",
    )
    padded = bytes(data).ljust(TIMER_CHECKPOINT_STRUCT.size, b"\0")
    yield {"kind": "timercheck", **dict(zip(names, TIMER_CHECKPOINT_STRUCT.unpack_from(padded), strict=True))}


def _json(path: Path, data: memoryview) -> Iterator[dict[str, Any]]:
    from rocketflow_store.files.fastjson import parse_json_object

    try:
        value = parse_json_object(bytes(data).decode("utf-8"))
    except (ValueError, StoreError) as error:
        raise CorruptRecordError(path, 0, f"cannot be parsed as JSON: {error}") from error
    yield {"kind": "json", "content": _without_secrets(value) if path.name.startswith(_USERS) else value}


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: "******" if key in _SECRETS else _without_secrets(one) for key, one in value.items()}
    return value


def _checked(path: Path, data: memoryview) -> Iterator[dict[str, Any]]:
    from rocketflow_store.metadata.native.checked_json import decode_checked_json

    try:
        value = decode_checked_json(bytes(data))
    except ValueError as error:
        raise CorruptRecordError(path, 0, f"the CRC of its {len(data)} bytes is wrong ({error})") from error
    name = path.name.removesuffix(".bak")
    yield {"kind": name, "content": _without_secrets(value) if name == "broker" else value}


def _confirm(path: Path, data: memoryview) -> Iterator[dict[str, Any]]:
    from rocketflow_store.metadata.native.confirm import decode_confirm

    confirmed = decode_confirm(bytes(data))
    if confirmed is None:
        raise CorruptRecordError(path, 0, f"{len(data)} bytes are not a confirm file")
    yield {
        "kind": "confirm",
        "confirmOffset": confirmed.confirm_offset,
        "durableOffset": confirmed.durable_offset,
        "pid": confirmed.pid,
        "abortMtimeNs": confirmed.abort_mtime_ns,
        "syncFlush": confirmed.synced,
        "recordCrcFrom": confirmed.record_crc_from,
        "durableTimestamp": confirmed.durable_timestamp,
        "tagEntriesFrom": confirmed.tag_entries_from,
        "logSyncedOffset": confirmed.log_synced_offset,
        "cacheMark": confirmed.cache_mark,
        "syncFailed": confirmed.sync_failed,
    }


def _text(path: Path, data: memoryview) -> Iterator[dict[str, Any]]:
    yield {"kind": "text", "content": bytes(data).decode("utf-8", "replace")}


_DUMPERS: Final = {
    "checked": _checked,
    "commitlog": _commit_log,
    "confirm": _confirm,
    "consumequeue": _consume_queue,
    "batchconsumequeue": _batch_consume_queue,
    "index": _index,
    "checkpoint": _checkpoint,
    "timerwheel": _timer_wheel,
    "timerlog": _timer_log,
    "timercheck": _timer_check,
    "json": _json,
    "text": _text,
}
