"""The batches of a query's checkpoint, as Spark logs them: `offsets/N` plans batch N, `commits/N` ends it.

A reset is one more planned batch. Its offset is a `StreamOffset` with `resets`, so the batch has no rows: the sink gets
an id that it has not seen, Spark drops a batch that was planned before and did not end, and the batch after it begins
at the reset's positions. One file appears at once; no other file changes, and until the query runs, deleting that file
undoes the reset.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rocketflow.spark.shared.checkpoint import local_directory
from rocketflow.spark.source.stream_offset import CheckpointError, QueueKey, QueuePosition, StreamOffset
from rocketflow_store.spi.json_text import parse_json

_FORMAT: Final = "v1"
"""The format of entries that Spark 4.3 writes."""
_VOID: Final = "-"
"""The offset of a source that has none yet."""


@dataclass(frozen=True, slots=True)
class BatchLog:
    """The newest batches of a query with one source."""

    home: Path
    newest: int
    """The newest planned batch."""
    committed: int | None
    """The newest batch that has ended, None before the first."""
    begin: StreamOffset | None
    """Where the next batch begins; None for the first batch, whose begin is not stored."""
    planned: StreamOffset | None
    """Where a batch ends that was planned and has not ended."""
    metadata: dict[str, Any]

    @property
    def waits(self) -> bool:
        """True if a reset waits for the next run of the query."""
        return self.planned is not None and self.planned.resets

    @property
    def has_state(self) -> bool:
        """True if the query keeps state, one version for each batch."""
        with contextlib.suppress(OSError):
            return any((self.home / "state").iterdir())
        return False

    def starts(self) -> dict[QueueKey, QueuePosition | None]:
        """Return where the next batch begins in each known queue; None for a position that is not stored."""
        if self.waits:
            assert self.planned is not None
            return dict(self.planned.positions)
        found: dict[QueueKey, QueuePosition | None] = {}
        for key, position in () if self.planned is None else self.planned.positions.items():
            found[key] = None if position.first_offset is None else QueuePosition(position.first_offset)
        for key, position in () if self.begin is None else self.begin.positions.items():
            found[key] = position.without_first()
        return found

    def append(self, reset: StreamOffset, now_ms: int) -> Path:
        """Plan one more batch, which ends at a reset; return its file.

        Raises CheckpointError if the batch exists meanwhile: the query is running.
        """
        target = self.home / "offsets" / str(self.newest + 1)
        made = target.with_name(f".{target.name}.{uuid.uuid4()}.tmp")
        metadata = {**self.metadata, "batchTimestampMs": now_ms}
        text = "\n".join((_FORMAT, json.dumps(metadata, separators=(",", ":")), json.dumps(reset.to_json())))
        try:
            with made.open("x", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            target.with_name(f".{target.name}.crc").unlink(missing_ok=True)
            os.link(made, target)  # unlike a rename, it replaces nothing
            _sync(target.parent)
        except FileExistsError:
            raise CheckpointError(
                f"{target} was written meanwhile: the query is running; stop it, and repeat the reset"
            ) from None
        except OSError as error:
            raise CheckpointError(f"{target} cannot be written: {error.strerror}") from None
        finally:
            made.unlink(missing_ok=True)
        return target


def read_batch_log(location: str) -> BatchLog:
    """Return the newest batches of the checkpoint at a location. Raises CheckpointError."""
    home = local_directory(location)
    if home is None:
        raise CheckpointError(f"checkpoint {location} is not on a file system of this machine: copy or mount it")
    planned, ended = _batches(home, "offsets"), _batches(home, "commits")
    if not planned:
        if (home / "metadata").is_file():
            raise CheckpointError(
                f"checkpoint {location} has no batch yet: the query begins where its options (startingOffsets) say"
            )
        raise CheckpointError(f"{location} is no checkpoint of a query: it has no offsets/")
    newest, committed = planned[-1], ended[-1] if ended else None
    if committed is not None and committed > newest:
        raise CheckpointError(f"checkpoint {location} is damaged: {home / 'offsets' / str(committed)} is missing")
    metadata, last = _entry(home / "offsets" / str(newest))
    if committed == newest:
        watermark = _watermark(home / "commits" / str(newest))
        metadata["batchWatermarkMs"] = max(watermark, _number(metadata.get("batchWatermarkMs")))
        return BatchLog(home, newest, committed, last, None, metadata)
    begin = _entry(home / "offsets" / str(newest - 1))[1] if newest > 0 else None
    return BatchLog(home, newest, committed, begin, last, metadata)


def _batches(home: Path, name: str) -> list[int]:
    """Return the batches that have a file, sorted."""
    try:
        return sorted(int(one) for one in os.listdir(home / name) if one.isascii() and one.isdigit())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise CheckpointError(f"{home / name} cannot be read: {error.strerror}") from None


def _entry(file: Path) -> tuple[dict[str, Any], StreamOffset]:
    """Return the metadata and the source's offset of a planned batch."""
    lines = _lines(file)
    if len(lines) < 3:
        raise CheckpointError(f"{file} is damaged: it has {len(lines)} lines instead of 3 or more")
    if len(lines) > 3:
        raise CheckpointError(f"{file} is of a query with {len(lines) - 2} sources: the command works on one source")
    if lines[2] == _VOID:
        raise CheckpointError(f"{file} has no offset: the query has not read its source yet")
    metadata, value = _json(file, lines[1]), _json(file, lines[2])
    if not isinstance(metadata, dict):
        raise CheckpointError(f"{file} is damaged: its second line is no JSON object")
    try:
        return metadata, StreamOffset.from_json(value)
    except CheckpointError as error:
        raise CheckpointError(f"{file}: {error}") from None


def _watermark(file: Path) -> int:
    """Return the watermark that a batch left to the next one."""
    lines = _lines(file)
    found = _json(file, lines[1]) if len(lines) > 1 else {}
    return _number(found.get("nextBatchWatermarkMs")) if isinstance(found, dict) else 0


def _number(value: object) -> int:
    return value if type(value) is int else 0


def _lines(file: Path) -> list[str]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise CheckpointError(f"{file} cannot be read: {why}") from None
    if not lines or lines[0] != _FORMAT:
        shown = repr(lines[0][:40]) if lines else "nothing"
        raise CheckpointError(f"{file} is damaged or of another release of Spark: it begins with {shown}, not 'v1'")
    return lines


def _json(file: Path, text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:
        raise CheckpointError(f"{file} is damaged: {error}") from None


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
