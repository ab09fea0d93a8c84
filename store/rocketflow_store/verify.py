"""fsck: every record, queue unit and index entry against the log. Reads only; works beside a live writer.

Kinds of findings: `record` (damaged bytes in the log), `missing-unit` / `wrong-unit` (a record that its queue does not
point at), `stray-unit` (a unit without its record), `index-header`, `index-entry`, `index-chain`, `checkpoint`,
`config`. A record that cannot be read is lost; everything else can be made again from the log.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rocketflow_store.columnar.decode import RecordColumns
from rocketflow_store.columnar.scan import ScanStop, scan_records
from rocketflow_store.config_files import ConfigFiles
from rocketflow_store.consume_queue import pre_blank, written
from rocketflow_store.dispatch import rows_of_records
from rocketflow_store.errors import StoreError
from rocketflow_store.format.checkpoint_layout import CHECKPOINT_SIZE
from rocketflow_store.format.consume_queue_unit import MAX_EXT_ADDRESS, UNIT_SIZE
from rocketflow_store.format.record import MAGIC_V1, MAGIC_V2, MIN_RECORD_SIZE
from rocketflow_store.message import INNER_BATCH_FLAG, SCHEDULE_TOPIC
from rocketflow_store.store_reader import StoreReader

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from rocketflow_store.config import StoreConfig
    from rocketflow_store.dispatch import DispatchRows
    from rocketflow_store.index_file import IndexFile
    from rocketflow_store.mapped_file import MappedFile

    Ints = npt.NDArray[np.int64]

_MAX_FINDINGS_A_FILE: Final = 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong: `offset` and `length` are bytes within `file`."""

    kind: str
    file: str
    offset: int
    length: int
    detail: str

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "file": self.file,
            "offset": self.offset,
            "length": self.length,
            "detail": self.detail,
        }


@dataclass(slots=True)
class VerifyResult:
    """What was looked at and what was found."""

    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    lost_records: int = 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "records": self.records,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "findings": [one.as_dict() for one in self.findings],
            "lostRecords": self.lost_records,
        }


@dataclass(slots=True)
class _FileResult:
    records: int = 0
    bytes: int = 0
    lost: int = 0
    findings: list[Finding] = field(default_factory=list)
    pairs: list[Ints] = field(default_factory=list)
    """(position << 32 | key hash) of every index entry that the file's records ask for."""
    seen: dict[tuple[str, int], int] = field(default_factory=dict)


