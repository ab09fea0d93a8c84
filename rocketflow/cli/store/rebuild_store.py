"""`store rebuild`: the request from the command's options, and the lines of its summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from rocketflow.errors import RocketFlowError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocketflow_store import StoreConfig
    from rocketflow_store.spi.rebuild import RebuildRequest, RebuildResult

    Progress = Callable[[int, int], None] | None


def request_of(
    only: str | None,
    topics: Sequence[str],
    queue: int | None,
    places: tuple[str | None, str | None, str | None] = (None, None, None),
    profile: str | None = None,
    *,
    dry_run: bool,
    force: bool,
    wait: bool,
) -> RebuildRequest:
    """Return the request; `places` are log, target and scratch. typer.BadParameter if options exclude each other."""
    from rocketflow_store.spi.rebuild import PROFILES, RebuildRequest

    if only not in (None, "consumequeue", "index"):
        raise typer.BadParameter(f"--only {only!r}: consumequeue or index")
    if only == "index" and (topics or queue is not None):
        raise typer.BadParameter("--only index covers all topics; remove --topic and --queue")
    if queue is not None and not topics:
        raise typer.BadParameter("--queue needs --topic")
    if queue is not None and queue < 0:
        raise typer.BadParameter(f"--queue {queue}: queues are numbered from 0")
    if profile not in (None, *PROFILES):
        raise typer.BadParameter(f"--profile {profile!r}: {' or '.join(PROFILES)}")
    if profile is not None and (only == "consumequeue" or topics):
        raise typer.BadParameter("--profile converts the index; remove --only consumequeue, --topic and --queue")
    return RebuildRequest(only, frozenset(topics), queue, dry_run, force, wait, *places, profile)


def summary(result: RebuildResult) -> list[str]:
    """Return the lines of a summary for people."""
    verb = "would be made" if result.dry_run else "made"
    lines = [
        f"{result.records} records of {result.bytes} bytes of log, {result.seconds:.2f} s",
        f"{result.units} units in {result.queues} queues, {result.index_entries} index entries, {verb} in "
        f"{result.files} files",
    ]
    if result.dry_run:
        lines.append(
            f"about {result.needed_bytes} bytes are needed beside the store, and {result.estimated_seconds:.1f} s"
        )
        if result.no_room:
            lines.append(f"no room: {result.no_room}")
    elif result.swapped:
        lines.append(f"{result.changed_files} files differed from the old ones, and were swapped")
    else:
        lines.append("no file differs from the old ones")
    lines += [
        f"damaged  {one['file']} offset {one['offset']}: {one['length']} bytes, {one['why']}" for one in result.damaged
    ]
    if result.deleted_topics:
        lines.append(f"not rebuilt, because they were deleted: {', '.join(result.deleted_topics)}")
    return lines


def rebuild_locally(
    path: str,
    request: RebuildRequest,
    config: StoreConfig | None,
    workers: int | None,
    progress: Callable[[], Progress],
) -> RebuildResult:
    """Rebuild with processes of this machine; `progress` starts a progress bar after they have started."""
    from rocketflow_store.spi.rebuild import LocalEngine, rebuild_store

    with LocalEngine(workers) as engine:
        return rebuild_store(path, request, config, engine=engine, progress=progress())


def rebuild_on_spark(
    path: str, request: RebuildRequest, config: str | None, workers: int | None, progress: Callable[[], Progress]
) -> RebuildResult:
    """Rebuild with Spark on this machine; use `jobs/rebuild_index.py` for a cluster."""
    from rocketflow.process.job_errors import exit_code_of
    from rocketflow.spark.rebuild.rebuild_job import RebuildJob, run_in_own_session

    job = RebuildJob(path, request, config)
    try:
        return run_in_own_session(job, progress, master=None if workers is None else f"local[{workers}]")
    except RocketFlowError:
        raise
    except Exception as error:  # the text of Spark's error holds the error of a task
        raise typer.Exit(exit_code_of(error)) from error
