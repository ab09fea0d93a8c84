"""`store restore`: a store from a backup, or damaged records of a store from a backup or a replica."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow.cli.store.backup_store import back_up
from rocketflow.cli.store.verify_report import VerifyReport
from rocketflow.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketflow_store import StoreConfig

    Progress = Callable[[int, int], None] | None

_PARTIAL = ".partial"


FIELDS: Final[dict[str, dict[str, str]]] = {
    "store restore": {
        "path": "the store",
        "backup": "the backup or replica",
        "dryRun": "whether nothing was written",
        "created": "whether the path had no store, so that all of it was restored",
        "minOffset": "begin of the log",
        "maxOffset": "end of the log",
        "commitLogFiles": "CommitLog files that were restored, of an existing store those that were missing",
        "records": "records that were restored; null in a dry run for a path without a store",
        "putBack": "ranges of an existing store's log that were put back, or would be",
        "putBack.file": "CommitLog file",
        "putBack.offset": "where the range begins in the file, bytes",
        "putBack.length": "its bytes",
        "putBack.records": "its records",
        "putBack.topic": "topic of the first",
        "putBack.queueId": "queue of the first",
        "putBack.queueOffset": "queue offset of the first",
        "damaged": "damaged ranges that the backup does not restore: file, offset, length, why",
        "findings": "what `store verify` finds afterwards in an existing store",
        "lostRecords": "records that are lost all the same",
        "seconds": "time it took",
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


class Restore:
    """One run of the command; `report` has what a store lacks after damaged records were put back."""

    def __init__(self, backup: str, path: str, config: StoreConfig, *, dry_run: bool) -> None:
        from rocketflow_store.spi.places import holds_log

        if Path(backup).name.endswith(_PARTIAL):
            raise UsageError(f"{backup} is an incomplete backup: its command did not end; give a complete one")
        self._backup, self._path, self._config, self._dry_run = backup, path, config, dry_run
        self._creates = not holds_log(path, config)
        self._report: VerifyReport | None = None
        self.exit_code = 0

    def run(self, workers: int | None, progress: Callable[[], Progress]) -> dict[str, Any]:
        """Create the store if the path has none, else put damaged records back; return the fields."""
        fields = {
            "path": self._path,
            "backup": self._backup,
            "dryRun": self._dry_run,
            "created": self._creates,
            "putBack": [],
            "findings": [],
            "lostRecords": 0,
        }
        if not self._creates:
            fields |= self._put_back(workers, progress())
        elif self._dry_run:
            fields |= self._preview()
        else:
            made = back_up(self._backup, self._path, self._config, workers, progress)
            fields |= {name: made[name] for name in _SHARED}
            self.exit_code = 3 if made["damaged"] else 0
        return fields

    def _preview(self) -> dict[str, Any]:
        from rocketflow_store import StoreReader
        from rocketflow_store.spi.reads import log_figures

        if Path(self._path).exists():
            raise UsageError(f"{self._path} exists and is no store: give a path that does not exist")
        with StoreReader(self._backup) as reader:
            ends = {"minOffset": reader.min_phy_offset, "maxOffset": reader.max_phy_offset}
            return {**ends, "commitLogFiles": log_figures(reader).files, "records": None, "damaged": [], "seconds": 0.0}

    def _put_back(self, workers: int | None, progress: Progress) -> dict[str, Any]:
        from rocketflow_store.spi.maintenance import next_steps, put_back

        done = put_back(
            self._path, self._backup, self._config, dry_run=self._dry_run, workers=workers or 2, progress=progress
        )
        self.exit_code = 3 if done.refused else 0
        if not self._dry_run:
            self._report = VerifyReport(self._path, None)
            self.exit_code = self._report.take(
                done.left, bool(next_steps(self._path, done.left, self._config)), restored=True
            )
        return {
            "minOffset": done.min_phy_offset,
            "maxOffset": done.max_phy_offset,
            "commitLogFiles": done.files,
            "records": done.records,
            "damaged": done.refused,
            "putBack": [one.as_dict() for one in done.put_back],
            "findings": [one.as_dict() for one in done.left.findings],
            "lostRecords": done.left.lost_records,
            "seconds": round(done.seconds, 3),
        }

    def print(self, fields: dict[str, Any]) -> None:
        """Print the fields for people."""
        would = "would be " if self._dry_run else ""
        if self._creates:
            begin, end, count = fields["minOffset"], fields["maxOffset"], fields["commitLogFiles"]
            records = "" if fields["records"] is None else f"{fields['records']} records in {fields['seconds']:.2f} s, "
            print(f"{self._path} {would}restored from {self._backup}: {records}log [{begin}, {end}), {count} files")
        for one in fields["putBack"]:
            first = f"{one['topic']} queue {one['queueId']} offset {one['queueOffset']}"
            which = f"{first}" if one["records"] == 1 else f"{one['records']} records from {first} on"
            print(f"{would}put back  {one['file']} offset {one['offset']}: {one['length']} bytes, {which}")
        for one in fields["damaged"]:
            print(f"not restored  {one['file']} offset {one['offset']}: {one['length']} bytes, {one['why']}")
        if not self._creates and not fields["putBack"]:
            print("nothing to put back" if not fields["damaged"] else "nothing was put back")
        if self._report is not None:
            self._report.print()


_SHARED = ("minOffset", "maxOffset", "commitLogFiles", "records", "damaged", "seconds")
