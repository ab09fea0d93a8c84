"""The bytes that a rebuild will write, known before it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.files import os_files
from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.format.index_layout import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE
from rocketflow_store.log.scan_file import scan_file
from rocketflow_store.model.errors import StoreFullError, UnreadableError
from rocketflow_store.records.arrow.unit_types import INDEX_ROW_DTYPE
from rocketflow_store.records.decoding.decode import RecordColumns
from rocketflow_store.records.decoding.dispatch_rows import rows_of_records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.rebuild.write_plan import IndexFilePlan, QueuePlan
    from rocketflow_store.settings.store_config import StoreConfig

_SAMPLED_FILES: Final = 8
_SAMPLED_RECORDS: Final = 512
_BLOCK: Final = 4096
_INDEX_AHEAD: Final = 1 << 20
"""Entries for which an index file has blocks allocated beyond those that it holds."""


def parts_bytes(units: int, entries: int) -> int:
    """Return the bytes of the parts between the stages."""
    return units * UNIT_SIZE + entries * INDEX_ROW_DTYPE.itemsize


def queues_bytes(plans: Sequence[QueuePlan], unit_size: int) -> int:
    """Return the bytes of the files of queues."""
    return sum(-(-(file.end - file.base_unit) * unit_size // _BLOCK) * _BLOCK for plan in plans for file in plan.files)


def index_bytes(plans: Sequence[IndexFilePlan], config: StoreConfig) -> int:
    """Return the bytes of index files."""
    return sum(_index_file_bytes(one.count, config) for one in plans)


def _index_file_bytes(entries: int, config: StoreConfig) -> int:
    capacity = min(entries + _INDEX_AHEAD, config.max_index_num)
    return HEADER_SIZE + SLOT_SIZE * config.max_hash_slot_num + ENTRY_SIZE * capacity


def estimated_bytes(
    files: Sequence[MappedFile], log_bytes: int, config: StoreConfig, *, units: bool, index: bool
) -> tuple[int, int, int]:
    """Return an estimate of the bytes of (parts, queues, index), from the first records of some files."""
    size = count = entries = 0
    for at in sorted({*np.linspace(0, len(files) - 1, _SAMPLED_FILES, dtype=int).tolist()}) if files else []:
        mapped = files[at]
        try:
            scan = scan_file(mapped, 0, mapped.file_size, _SAMPLED_RECORDS)
        except UnreadableError:
            continue
        records = RecordColumns(mapped.buffer, scan.positions, scan.sizes)
        if records.faults or records.count == 0:
            continue
        size += int(scan.sizes.sum())
        count += records.count
        entries += len(rows_of_records(records, 0, config.delay_levels_ms).entries.of_row)
    if size == 0:
        return 0, 0, 0
    all_units = log_bytes * count // size if units else 0
    all_entries = log_bytes * entries // size if index else 0
    capacity = config.max_index_num - 1
    full, rest = divmod(all_entries, capacity)
    index_total = full * _index_file_bytes(capacity, config) + (_index_file_bytes(rest, config) if rest else 0)
    return parts_bytes(all_units, all_entries), all_units * UNIT_SIZE, index_total


def check_space(needed: Mapping[Path, int]) -> None:
    """Raise StoreFullError if a disk has less free space than the directories on it need."""
    by_disk: dict[int, tuple[Path, int]] = {}
    for directory, count in needed.items():
        there = directory
        while not there.exists():
            there = there.parent
        first, before = by_disk.get(there.stat().st_dev, (there, 0))
        by_disk[there.stat().st_dev] = first, before + count
    for directory, count in by_disk.values():
        free = os_files.disk_free_bytes(directory)
        if free < count:
            why = f"a rebuild needs about {count} bytes beside the store, {free} are free"
            raise StoreFullError(directory, why, "rebuild again")