def verify_store(
    path: str | Path,
    config: StoreConfig | None = None,
    *,
    workers: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> VerifyResult:
    """Check the whole store; `progress(done, total)` is told bytes of log."""
    began = time.monotonic()
    result = VerifyResult()
    with StoreReader(path, config) as reader:
        _Verification(reader, result, progress).run(workers)
    result.seconds = time.monotonic() - began
    return result


class _Verification:
    def __init__(self, reader: StoreReader, result: VerifyResult, progress: Callable[[int, int], None] | None) -> None:
        self._reader, self._result, self._progress = reader, result, progress
        self._settled = reader.state == "clean"
        self._end = reader.max_phy_offset
        self._snapshot = reader.snapshot()
        self._done = 0
        self._topics: set[str] = set()

    def run(self, workers: int) -> None:
        self._config_files()
        self._checkpoint()
        files = [one for one in self._reader.log_files if one.file_from_offset < self._end]
        with ThreadPoolExecutor(workers) as pool:
            results = list(pool.map(self._log_file, files))
        seen: dict[tuple[str, int], int] = {}
        for one in results:
            self._result.records += one.records
            self._result.bytes += one.bytes
            self._result.lost_records += one.lost
            self._result.findings += one.findings
            for key, count in one.seen.items():
                seen[key] = seen.get(key, 0) + count
        self._queues(seen)
        pairs = {
            mapped.file_from_offset: np.sort(np.concatenate(one.pairs)) if one.pairs else np.zeros(0, np.int64)
            for mapped, one in zip(files, results, strict=True)
        }
        for index in self._reader.index.files:
            self._index(index, pairs)

    def _find(self, kind: str, file: object, offset: int, length: int, detail: str) -> None:
        self._result.findings.append(Finding(kind, str(file), offset, length, detail))

    # -- side files

    def _config_files(self) -> None:
        files = ConfigFiles(self._reader.paths.config)
        for one in (files.topics, files.consumer_offsets, files.delay_offsets, files.subscription_groups):
            path = self._reader.paths.config / one.NAME
            try:
                if one is files.topics:
                    self._topics = set(files.topics.topics())
                elif one is files.consumer_offsets:
                    files.consumer_offsets.table()
                elif one is files.delay_offsets:
                    files.delay_offsets.offsets()
                else:
                    files.subscription_groups.groups()
            except StoreError as error:
                size = path.stat().st_size if path.exists() else 0
                self._find("config", path, 0, size, str(error))

    def _checkpoint(self) -> None:
        path = self._reader.paths.checkpoint
        if not path.exists():
            return
        size = path.stat().st_size
        if size != CHECKPOINT_SIZE:
            self._find("checkpoint", path, 0, size, f"has {size} bytes, not {CHECKPOINT_SIZE}")
            return
        fields = self._reader.checkpoint
        for name in ("physic_msg_timestamp", "logics_msg_timestamp", "index_msg_timestamp"):
            value = getattr(fields, name)
            if not 0 <= value < 1 << 46:
                self._find("checkpoint", path, 0, 8, f"{name} is {value}")

    # -- the log

    def _log_file(self, mapped: MappedFile) -> _FileResult:
        found = _FileResult()
        limit = min(mapped.file_size, self._end - mapped.file_from_offset)
        position = 0
        while position < limit:
            scan = scan_records(mapped.buffer, position, limit)
            if len(scan.positions):
                position = self._run_of_records(mapped, scan.positions, scan.sizes, found)
                self._told(int(scan.end - scan.positions[0]))
                if position != scan.end:
                    continue
            position = scan.end
            if scan.stop is ScanStop.BLANK:
                found.bytes += mapped.file_size - position
                break
            if scan.stop is ScanStop.END and position < limit:
                position = self._damaged(mapped, position, limit, "no record where one should begin", found)
        return found

    def _told(self, count: int) -> None:
        self._done += count
        if self._progress is not None:
            self._progress(self._done, self._end - self._reader.min_phy_offset)

    def _run_of_records(self, mapped: MappedFile, positions: Ints, sizes: Ints, found: _FileResult) -> int:
        """Check a run; the position to go on from (behind the run, or behind the first damage in it)."""
        records = RecordColumns(mapped.buffer, positions, sizes)
        records.check_own_offset(mapped.file_from_offset)
        if not records.faults:
            records.check_crc(records.bodies())
        good = min(records.faults) if records.faults else records.count
        if good:
            fine = records if good == records.count else RecordColumns(mapped.buffer, positions[:good], sizes[:good])
            rows = rows_of_records(fine, mapped.file_from_offset, self._reader.config.delay_levels_ms)
            found.records += good
            found.bytes += int(sizes[:good].sum())
            self._units_of(rows, fine, found)
            found.pairs.append((fine.positions[rows.entries.of_row] << 32) | rows.entries.hashes)
        if good == records.count:
            return int(positions[-1] + sizes[-1])
        limit = min(mapped.file_size, self._end - mapped.file_from_offset)
        start = int(positions[good])
        return self._damaged(mapped, start, limit, records.faults[good], found)

    def _damaged(self, mapped: MappedFile, start: int, limit: int, why: str, found: _FileResult) -> int:
        """Note damage at `start`; the position of the next whole record (or `limit`)."""
        following = _next_record(mapped, start + 1, limit)
        found.lost += 1
        found.findings.append(Finding("record", str(mapped.path), start, following - start, why))
        return following

    def _units_of(self, rows: DispatchRows, records: RecordColumns, found: _FileResult) -> None:
        """Every record's unit: there, and the same."""
        skipped = records.sys_flag & INNER_BATCH_FLAG != 0
        for code, (topic, queue_id) in enumerate(rows.queues):
            mine = np.flatnonzero((rows.queue_of == code) & ~skipped)
            if len(mine) == 0 or (self._reader.paths.batch_consume_queue / topic).is_dir():
                continue
            found.seen[topic, queue_id] = found.seen.get((topic, queue_id), 0) + len(mine)
            if len(found.findings) < _MAX_FINDINGS_A_FILE:
                self._compare_units(topic, queue_id, rows, mine, found)

    def _compare_units(
        self, topic: str, queue_id: int, rows: DispatchRows, mine: npt.NDArray[np.intp], found: _FileResult
    ) -> None:
        queue = self._reader.find(topic, queue_id)
        _, high = self._snapshot.queues.get((topic, queue_id), (0, 0))
        directory = self._reader.paths.consume_queue / topic / str(queue_id)
        offsets = rows.queue_offsets[mine]
        if queue is None:
            if self._settled and topic in self._topics:
                found.findings.append(
                    Finding(
                        "missing-unit",
                        str(directory),
                        int(offsets[0]) * UNIT_SIZE,
                        len(mine) * UNIT_SIZE,
                        "no such queue",
                    )
                )
            return
        if not self._settled:
            mine = mine[offsets < high]
            offsets = rows.queue_offsets[mine]
            if len(mine) == 0:
                return
        first, last = int(offsets.min()), int(offsets.max())
        units = queue.units(max(first, queue.first_unit), last + 1)
        at = offsets - max(first, queue.first_unit)
        there = (at >= 0) & (at < len(units))
        missing = np.flatnonzero(~there)
        chosen = units[np.where(there, at, 0)] if len(units) else None
        if chosen is not None:
            missing = np.flatnonzero(~(there & written(chosen)))
            codes = chosen["tags_code"].astype(np.int64)
            same = (chosen["phy_offset"] == rows.phy_offsets[mine]) & (chosen["msg_size"] == rows.sizes[mine])
            if topic != SCHEDULE_TOPIC:
                same &= (codes == rows.tags_codes[mine]) | (codes <= MAX_EXT_ADDRESS)
            wrong = np.setdiff1d(np.flatnonzero(~same), missing)
            for row in wrong[:_MAX_FINDINGS_A_FILE].tolist():
                found.findings.append(self._unit_finding("wrong-unit", queue.file_size, directory, offsets, row))
        for row in missing[:_MAX_FINDINGS_A_FILE].tolist():
            found.findings.append(self._unit_finding("missing-unit", queue.file_size, directory, offsets, row))

    def _unit_finding(self, kind: str, file_size: int, directory: Path, offsets: Ints, row: int) -> Finding:
        position = int(offsets[row]) * UNIT_SIZE
        base = position - position % file_size
        return Finding(
            kind, str(directory / f"{base:020d}"), position - base, UNIT_SIZE, f"queue offset {offsets[row]}"
        )

    # -- queues and index

    def _queues(self, seen: dict[tuple[str, int], int]) -> None:
        """Units that no record of the log asked for."""
        for (topic, queue_id), (low, high) in self._snapshot.queues.items():
            queue = self._reader.find(topic, queue_id)
            if queue is None or topic.startswith("%LMQ%"):
                continue
            beyond = queue.units(high, high + 1)
            directory = self._reader.paths.consume_queue / topic / str(queue_id)
            if self._settled and len(beyond) and written(beyond)[0] and self._claims_record(beyond):
                position = high * UNIT_SIZE
                base = position - position % queue.file_size
                self._find(
                    "stray-unit",
                    directory / f"{base:020d}",
                    position - base,
                    UNIT_SIZE,
                    f"queue offset {high} points at {int(beyond['phy_offset'][0])}: another or a damaged record",
                )
            if seen.get((topic, queue_id), 0) == high - low:
                continue
            self._stray_units(topic, queue_id, low, high, directory)

    def _claims_record(self, unit: npt.NDArray[np.void]) -> bool:
        """Whether a record that says it is at this place, and of this size, stands where the unit points."""
        phy_offset, size = int(unit["phy_offset"][0]), int(unit["msg_size"][0])
        if phy_offset < self._reader.min_phy_offset:
            return False
        return self._reader.record_size_at(phy_offset) == size or phy_offset == self._end

    def _stray_units(self, topic: str, queue_id: int, low: int, high: int, directory: Path) -> None:
        queue = self._reader.find(topic, queue_id)
        assert queue is not None
        found = 0
        for start in range(low, high, 1 << 16):
            units = self._reader.read_units(topic, queue_id, start, min(start + (1 << 16), high))
            bad = ~(self._reader.units_match(topic, queue_id, start, units) | pre_blank(units))
            for row in np.flatnonzero(bad).tolist():
                if found >= _MAX_FINDINGS_A_FILE:
                    return
                found += 1
                position = (start + row) * UNIT_SIZE
                base = position - position % queue.file_size
                self._find(
                    "stray-unit",
                    directory / f"{base:020d}",
                    position - base,
                    UNIT_SIZE,
                    f"queue offset {start + row} points at {int(units['phy_offset'][row])}, where its record is not",
                )

    def _index(self, index: IndexFile, pairs: dict[int, Ints]) -> None:
        header = index.reload()
        if not 1 <= header.index_count <= index.index_num:
            self._find("index-header", index.path, 36, 4, f"index count is {header.index_count}")
            return
        table = index.entry_table()[1:]
        numbers = np.arange(1, len(table) + 1)
        phy_offsets = table["phy_offset"].astype(np.int64)
        hashes = table["key_hash"].astype(np.int64)
        size = self._reader.config.mapped_file_size_commit_log
        in_log = (phy_offsets >= self._reader.min_phy_offset) & (phy_offsets < self._end)
        good = ~in_log & (phy_offsets < self._reader.min_phy_offset)
        for base in np.unique(phy_offsets[in_log] // size * size).tolist():
            known = pairs.get(base, np.zeros(0, np.int64))
            mine = np.flatnonzero(in_log & (phy_offsets // size * size == base))
            wanted = ((phy_offsets[mine] - base) << 32) | hashes[mine]
            at = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
            good[mine] = known[at] == wanted if len(known) else False
        if not self._settled:
            good |= phy_offsets >= self._end
        self._entries(index, numbers[~good], "index-entry", "no record with this key at the place it names")
        slots = hashes % index.hash_slot_num
        order = np.argsort(slots, kind="stable")
        previous = np.zeros(len(table), np.int64)
        same = slots[order][1:] == slots[order][:-1]
        previous[order[1:][same]] = numbers[order[:-1][same]]
        self._entries(index, numbers[table["prev_index"] != previous], "index-chain", "points at another entry")
        heads = np.zeros(index.hash_slot_num, np.int64)
        heads[slots[order]] = numbers[order]
        wrong = np.flatnonzero(index.slots() != heads)
        for slot in wrong[:_MAX_FINDINGS_A_FILE].tolist() if self._settled else []:
            self._find("index-chain", index.path, 40 + 4 * slot, 4, f"slot {slot} does not head its chain")

    def _entries(self, index: IndexFile, numbers: npt.NDArray[np.intp], kind: str, detail: str) -> None:
        start = 40 + 4 * index.hash_slot_num
        for number in numbers[:_MAX_FINDINGS_A_FILE].tolist():
            self._find(kind, index.path, start + 20 * number, 20, f"entry {number}: {detail}")


def _next_record(mapped: MappedFile, start: int, limit: int) -> int:
    """Position of the first place at or behind `start` where a record stands that says it stands there."""
    octets = np.frombuffer(mapped.buffer, np.uint8)
    step = 1 << 20
    while start + MIN_RECORD_SIZE <= limit:
        stop = min(start + step, limit - MIN_RECORD_SIZE + 1)
        window: npt.NDArray[Any] = np.ndarray((stop - start,), ">i4", buffer=octets[start + 4 :], strides=(1,))
        for at in np.flatnonzero((window == MAGIC_V1) | (window == MAGIC_V2)).tolist():
            position = start + at
            own = int.from_bytes(octets[position + 28 : position + 36].tobytes(), "big", signed=True)
            size = int.from_bytes(octets[position : position + 4].tobytes(), "big", signed=True)
            if own == position + mapped.file_from_offset and MIN_RECORD_SIZE <= size <= limit - position:
                return position
        start = stop
    return limit
