"""The walk of a log from record to record with all checks; it notices sink commits that miss rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.log.scan_file import RunLength, scan_file
from rocketflow_store.metadata.native.commit_envelope import COMMIT_TOPIC, envelope_of
from rocketflow_store.model.errors import CorruptRecordError
from rocketflow_store.records.decoding.decode import RecordColumns
from rocketflow_store.records.decoding.record_crc import judge_contents, note_lacking
from rocketflow_store.records.decoding.scan import Scan, ScanStop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.metadata.native.commit_envelope import CommitEnvelope

_MAX_KNOWN_RECORDS: Final = 1 << 22
"""The most records of which the walk remembers the begins for the next pass: 16 bytes each."""


class CheckedWalk:
    """One pass over a log. Records at or after `record_crc_from` must end with a record CRC."""

    def __init__(self, files: MappedFileQueue, log: CommitLogView, *, check_crc: bool, record_crc_from: int) -> None:
        self._files, self._log = files, log
        self._check_crc, self._record_crc_from = check_crc, record_crc_from
        self.known_scans: dict[int, Scan] = {}
        """Scans of runs, by the physical offset at which each began."""
        self._known_records = 0
        self._run_length = RunLength()
        self._protected_until = 0
        """End of the last commit with record CRCs: the records before it must have them."""
        self.open_envelope = self.open_end = -1
        """The envelope of which not all rows were seen yet (-1: none), and the end of its commit."""

    def runs(self, start: int) -> Iterator[tuple[MappedFile, RecordColumns, int]]:
        """Yield checked runs of records from `start` on, and how many records of each have valid places and lengths.

        The records after those prove nothing: the caller must find where the log continues.
        """
        offset = start
        while True:
            mapped = self._files.find(offset)
            if mapped is None:
                return
            scan = scan_file(mapped, offset - mapped.file_from_offset, mapped.file_size, self._run_length.records)
            if self._known_records + len(scan.positions) <= _MAX_KNOWN_RECORDS:
                self._known_records += len(scan.positions)
                self.known_scans[offset] = scan
            if len(scan.positions):
                records = RecordColumns(mapped.buffer, scan.positions, scan.sizes)
                records.check_own_offset(mapped.file_from_offset)
                judged = min(records.faults, default=records.count)
                self._run_length.judged(sound=judged == records.count)
                if self._check_crc:
                    records.faults.update(self._content_faults(mapped, records.before_faults()))
                yield mapped, records, judged
            offset = mapped.file_from_offset + scan.end
            if scan.stop is ScanStop.BLANK:
                offset = mapped.end_offset
            elif scan.stop is ScanStop.END:
                return

    def _content_faults(self, mapped: MappedFile, records: RecordColumns) -> dict[int, str]:
        """Return the faults in the contents of records whose places are right, by row."""
        faults, protected = judge_contents(records)
        places = records.positions + mapped.file_from_offset
        must = (places >= self._record_crc_from) | (places < self._protected_until)
        for envelope_row, commit in self._commits_in(records, 0, records.count, mapped):
            if envelope_row not in faults and commit.record_crc:
                self._protected_until = commit.end_offset
                must[envelope_row:] |= places[envelope_row:] < self._protected_until
        note_lacking(faults, must & ~protected)
        return faults

    def after_blank(self, offset: int) -> int:
        """Return the next file's begin if a blank record begins at `offset`, else `offset`."""
        mapped = self._files.find(offset)
        if mapped is None:
            return offset
        scan = scan_file(mapped, offset - mapped.file_from_offset, mapped.file_size, 1)
        return mapped.end_offset if scan.stop is ScanStop.BLANK and len(scan.positions) == 0 else offset

    def look_for_envelope(self, records: RecordColumns, begin: int, stop: int, mapped: MappedFile) -> None:
        """Note an envelope whose rows do not end within these records, or that the rows of the last one have ended."""
        base = mapped.file_from_offset
        last = base + int(records.positions[stop - 1] + records.sizes[stop - 1]) if stop > begin else -1
        if self.open_envelope >= 0:
            if last < self.open_end:
                return
            self.open_envelope = -1
        for row, envelope in self._commits_in(records, begin, stop, mapped):
            if envelope.end_offset > last:
                self.open_end, self.open_envelope = envelope.end_offset, base + int(records.positions[row])
                return

    def _commits_in(
        self, records: RecordColumns, begin: int, stop: int, mapped: MappedFile
    ) -> Iterator[tuple[int, CommitEnvelope]]:
        """Yield the envelopes among rows [begin, stop), with their rows."""
        width = len(COMMIT_TOPIC)
        sizes = records.topic_ends[begin:stop] - records.topic_starts[begin:stop]
        for row in (begin + np.flatnonzero(sizes == width)).tolist():
            at = int(records.topic_starts[row])
            if records.octets[at : at + width].tobytes() != COMMIT_TOPIC.encode():
                continue
            try:
                message = self._log.message_at(mapped.file_from_offset + int(records.positions[row]))
            except CorruptRecordError:
                continue  # the record is damaged itself
            envelope = envelope_of(message)
            if envelope is not None:
                yield row, envelope
