"""Export of a topic as Parquet: one file a queue, with the source's columns, complete once it has its name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocketflow_store.files import os_files
from rocketflow_store.files.os_files import access_error
from rocketflow_store.model.errors import FileExistsInTargetError
from rocketflow_store.model.on_bad_body import OnBadBody
from rocketflow_store.reading.faults import SkipFaults
from rocketflow_store.records.arrow.columns import BODY_ERROR, DEFAULT_COLUMNS, source_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketflow_store.reading.store_reader import StoreReader


def _file_name(topic: str) -> str:
    """Return a distinct file name for each topic, which does not begin with `_`: Spark hides such files."""
    name = topic.replace("%", "+")
    return f"@{name}" if name.startswith("_") else name


def export_topic(
    reader: StoreReader,
    topic: str,
    directory: str | Path,
    progress: Callable[[int, int], None] | None = None,
    *,
    overwrite: bool = True,
    on_bad_body: OnBadBody = OnBadBody.FAIL,
) -> dict[str, Any]:
    """Write every queue of `topic` into `directory`; return {topic, rows, files, leftOut}.

    Messages that cannot be read are skipped, and counted. With OnBadBody.RAW the files have a column `bodyError`.
    `progress(done, total)` is called with queue offsets. Memory
    is bounded by one batch.

    Raises:
        DamagedBodyError: a body cannot be decoded, and `on_bad_body` is OnBadBody.FAIL.
        FileExistsInTargetError: one of the files exists, and not `overwrite`; raised before anything is written.
    """
    import pyarrow.parquet

    target = Path(directory)
    try:
        os_files.make_directory(target)
    except OSError as error:
        raise access_error(target, error) from error
    rows = wanted = passed = 0
    files: list[str] = []
    schema = source_schema((*DEFAULT_COLUMNS, BODY_ERROR) if on_bad_body is OnBadBody.RAW else DEFAULT_COLUMNS)
    bounds = {queue_id: reader.bounds(topic, queue_id) for queue_id in reader.queues(topic)}
    bounds = {queue_id: (low, high) for queue_id, (low, high) in bounds.items() if low < high}
    paths = {queue_id: target / f"{_file_name(topic)}-{queue_id:05d}.parquet" for queue_id in bounds}
    total = sum(high - low for low, high in bounds.values())
    for path in paths.values():
        if not overwrite and os.path.lexists(path):
            raise FileExistsInTargetError(path)
    for queue_id, (low, high) in bounds.items():
        path = paths[queue_id]
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            with pyarrow.parquet.ParquetWriter(temporary, schema) as writer:
                for batch in reader.read(topic, queue_id, low, high, faults=SkipFaults(on_bad_body=on_bad_body)):
                    writer.write_batch(batch)
                    rows += batch.num_rows
                    if progress is not None and batch.num_rows:
                        progress(passed + batch["queueOffset"][-1].as_py() + 1 - low, total)
                passed += high - low
                wanted += high - max(low, reader.min_offset(topic, queue_id))  # retention may have removed messages
            os_files.rename(temporary, path)
        except OSError as error:
            raise access_error(path, error) from error
        finally:
            os_files.remove_file(temporary)
        files.append(str(path))
    return {"topic": topic, "rows": rows, "files": files, "leftOut": max(wanted - rows, 0)}
